#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hethub {

/// A number that belongs to a span, such as {"bytes", 4096}.
struct SpanArg {
  std::string name = {};
  double value = 0;

  bool operator==(const SpanArg&) const = default;
};

/// One stretch of time in which one lane of one rank did one thing. A simulated step and a measured
/// one have the same spans, with the same names.
struct Span {
  int rank = 0;
  std::string lane = {};      ///< what works side by side inside a rank: "compute", "comm", ...
  std::string name = {};      ///< e.g. "forward 3"
  std::string category = {};  ///< what it is an instance of, e.g. "forward", "send", "all_reduce"
  double begin_s = 0;
  double end_s = 0;
  std::vector<SpanArg> args = {};

  double seconds() const { return end_s - begin_s; }
  bool operator==(const Span&) const = default;
};

/// What ranks did over some time, simulated and measured alike.
struct Timeline {
  std::string name = {};                       ///< "predicted", "measured", ...
  std::map<int, std::string> rank_names = {};  ///< e.g. {0, "rank 0 (cpu)"}; may lack ranks
  std::vector<Span> spans = {};                ///< in any order
  std::int64_t dropped = 0;                    ///< spans that a full recorder let go

  bool operator==(const Timeline&) const = default;
};

/// Seconds from the first begin to the last end; 0 if there is no span.
double makespan_s(const Timeline& timeline);

/// Seconds in which `lane` of `rank` did anything: spans that overlap or nest count once.
double busy_s(const Timeline& timeline, int rank, std::string_view lane);

/// The ranks that have a span, ascending.
std::vector<int> ranks_of(const Timeline& timeline);

/// The share of the ranks' time in which `lane` did nothing: 1 - busy / (ranks · makespan).
/// 0 if no time passed.
double bubble_fraction(const Timeline& timeline, std::string_view lane = "compute");

/// One timeline from those of many ranks. Rank r's clock shows its entry of `clock_offset_s`
/// (0 if absent) more than the common clock does, so that much is taken off its times; then
/// all are moved together so that the first span begins at 0. Spans are ordered by begin, rank,
/// lane, the longer first: an order that does not depend on the order of `parts`.
Timeline merge(std::span<const Timeline> parts, const std::map<int, double>& clock_offset_s = {});

}  // namespace hethub
