#include "hethub/trace/perfetto.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/base/json.h"

namespace hethub {
namespace {

// pid = timeline · kPidStride + rank. The owner of a pid is also spelled out in its process_name.
constexpr std::int64_t kPidStride = 1'000'000;

std::string dump(const Json& event) {
  return event.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string rank_name_of(const Timeline& timeline, int rank) {
  const auto found = timeline.rank_names.find(rank);
  return found != timeline.rank_names.end() ? found->second : text("rank ", rank);
}

// The events of one timeline, each preceded by ",\n" except the first of the file.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void write(const Timeline& timeline, std::int64_t index) {
    std::map<int, std::map<std::string, int>> lanes;  // rank -> lane -> tid
    for (const auto& [rank, name] : timeline.rank_names) {
      lanes[rank];
    }
    for (const Span& span : timeline.spans) {
      lanes[span.rank].emplace(span.lane, 0);
    }
    for (auto& [rank, tids] : lanes) {
      write_names(timeline, index, rank, tids);
    }
    for (const Span& span : timeline.spans) {
      write_span(span, index * kPidStride + span.rank, lanes[span.rank][span.lane]);
    }
  }

 private:
  void event(const Json& event) {
    if (!first_) out_ += ",\n";
    first_ = false;
    out_ += dump(event);
  }

  void write_names(const Timeline& timeline, std::int64_t index, int rank,
                   std::map<std::string, int>& tids) {
    const std::int64_t pid = index * kPidStride + rank;
    const std::string rank_name = rank_name_of(timeline, rank);
    event({{"name", "process_name"},
           {"ph", "M"},
           {"pid", pid},
           {"args",
            {{"name", timeline.name.empty() ? rank_name : timeline.name + ": " + rank_name},
             {"timeline", timeline.name},
             {"timeline_index", index},
             {"rank", rank},
             {"rank_name", timeline.rank_names.contains(rank) ? Json(rank_name) : Json()},
             {"dropped", timeline.dropped}}}});
    event({{"name", "process_sort_index"},
           {"ph", "M"},
           {"pid", pid},
           {"args", {{"sort_index", pid}}}});
    int next = 0;
    for (auto& [lane, tid] : tids) {
      tid = next++;
      event({{"name", "thread_name"},
             {"ph", "M"},
             {"pid", pid},
             {"tid", tid},
             {"args", {{"name", lane}}}});
    }
  }

  void write_span(const Span& span, std::int64_t pid, int tid) {
    Json args = Json::object();
    for (const SpanArg& arg : span.args) {
      args[arg.name] = arg.value;
    }
    event({{"name", span.name},
           {"cat", span.category},
           {"ph", "X"},
           {"ts", span.begin_s * 1e6},
           {"dur", span.seconds() * 1e6},
           {"pid", pid},
           {"tid", tid},
           {"args", args}});
  }

  std::string& out_;
  bool first_ = true;
};

[[noreturn]] void malformed(const std::string& where, const std::string& found,
                            const std::string& expected) {
  throw Error(
      ErrorCode::kCorruptData,
      {.what = where, .found = found, .expected = expected, .fix = "write the trace again"});
}

// Reads events in their order in the file: a process's and a lane's name precede its spans.
class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  void read(const Json& event, std::size_t number) {
    where_ = text(name_, ": event ", number);
    if (!event.is_object()) malformed(where_, dump(event).substr(0, 60), "an object");
    const std::string phase = string_of(event, "ph");
    if (phase == "M") {
      read_name(event);
    } else if (phase == "X") {
      read_span(event);
    }
  }

  std::vector<Timeline> timelines() && {
    std::vector<Timeline> out;
    for (auto& [index, timeline] : timelines_) {
      out.push_back(std::move(timeline));
    }
    return out;
  }

 private:
  struct Process {
    std::int64_t timeline = 0;
    int rank = 0;
  };

