#include "cli/bench_text.h"

#include <cstdio>
#include <string>

#include <nlohmann/json.hpp>

namespace hethub {
namespace {

void print_half(const Json& row, const char* half) {
  if (!row.contains(half)) {
    std::printf(" %10s %8s %8s %6s", "-", "-", "-", "-");
    return;
  }
  const Json& times = row[half];
  std::printf(" %10.2f %8.3f %8.3f %6lld", times["seconds"].get<double>() * 1e6,
              times["algbw"].get<double>() / 1e9, times["busbw"].get<double>() / 1e9,
              static_cast<long long>(times["wrong"].get<double>()));
}

void print_row(const Json& row) {
  std::printf("%12lld %11lld %5s %5s  %-28s", row["bytes"].get<long long>(),
              row["count"].get<long long>(), row["dtype"].get<std::string>().c_str(),
              row["reduction"].get<std::string>().c_str(),
              row["algorithm"].get<std::string>().c_str());
  print_half(row, "out_of_place");
  print_half(row, "in_place");
  std::printf("\n");
}

void print_heading(const Json& row) {
  std::printf("# %s, %s, %d ranks, route %s\n", row["op"].get<std::string>().c_str(),
              row["transport"].get<std::string>().c_str(), row["ranks"].get<int>(),
              row["route"].get<std::string>().c_str());
  std::printf("#%80s  in place\n", "out of place");
  std::printf("#%11s %11s %5s %5s  %-28s", "size", "count", "type", "redop", "algorithm");
  for (int half = 0; half < 2; ++half) {
    std::printf(" %10s %8s %8s %6s", "time", "algbw", "busbw", "#wrong");
  }
  std::printf("\n#%11s %11s %5s %5s  %-28s", "(B)", "(elements)", "", "", "");
  for (int half = 0; half < 2; ++half) {
    std::printf(" %10s %8s %8s %6s", "(us)", "(GB/s)", "(GB/s)", "");
  }
  std::printf("\n");
}

void print_pair(const Json& row) {
  std::printf("%6d %6d %12lld %12.2f %10.3f\n", row["pair"][0].get<int>(),
              row["pair"][1].get<int>(), row["bytes"].get<long long>(),
              row["seconds"].get<double>() * 1e6, row["bytes_per_s"].get<double>() / 1e9);
}

}  // namespace

void print_comm_rows(const Json& rows) {
  std::string op;
  for (const Json& row : rows) {
    const bool pair = row.contains("pair");
    if (row["op"] != op) {
      op = row["op"].get<std::string>();
      if (!pair) print_heading(row);
      if (pair) {
        std::printf("# messages both ways at once, %s\n#%5s %6s %12s %12s %10s\n",
                    row["transport"].get<std::string>().c_str(), "rank", "rank", "size (B)",
                    "time (us)", "GB/s");
      }
    }
    pair ? print_pair(row) : print_row(row);
  }
}

}  // namespace hethub
