#include "hethub/comm/host_list.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "hethub/base/error.h"

namespace hethub {
namespace {

constexpr std::int64_t kMostHosts = 65536;

// Consecutive numbers of one width; their texts are made only when all are known to be few.
struct Range {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::size_t width = 1;
};

// A literal text, then what one of the ranges gives; without ranges, the literal alone.
struct Part {
  std::string literal = {};
  std::vector<Range> ranges = {};
};

class HostListReader {
 public:
  explicit HostListReader(const std::string& list) : list_(list) {}

  std::vector<std::string> read() {
    if (list_.empty()) refuse("nothing");
    std::vector<std::string> hosts;
    for (;;) {
      const std::vector<Part> name = read_name();
      count_ += combinations(name);
      if (count_ > kMostHosts) refuse("more than 65536 hosts");
      expand(name, 0, "", hosts);
      if (at_ == list_.size()) return hosts;
      ++at_;  // the comma
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& found) const {
    throw Error(ErrorCode::kInvalidConfig, {.what = text("host list '", list_, "'"),
                                            .found = found,
                                            .expected = "names as Slurm writes them, as in "
                                                        "n1,n[3-5],rack[0-1]n[01,04]",
                                            .fix = "pass SLURM_JOB_NODELIST as it is"});
  }

  std::vector<Part> read_name() {
    std::vector<Part> parts(1);
    for (; at_ < list_.size() && list_[at_] != ','; ++at_) {
      if (list_[at_] == ']') refuse(text("']' without '[' at character ", at_ + 1));
      if (list_[at_] == '[') {
        parts.back().ranges = read_ranges();
        parts.emplace_back();
      } else if (static_cast<unsigned char>(list_[at_]) <= ' ') {
        refuse(text("a blank at character ", at_ + 1));
      } else {
        parts.back().literal += list_[at_];
      }
    }
    if (parts.size() == 1 && parts[0].literal.empty()) {
      refuse(text("an empty name at character ", at_ + 1));
    }
    return parts;
  }

  // From the '[' at `at_` to its ']', where `at_` then stands.
  std::vector<Range> read_ranges() {
    const std::size_t end = list_.find(']', at_);
    if (end == std::string::npos) refuse(text("'[' without ']' at character ", at_ + 1));
    std::vector<Range> ranges;
    std::string_view rest = std::string_view(list_).substr(at_ + 1, end - at_ - 1);
    for (bool more = true; more;) {
      const std::size_t comma = rest.find(',');
      ranges.push_back(range_of(rest.substr(0, comma)));
      more = comma != std::string_view::npos;
      if (more) rest.remove_prefix(comma + 1);
    }
    at_ = end;
    return ranges;
  }

  Range range_of(std::string_view spelled) const {
    const std::size_t dash = spelled.find('-');
    const std::string_view first = spelled.substr(0, dash);
    Range range{.first = number_of(first, spelled), .width = first.size()};
    range.last =
        dash == std::string_view::npos ? range.first : number_of(spelled.substr(dash + 1), spelled);
    if (range.last < range.first) refuse(text("the range ", spelled, ", which runs backwards"));
    return range;
  }

  std::int64_t number_of(std::string_view digits, std::string_view range) const {
    std::int64_t number = -1;
    const auto [end, failed] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    constexpr std::size_t kMostDigits = 18;
    if (failed != std::errc() || end != digits.data() + digits.size() || number < 0 ||
        digits.size() > kMostDigits) {
      refuse(text("'", range, "' in brackets"));
    }
    return number;
  }

  std::int64_t combinations(const std::vector<Part>& name) const {
    std::int64_t all = 1;
    for (const Part& part : name) {
      if (part.ranges.empty()) continue;
      std::int64_t here = 0;
      for (const Range& range : part.ranges) {
        here += std::min(range.last - range.first + 1, kMostHosts + 1);
        if (here > kMostHosts) refuse("more than 65536 hosts");
      }
      all *= here;
      if (all > kMostHosts) refuse("more than 65536 hosts");
    }
    return all;
  }

  static void expand(const std::vector<Part>& name, std::size_t part, const std::string& before,
                     std::vector<std::string>& hosts) {
    if (part == name.size()) {
      hosts.push_back(before);
      return;
    }
    const std::string prefix = before + name[part].literal;
    if (name[part].ranges.empty()) expand(name, part + 1, prefix, hosts);
    for (const Range& range : name[part].ranges) {
      for (std::int64_t number = range.first; number <= range.last; ++number) {
        std::string digits = std::to_string(number);
        if (digits.size() < range.width) digits.insert(0, range.width - digits.size(), '0');
        expand(name, part + 1, prefix + digits, hosts);
      }
    }
  }

  const std::string& list_;
  std::size_t at_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace

std::vector<std::string> expand_host_list(const std::string& list) {
  return HostListReader(list).read();
}

}  // namespace hethub
