#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "hethub/base/descriptor.h"
#include "hethub/launch/launch.h"

namespace hethub {

/// Variables that are set for a child beside those it inherits.
using Variables = std::map<std::string, std::string>;

/// Splits what a pipe gives into lines.
class LineReader {
 public:
  explicit LineReader(Descriptor pipe) : pipe_(std::move(pipe)) {}

  int descriptor() const { return pipe_.get(); }
  bool open() const { return pipe_.valid(); }

  /// Reads what is there and calls `on_line` with each whole line, cut at 64 KiB; at the end of the
  /// pipe also with the rest.
  template <typename OnLine>
  void read(const OnLine& on_line) {
    while (open() && fill()) {
      take_lines(on_line);
    }
    if (open() || rest_.empty()) return;
    on_line(std::string_view(rest_));
    rest_.clear();
  }

 private:
  bool fill();

  template <typename OnLine>
  void take_lines(const OnLine& on_line) {
    std::size_t begin = 0;
    for (std::size_t end = rest_.find('\n'); end != std::string::npos;
         end = rest_.find('\n', begin)) {
      on_line(std::string_view(rest_).substr(begin, end - begin));
      begin = end + 1;
    }
    rest_.erase(0, begin);
    if (rest_.size() < kLongestLine) return;
    on_line(std::string_view(rest_));
    rest_.clear();
  }

  static constexpr std::size_t kLongestLine = 64 * 1024;

  Descriptor pipe_;
  std::string rest_;
};

/// A process that was started for a rank, and the reading ends of its output.
struct Child {
  pid_t process = -1;  // and its group
  LineReader output;
  LineReader errors;
};

/// Starts a rank: its own process group, standard input empty, bound to its cores, ended by the
/// system if this process ends. Throws kInternal if the system starts no process.
Child start_child(const RankCommand& command, const Variables& variables);

}  // namespace hethub
