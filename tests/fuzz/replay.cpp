// Runs a fuzz target without a fuzzer: the files of a corpus, then so many inputs that are made of
// them by a fixed generator. Every allocation is held to a bound.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <vector>

#include "tests/fuzz/bound.h"
#include "tests/fuzz/target.h"

namespace hethub {
namespace {

using Input = std::vector<std::uint8_t>;

std::vector<Input> corpus_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Input> all;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    all.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return all;
}

// The front of one input, the rest of another, and some bytes changed.
Input mutated(const std::vector<Input>& corpus, std::mt19937& random) {
  const Input& front = corpus[random() % corpus.size()];
  const Input& rest = corpus[random() % corpus.size()];
  Input made(front.begin(), front.begin() + static_cast<int>(random() % (front.size() + 1)));
  made.insert(made.end(), rest.begin() + static_cast<int>(random() % (rest.size() + 1)),
              rest.end());
  if (made.empty()) made.push_back(0);
  for (unsigned change = random() % 8; change > 0; --change) {
    made[random() % made.size()] = static_cast<std::uint8_t>(random());
  }
  return made;
}

int replay(const std::filesystem::path& folder, int runs) {
  const std::vector<Input> corpus = corpus_of(folder);
  if (corpus.empty()) {
    std::cerr << "no corpus in " << folder << '\n';
    return 1;
  }
  std::mt19937 random(1);
  bound_allocations();
  for (const Input& input : corpus) {
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  for (int run = 0; run < runs; ++run) {
    const Input input = mutated(corpus, random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::cout << corpus.size() << " files and " << runs << " made of them\n";
  return 0;
}

}  // namespace
}  // namespace hethub

int main(int argc, char** argv) {
  if (argc < 2) return 64;
  const char* runs = std::getenv("HETHUB_FUZZ_RUNS");
  return hethub::replay(argv[1], runs == nullptr ? 20'000 : std::atoi(runs));
}