  template <typename T>
  T read_as(const Json& event, const char* key) const {
    try {
      return get<T>(event, where_, key);
    } catch (const Error& error) {
      malformed(error.parts().what, error.parts().found, error.parts().expected);
    }
  }
  std::string string_of(const Json& event, const char* key) const {
    return read_as<std::string>(event, key);
  }

  const Json& args_of(const Json& event) const {
    const auto args = event.find("args");
    if (args == event.end() || !args->is_object()) malformed(where_, "no args", "an object args");
    return *args;
  }

  void read_name(const Json& event) {
    const std::string what = string_of(event, "name");
    if (what == "process_name") read_process(read_as<std::int64_t>(event, "pid"), args_of(event));
    if (what == "thread_name") {
      lanes_[{read_as<std::int64_t>(event, "pid"), read_as<std::int64_t>(event, "tid")}] =
          string_of(args_of(event), "name");
    }
  }

  void read_process(std::int64_t pid, const Json& args) {
    const Process process = {read_as<std::int64_t>(args, "timeline_index"),
                             read_as<int>(args, "rank")};
    processes_[pid] = process;
    Timeline& timeline = timelines_[process.timeline];
    timeline.name = string_of(args, "timeline");
    timeline.dropped = read_as<std::int64_t>(args, "dropped");
    const auto rank_name = args.find("rank_name");
    if (rank_name != args.end() && !rank_name->is_null()) {
      timeline.rank_names[process.rank] = string_of(args, "rank_name");
    }
  }

  void read_span(const Json& event) {
    const auto pid = read_as<std::int64_t>(event, "pid");
    const auto process = processes_.find(pid);
    if (process == processes_.end()) {
      malformed(where_, text("pid ", pid), "a pid that a process_name event named before");
    }
    const auto lane = lanes_.find({pid, read_as<std::int64_t>(event, "tid")});
    if (lane == lanes_.end()) {
      malformed(where_, "an unnamed tid", "a tid that a thread_name event named before");
    }
    const auto begin = read_as<double>(event, "ts");
    const auto duration = read_as<double>(event, "dur");
    if (duration < 0) malformed(where_ + ": dur", std::to_string(duration), "at least 0");
    Span span = {.rank = process->second.rank,
                 .lane = lane->second,
                 .name = string_of(event, "name"),
                 .category = string_of(event, "cat"),
                 .begin_s = begin * 1e-6,
                 .end_s = (begin + duration) * 1e-6};
    for (const auto& [key, value] : args_of(event).items()) {
      if (!value.is_number()) malformed(where_ + ": args: " + key, dump(value), "a number");
      span.args.push_back({key, value.get<double>()});
    }
    timelines_[process->second.timeline].spans.push_back(std::move(span));
  }

  std::string name_;
  std::string where_ = {};
  std::map<std::int64_t, Process> processes_ = {};
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> lanes_ = {};
  std::map<std::int64_t, Timeline> timelines_ = {};
};

}  // namespace

std::string perfetto_text(std::span<const Timeline> timelines) {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  Writer writer(out);
  std::int64_t index = 0;
  for (const Timeline& timeline : timelines) {
    writer.write(timeline, index++);
  }
  return out + "\n]}\n";
}

void write_perfetto(std::span<const Timeline> timelines, const std::filesystem::path& file) {
  write_file(file, perfetto_text(timelines));
}

std::vector<Timeline> parse_perfetto(const std::string& content, const std::string& name) {
  const Json document = parse_json(content, name);
  const auto events = document.is_object() ? document.find("traceEvents") : document.end();
  if (!document.is_object() || events == document.end() || !events->is_array()) {
    malformed(name, "no list \"traceEvents\"", "a trace in the Chrome JSON form");
  }
  Reader reader(name);
  for (std::size_t number = 0; number < events->size(); ++number) {
    reader.read((*events)[number], number);
  }
  return std::move(reader).timelines();
}

std::vector<Timeline> read_perfetto(const std::filesystem::path& file) {
  return parse_perfetto(read_file(file), file.string());
}

}  // namespace hethub
