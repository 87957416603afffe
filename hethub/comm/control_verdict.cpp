#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "hethub/comm/control.h"
#include "hethub/comm/error_text.h"
#include "hethub/comm/tags.h"

// How rank 0 finds what the job's failure is.

namespace hethub {
namespace {

// The tag behind the four parts of an error's text.
Tag tag_behind(const std::string& said) {
  Tag tag;
  std::size_t at = 0;
  for (int part = 0; part < 4 && at != std::string::npos; ++part) {
    at = said.find('\0', at + 1);
  }
  if (at == std::string::npos || said.size() - at - 1 != sizeof tag) return {};
  std::memcpy(&tag, said.data() + at + 1, sizeof tag);
  return tag;
}

}  // namespace

Control::Reported Control::report(const Error& error, Tag under_way) {
  const Lock lock(mutex_);
  if (verdict_) return {.verdict = verdict_};
  if (options_.rank == 0) {
    consider(error, 0, under_way);
    told_ = verdict_.has_value();
  } else if (!watched(links_[0])) {
    decide(error);  // without rank 0 each decides for itself
    told_ = true;
  } else {
    say(0, {.kind = ControlKind::kReport, .rank = options_.rank},
        error_text(error) + std::string(reinterpret_cast<const char*>(&under_way), sizeof(Tag)));
  }
  wake();
  return {.verdict = verdict_, .to_come = may_come()};
}

bool Control::verdict_to_come() const {
  const Lock lock(mutex_);
  return may_come();
}

bool Control::may_come() const {
  if (verdict_) return false;
  return options_.rank == 0 ? probable_.has_value() : watched(links_[0]) && !links_[0].suspect;
}

// A rank's report: an error's text and a tag.
void Control::consider_report(int rank, const std::string& text) {
  consider(error_from(text), rank, tag_behind(text));
}

// Rank 0 has found a failure, or was told of one. Where ranks disagree, all are heard first.
void Control::consider(const Error& error, int rank, Tag under_way) {
  if (verdict_) return;
  if (under_way.check != 0) meant_[rank] = under_way;
  if (probable_ && is_mismatch(*probable_)) {
    if (meant_.size() == links_.size()) probable_until_ = std::chrono::steady_clock::now();
    return;
  }
  if (!is_mismatch(error)) {
    decide(error);
    return;
  }
  probable_ = error;
  probable_until_ = after_seconds(kAllMeantSeconds);
}

// "seq 7 ring_all_reduce f32 2048 elements (rank 0) vs ring_all_reduce f32 1024 elements (ranks
// 1-3)".
std::string Control::what_all_meant() const {
  std::vector<std::pair<Tag, std::string>> groups;  // what was meant, and by whom
  for (auto at = meant_.begin(); at != meant_.end();) {
    const auto& [first, tag] = *at;
    int last = first;
    while (++at != meant_.end() && at->first == last + 1 && at->second.check == tag.check &&
           at->second.match == tag.match) {
      last = at->first;
    }
    const std::string ranks = first == last ? text(first) : text(first, '-', last);
    const auto known =
        std::find_if(groups.begin(), groups.end(), [&meant = tag](const auto& group) {
          return group.first.check == meant.check && group.first.match == meant.match;
        });
    if (known == groups.end()) {
      groups.emplace_back(tag, ranks);
    } else {
      known->second += "," + ranks;
    }
  }
  std::string all;
  for (const auto& [tag, ranks] : groups) {
    const bool same_call = !all.empty() && tag.match == groups.front().first.match;
    const bool several = ranks.find_first_of("-,") != std::string::npos;
    all +=
        text(all.empty() ? "" : " vs ", same_call ? describe_check(tag.check) : describe_tag(tag),
             several ? " (ranks " : " (rank ", ranks, ')');
  }
  return all;
}

void Control::decide(const Error& error) {
  if (verdict_) return;
  ErrorParts parts = error.parts();
  for (const auto& [rank, silent_s] : suspects_) {
    if (error.code() != ErrorCode::kTimeout) break;
    parts.found += text("; ", name_of(rank), " has been silent for ", tenths(silent_s), " s");
  }
  if (is_mismatch(error) && meant_.size() > 1) parts.found = what_all_meant();
  verdict_ = Error(error.code(), parts);
  changed_.notify_all();
  if (options_.rank == 0) say_to_all({.kind = ControlKind::kVerdict}, error_text(*verdict_));
}

}  // namespace hethub
