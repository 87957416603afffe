#include "hethub/train/replica_check.h"

#include <cstddef>
#include <map>
#include <span>
#include <sstream>
#include <utility>

#include "hethub/base/error.h"
#include "hethub/checkpoint/checksum.h"

namespace hethub {
namespace {

using Digests = std::map<std::pair<std::size_t, std::size_t>, std::string>;  // by segment and part

Digests parsed(const std::string& text) {
  Digests digests;
  std::istringstream lines(text);
  std::size_t segment = 0;
  std::size_t part = 0;
  for (std::string hex; lines >> segment >> part >> hex;) {
    digests[{segment, part}] = hex;
  }
  return digests;
}

const std::string& digest_of(const std::vector<Digests>& ranks, int rank, std::size_t segment,
                             std::size_t part) {
  const Digests& digests = ranks.at(static_cast<std::size_t>(rank));
  const auto found = digests.find({segment, part});
  if (found != digests.end()) return found->second;
  throw Error(ErrorCode::kCorruptData,
              {.what = text("check of replicas: rank ", rank),
               .found = text("no digest of part ", part, " of segment ", segment),
               .expected = "one for each part that it shares",
               .fix = "run the same version of hethub on every rank"});
}

}  // namespace

std::string replica_digests(const std::vector<Segment>& segments, RankDevice& device,
                            Deadline deadline) {
  std::string all;
  for (const HeldSegment& held : device.plan().segments) {
    const Segment& segment = segments.at(static_cast<std::size_t>(held.segment));
    if (!segment.is_shared()) continue;
    std::vector<std::byte> bytes(static_cast<std::size_t>(held.parameters.bytes));
    device.queue().download(device.view(held.parameters), bytes);
    device.synchronize(deadline);
    std::size_t offset = 0;
    for (std::size_t part = 0; part < segment.parts.size(); ++part) {
      const std::int64_t count = segment.parts[part].count;
      Checksum sum;
      sum.add(std::span(bytes).subspan(offset, static_cast<std::size_t>(4 * count)));
      all += text(held.segment, ' ', part, ' ', sum.hex(), '\n');
      offset += static_cast<std::size_t>(4 * padded_elements(count));
    }
  }
  return all;
}

std::int64_t require_equal_replicas(const std::vector<Segment>& segments,
                                    const std::vector<std::string>& digests,
                                    const std::string& when) {
  std::vector<Digests> ranks;
  for (const std::string& of_rank : digests) {
    ranks.push_back(parsed(of_rank));
  }
  std::int64_t parts = 0;
  for (std::size_t index = 0; index < segments.size(); ++index) {
    const Segment& segment = segments[index];
    if (!segment.is_shared()) continue;
    for (std::size_t part = 0; part < segment.parts.size(); ++part, ++parts) {
      const int first = segment.ranks.front();
      for (const int rank : segment.ranks) {
        if (digest_of(ranks, rank, index, part) == digest_of(ranks, first, index, part)) continue;
        throw Error(
            ErrorCode::kNumerical,
            {.what = text("--verify-replicas ", when),
             .found =
                 text(segment.parts[part].tensor.name, ": ranks ", first, " and ", rank, " differ"),
             .expected = "the same bits on every rank that holds a tensor",
             .fix = "resume from an earlier checkpoint, and check the memory of these hosts"});
      }
    }
  }
  return parts;
}

}  // namespace hethub
