#include "hethub/base/json.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

#include "hethub/base/error.h"
#include "hethub/base/files.h"

namespace hethub {
namespace {

constexpr int kMostDepth = 128;
constexpr std::size_t kMostValues = 1'000'000;
constexpr std::size_t kCharactersAValue = 64;  // a long text counts as several values

[[noreturn]] void corrupt(const std::string& where, std::string found, std::string expected) {
  throw Error(ErrorCode::kCorruptData, {.what = where,
                                        .found = std::move(found),
                                        .expected = std::move(expected),
                                        .fix = "correct the file"});
}

// "name:line:column" of a byte of the text, both from 1.
std::string place_of(std::string_view content, std::size_t byte, const std::string& name) {
  const std::string_view before = content.substr(0, byte);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return text(name, ":", line, ":", 1 + before.size() - start);
}

// Reads a text and tells where the JSON parser is, which its callback is not told.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** reached) : at_(at), reached_(reached) {}

  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  Cursor operator++(int) {
    const Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// A strict reading of JSON: what nlohmann would let pass is refused, at its place.
class JsonReader {
 public:
  JsonReader(std::string_view content, std::string name)
      : content_(content), name_(std::move(name)), reached_(content.data()) {}

  Json read() {
    const auto check = [this](int depth, Json::parse_event_t event, Json& parsed) {
      return accept(depth, event, parsed);
    };
    try {
      return Json::parse(Cursor(content_.data(), &reached_),
                         Cursor(content_.data() + content_.size(), &reached_), check);
    } catch (const Json::parse_error& error) {
      corrupt(place_of(content_, error.byte == 0 ? 0 : error.byte - 1, name_), said(error), "JSON");
    } catch (const Json::exception& error) {  // a number over 1.8e308
      corrupt(place(1), said(error), "a number that a double can hold");
    }
  }

 private:
  // The last character read is `back` before what was reached.
  std::string place(std::size_t back) const {
    const auto byte = static_cast<std::size_t>(reached_ - content_.data());
    return place_of(content_, byte - std::min(byte, back), name_);
  }

  // "[json.exception.parse_error.101] parse error at line 1, column 2: what" without its head.
  static std::string said(const Json::exception& error) {
    const std::string_view whole = error.what();
    const std::size_t head = whole.rfind("column");
    const std::size_t start =
        whole.find(head == whole.npos ? "] " : ": ", head == whole.npos ? 0 : head);
    return std::string(start == whole.npos ? whole : whole.substr(start + 2));
  }

  bool accept(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMostDepth) corrupt(place(1), "nesting over 128 levels", "at most 128");
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      if (!keys_.back().insert(key).second) {
        corrupt(place(2 + key.size()), text("the key \"", key, "\" twice in one object"),
                "each key once");
      }
    }
    return true;
  }

  std::string_view content_;
  std::string name_;
  const char* reached_;
  std::vector<std::set<std::string>> keys_ = {};
};

class YamlReader {
 public:
  explicit YamlReader(std::string name) : name_(std::move(name)) {}

  Json read(const YAML::Node& node, int depth = 0) {
    if (depth > kMostDepth) corrupt(place(node), "nesting over 128 levels", "at most 128");
    count(node, 1);
    constexpr std::string_view kStandard = "tag:yaml.org,2002:";
    if (node.Tag().size() > 1 && !node.Tag().starts_with(kStandard)) {
      corrupt(place(node), text("the tag ", node.Tag()), "no tag of your own");
    }
    if (node.IsMap()) return map(node, depth);
    if (node.IsSequence()) {
      Json list = Json::array();
      for (const YAML::Node& item : node) {
        list.push_back(read(item, depth + 1));
      }
      return list;
    }
    return node.IsScalar() ? scalar(node) : Json();
  }

 private:
  std::string place(const YAML::Node& node) const {
    return text(name_, ":", node.Mark().line + 1, ":", node.Mark().column + 1);
  }

  // An alias costs little to read and much to walk, so what it stands for counts each time.
  void count(const YAML::Node& node, std::size_t values) {
    values_ += values;
    if (values_ > kMostValues) {
      corrupt(place(node), "over a million values", "fewer (aliases count each time)");
    }
  }

  Json map(const YAML::Node& node, int depth) {
    Json object = Json::object();
    auto& members = object.get_ref<Json::object_t&>();  // object[key] would search them all
    std::set<std::string> keys;
    for (const auto& entry : node) {
      const YAML::Node& key = entry.first;
      if (!key.IsScalar()) corrupt(place(key), "a key that is no word", "a word");
      count(key, 1 + key.Scalar().size() / kCharactersAValue);
      if (!keys.insert(key.Scalar()).second) {
        corrupt(place(key), text("the key \"", key.Scalar(), "\" twice in one object"),
                "each key once");
      }
      members.emplace_back(key.Scalar(), read(entry.second, depth + 1));
    }
    return object;
  }

