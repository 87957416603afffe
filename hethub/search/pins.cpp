#include <algorithm>
#include <charconv>
#include <sstream>

#include "hethub/base/error.h"
#include "hethub/plan/schedule.h"
#include "hethub/search/strategy.h"

namespace hethub {
namespace {

constexpr const char* kKeys =
    "pipelines, stages, micro_batch_size, tensor_parallel, schedule, recompute, kinds, "
    "stageN.kind, stageN.layers";

[[noreturn]] void refuse(const std::string& what, const std::string& found,
                         const std::string& expected) {
  throw Error(ErrorCode::kUsage, {.what = "--pin: " + what,
                                  .found = "\"" + found + "\"",
                                  .expected = expected,
                                  .fix = "for example --pin micro_batch_size=4"});
}

int number_of(const std::string& key, const std::string& word) {
  int value = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem != std::errc() || end != word.data() + word.size() || value < 1) {
    refuse(key, word, "a whole number from 1");
  }
  return value;
}

Recompute recompute_of(const std::string& word) {
  if (word == "none") return Recompute::kNone;
  if (word == "full") return Recompute::kFull;
  refuse("recompute", word, "none or full");
}

// What the search does not price itself it varies from 1F1B.
void add_schedule(Pins& pins, const std::string& word) {
  const std::vector<std::string>& priced = priced_schedules();
  const bool is_priced = std::find(priced.begin(), priced.end(), word) != priced.end();
  std::string all;
  bool known = false;
  for (const ScheduleEntry& entry : all_schedules()) {
    known = known || entry.name == word;
    all += text(all.empty() ? "" : ", ", entry.name);
  }
  if (!known) refuse("schedule", word, "one of " + all);
  pins.schedule = is_priced ? word : "1f1b";
  pins.variant = is_priced ? "" : word;
}

std::set<std::string> words_of(const std::string& list) {
  std::set<std::string> words;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) {
    if (!word.empty()) words.insert(word);
  }
  return words;
}

// "stage3.kind" gives 3 and "kind".
bool add_stage_pin(Pins& pins, const std::string& key, const std::string& value) {
  const std::size_t dot = key.find('.');
  if (!key.starts_with("stage") || dot == std::string::npos) return false;
  int stage = 0;
  const char* begin = key.data() + 5;
  const auto [end, problem] = std::from_chars(begin, key.data() + dot, stage);
  if (problem != std::errc() || end != key.data() + dot || stage < 0) return false;
  const std::string part = key.substr(dot + 1);
  if (part == "kind") {
    pins.stage_kind[stage] = value;
  } else if (part == "layers") {
    pins.stage_layers[stage] = number_of(key, value);
  } else {
    return false;
  }
  return true;
}

}  // namespace

void add_pin(Pins& pins, const std::string& pin) {
  const std::size_t equals = pin.find('=');
  if (equals == std::string::npos || equals + 1 == pin.size()) {
    refuse("what to fix", pin, "KEY=VALUE");
  }
  const std::string key = pin.substr(0, equals);
  const std::string value = pin.substr(equals + 1);
  if (key == "pipelines") {
    pins.pipelines = number_of(key, value);
  } else if (key == "stages") {
    pins.stages = number_of(key, value);
  } else if (key == "micro_batch_size") {
    pins.micro_batch_size = number_of(key, value);
  } else if (key == "tensor_parallel") {
    pins.tensor_parallel = number_of(key, value);
  } else if (key == "recompute") {
    pins.recompute = recompute_of(value);
  } else if (key == "schedule") {
    add_schedule(pins, value);
  } else if (key == "kinds") {
    pins.kinds = words_of(value);
  } else if (!add_stage_pin(pins, key, value)) {
    refuse("key", key, text("one of ", kKeys));
  }
}

}  // namespace hethub
