#include "hethub/collective/algorithm.h"

#include <algorithm>
#include <numeric>

#include "hethub/base/error.h"
#include "hethub/base/split.h"
#include "hethub/base/text.h"

namespace hethub {
namespace {

void check_table(const CollectiveAlgorithm& algorithm, std::span<const std::int64_t> table) {
  require(std::ssize(table) == algorithm.chunks, [&] {
    return ErrorParts{.what = text(algorithm.name, ": chunk table"),
                      .found = text(table.size(), " chunks"),
                      .expected = text(algorithm.chunks),
                      .fix = "give one element count for each chunk of the algorithm"};
  });
  const auto least = std::min_element(table.begin(), table.end());
  require(table.empty() || *least >= 0, [&] {
    return ErrorParts{.what = text(algorithm.name, ": chunk ", least - table.begin()),
                      .found = text(*least, " elements"),
                      .expected = "0 or more",
                      .fix = "give the number of elements of each chunk"};
  });
}

std::int64_t largest(std::span<const std::int64_t> table) {
  return table.empty() ? 0 : *std::max_element(table.begin(), table.end());
}

std::string text_of(const Slot& slot) {
  const std::string chunks = slot.chunks == 1
                                 ? text("chunk ", slot.chunk)
                                 : text("chunks ", slot.chunk, "-", slot.chunk + slot.chunks - 1);
  switch (slot.memory) {
    case Memory::kData:
      return chunks;
    case Memory::kScratch:
      return text(chunks, " in place ", slot.place);
    case Memory::kInput:
      return text(chunks, " of the input");
    case Memory::kMirror:
      return text(chunks, " of the mirror");
  }
  return chunks;
}

std::string text_of(const Step& step) {
  switch (step.kind) {
    case StepKind::kSend:
      return text("send ", text_of(step.from), " to rank ", step.peer);
    case StepKind::kRecv:
      return text("recv ", text_of(step.to), " from rank ", step.peer);
    case StepKind::kReduce:
      return text("reduce ", text_of(step.from),
                  step.terms > 1 ? text(" and the ", step.terms - 1, " after it") : std::string(),
                  " into ", text_of(step.to), step.completes ? " (complete)" : "");
    case StepKind::kCopy:
      return text("copy ", text_of(step.from), " to ", text_of(step.to));
  }
  return {};
}

}  // namespace

ChunkTable even_chunks(std::int64_t total, int chunks) {
  ChunkTable table;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    table.push_back(part_of(total, chunks, chunk).size());
  }
  return table;
}

std::int64_t elements_of(const Slot& slot, std::span<const std::int64_t> table) {
  const auto run =
      table.subspan(static_cast<std::size_t>(slot.chunk), static_cast<std::size_t>(slot.chunks));
  return std::accumulate(run.begin(), run.end(), std::int64_t{0});
}

std::int64_t scratch_elements(const CollectiveAlgorithm& algorithm,
                              std::span<const std::int64_t> table) {
  check_table(algorithm, table);
  const std::int64_t mirror =
      algorithm.mirrored ? std::accumulate(table.begin(), table.end(), std::int64_t{0}) : 0;
  return algorithm.scratch_places * largest(table) + mirror;
}

std::int64_t elements_sent(const CollectiveAlgorithm& algorithm,
                           std::span<const std::int64_t> table, int rank) {
  check_table(algorithm, table);
  std::int64_t elements = 0;
  for (const Step& step : algorithm.steps.at(static_cast<std::size_t>(rank))) {
    if (step.kind == StepKind::kSend) elements += elements_of(step.from, table);
  }
  return elements;
}

Traffic traffic_of(const CollectiveAlgorithm& algorithm) {
  const auto& steps = algorithm.steps.front();
  const ChunkTable even(algorithm.chunks, 1);
  return {.messages = static_cast<int>(
              std::count_if(steps.begin(), steps.end(),
                            [](const Step& step) { return step.kind == StepKind::kSend; })),
          .share = static_cast<double>(elements_sent(algorithm, even, 0)) / algorithm.chunks};
}

SlotLayout::SlotLayout(const CollectiveAlgorithm& algorithm, const ChunkTable& table, int rank)
    : table_(table) {
  scratch_elements_ = hethub::scratch_elements(algorithm, table);
  place_elements_ = largest(table);
  mirror_begin_ = algorithm.scratch_places * place_elements_;
  data_ = offsets_of(algorithm.data_chunks, rank, data_elements_);
  if (!algorithm.input_chunks.empty()) {
    input_ = offsets_of(algorithm.input_chunks, rank, input_elements_);
  }
  std::int64_t mirror_elements = 0;
  if (algorithm.mirrored) mirror_ = offsets_of({}, rank, mirror_elements);
}

std::vector<std::int64_t> SlotLayout::offsets_of(const std::vector<std::vector<int>>& held,
                                                 int rank, std::int64_t& end) const {
  std::vector<int> chunks(table_.size());
  std::iota(chunks.begin(), chunks.end(), 0);
  if (!held.empty()) chunks = held.at(static_cast<std::size_t>(rank));
  std::vector<std::int64_t> offsets(table_.size(), -1);
  for (const int chunk : chunks) {
    offsets.at(static_cast<std::size_t>(chunk)) = end;
    end += table_[static_cast<std::size_t>(chunk)];
  }
  return offsets;
}

std::int64_t SlotLayout::offset(const Slot& slot) const {
  const auto chunk = static_cast<std::size_t>(slot.chunk);
  switch (slot.memory) {
    case Memory::kData:
      return data_.at(chunk);
    case Memory::kScratch:
      return slot.place * place_elements_;
    case Memory::kInput:
      return input_.at(chunk);
    case Memory::kMirror:
      return mirror_begin_ + mirror_.at(chunk);
  }
  return -1;
}

std::string steps_text(const CollectiveAlgorithm& algorithm) {
  std::string all =
      text(algorithm.name, ": ", algorithm.world_size(), " ranks, ", algorithm.chunks, " chunks\n");
  for (int rank = 0; rank < algorithm.world_size(); ++rank) {
    for (const Step& step : algorithm.steps[static_cast<std::size_t>(rank)]) {
      all += text("rank ", rank, ": ", text_of(step), '\n');
    }
  }
  return all;
}

}  // namespace hethub