  // Only what looks like JSON is a number, true, false or null: 'no' and '0123' stay words.
  Json scalar(const YAML::Node& node) {
    const std::string& word = node.Scalar();
    count(node, word.size() / kCharactersAValue);
    if (node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str") return word;  // quoted
    if (word == "~" || word.empty()) return nullptr;
    Json plain = Json::parse(word, nullptr, false);
    if (!plain.is_discarded() && plain.is_primitive() && !plain.is_string()) return plain;
    return word;
  }

  std::string name_;
  std::size_t values_ = 0;
};

Json parse_yaml(const std::string& content, const std::string& name) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(content);
    if (documents.size() > 1) {
      corrupt(name, text(documents.size(), " YAML documents"), "one document");
    }
    return documents.empty() ? Json() : YamlReader(name).read(documents[0]);
  } catch (const YAML::Exception& error) {
    corrupt(text(name, ":", error.mark.line + 1, ":", error.mark.column + 1), error.msg,
            "JSON or YAML");
  }
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

template <typename T>
struct TypeName;
template <>
struct TypeName<bool> {
  static constexpr auto kText = "true or false";
};
template <>
struct TypeName<std::int64_t> {
  static constexpr auto kText = "a whole number below 2^63";
};
template <>
struct TypeName<int> {
  static constexpr auto kText = "a whole number below 2^31";
};
template <>
struct TypeName<double> {
  static constexpr auto kText = "a number";
};
template <>
struct TypeName<std::string> {
  static constexpr auto kText = "a text";
};
template <typename T>
struct TypeName<std::vector<T>> {
  static constexpr auto kText = "a list";
};

template <typename T>
bool fits(const Json& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value.is_boolean();
  } else if constexpr (std::is_integral_v<T>) {
    if (value.is_number_unsigned()) return std::in_range<T>(value.get<std::uint64_t>());
    return value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  } else if constexpr (std::is_same_v<T, double>) {
    return value.is_number();
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value.is_string();
  } else {
    return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& item) {
             return fits<typename T::value_type>(item);
           });
  }
}

std::string shortened(const Json& value) {
  std::string out = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return out.size() > 60 ? out.substr(0, 57) + "..." : out;
}

}  // namespace

Json parse_json(const std::string& content, const std::string& name) {
  return JsonReader(content, name).read();
}

Json parse_document(const std::string& content, const std::string& name) {
  if (name.ends_with(".json")) return parse_json(content, name);
  const std::size_t start = content.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  const bool may_be_json =
      start != std::string::npos && (content[start] == '{' || content[start] == '[');
  if (!may_be_json) return parse_yaml(content, name);
  try {
    return parse_json(content, name);
  } catch (const Error&) {
    try {
      return parse_yaml(content, name);  // flow YAML such as {a: 1}
    } catch (const Error&) {             // what is wrong with it as JSON says more
    }
    throw;
  }
}

Json read_document(const std::filesystem::path& file) {
  return parse_document(read_file(file), file.string());
}

void check_keys(const Json& object, const std::string& where,
                std::initializer_list<std::string_view> known) {
  if (!object.is_object()) {
    throw Error(ErrorCode::kInvalidConfig, {.what = where,
                                            .found = shortened(object),
                                            .expected = "an object with named fields",
                                            .fix = "see the example in the documentation"});
  }
  for (const auto& member : object.items()) {
    const std::string& key = member.key();
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const auto* nearest = std::min_element(known.begin(), known.end(), [&](auto a, auto b) {
      return edit_distance(key, a) < edit_distance(key, b);
    });
    const bool close = nearest != known.end() && edit_distance(key, *nearest) <= 2;
    std::string all;
    for (const std::string_view name : known) {
      all += text(all.empty() ? "" : ", ", name);
    }
    throw Error(ErrorCode::kInvalidConfig,
                {.what = where + ": unknown key",
                 .found = text("\"", key, "\""),
                 .expected = "one of " + all,
                 .fix = close ? text("did you mean \"", *nearest, "\"?") : "remove it"});
  }
}

template <typename T>
T get(const Json& object, const std::string& where, std::string_view key) {
  const auto found = object.is_object() ? object.find(std::string(key)) : object.end();
  const bool present = object.is_object() && found != object.end();
  if (!present || !fits<T>(*found)) {
    throw Error(ErrorCode::kInvalidConfig, {.what = text(where, ": ", key),
                                            .found = present ? shortened(*found) : "nothing",
                                            .expected = TypeName<T>::kText,
                                            .fix = text("set \"", key, "\"")});
  }
  return found->get<T>();
}

template <typename T>
T get_or(const Json& object, const std::string& where, std::string_view key, T fallback) {
  const auto found = object.find(std::string(key));
  if (found == object.end() || found->is_null()) return fallback;
  return get<T>(object, where, key);
}

// The types a file may hold.
#define HETHUB_JSON_TYPE(T)                                                               \
  template T get<T>(const Json&, const std::string&, std::string_view);      /* NOLINT */ \
  template T get_or<T>(const Json&, const std::string&, std::string_view, T) /* NOLINT */
HETHUB_JSON_TYPE(bool);
HETHUB_JSON_TYPE(int);
HETHUB_JSON_TYPE(std::int64_t);
HETHUB_JSON_TYPE(double);
HETHUB_JSON_TYPE(std::string);
HETHUB_JSON_TYPE(std::vector<int>);
HETHUB_JSON_TYPE(std::vector<std::int64_t>);
HETHUB_JSON_TYPE(std::vector<double>);
HETHUB_JSON_TYPE(std::vector<std::string>);
#undef HETHUB_JSON_TYPE

}  // namespace hethub
