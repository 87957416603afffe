#include "hethub/base/json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

#include "hethub/base/error.h"
#include "hethub/base/files.h"

namespace hethub {
namespace {

constexpr int kMostDepth = 128;
constexpr int kMostNodes = 1'000'000;

[[noreturn]] void corrupt(const std::string& where, std::string found, std::string expected) {
  throw Error(ErrorCode::kCorruptData, {.what = where,
                                        .found = std::move(found),
                                        .expected = std::move(expected),
                                        .fix = "correct the file"});
}

// "name:line:column" of a byte of the text, both from 1.
std::string place_of(const std::string& text_of_file, std::size_t byte, const std::string& name) {
  const auto end =
      text_of_file.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text_of_file.size()));
  const auto line = 1 + std::count(text_of_file.begin(), end, '\n');
  const auto start = std::find(std::make_reverse_iterator(end), text_of_file.rend(), '\n');
  return text(name, ":", line, ":", 1 + std::distance(std::make_reverse_iterator(end), start));
}

// Refuses what nlohmann would let pass: duplicate keys and endless nesting.
class StrictKeys {
 public:
  explicit StrictKeys(std::string name) : name_(std::move(name)) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMostDepth) corrupt(name_, "nesting over 128 levels", "at most 128");
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key) {
      const std::string key = parsed.get<std::string>();
      if (!keys_.back().insert(key).second) {
        corrupt(name_, text("the key \"", key, "\" twice in one object"), "each key once");
      }
    }
    return true;
  }

 private:
  std::string name_;
  std::vector<std::set<std::string>> keys_;
};

class YamlReader {
 public:
  explicit YamlReader(std::string name) : name_(std::move(name)) {}

  Json read(const YAML::Node& node, int depth = 0) {
    if (depth > kMostDepth) corrupt(place(node), "nesting over 128 levels", "at most 128");
    if (++nodes_ > kMostNodes) corrupt(name_, "over a million values", "fewer (see its aliases)");
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

  Json map(const YAML::Node& node, int depth) {
    Json object = Json::object();
    for (const auto& entry : node) {
      const YAML::Node& key = entry.first;
      if (!key.IsScalar()) corrupt(place(key), "a key that is no word", "a word");
      if (object.contains(key.Scalar())) {
        corrupt(place(key), text("the key \"", key.Scalar(), "\" twice"), "each key once");
      }
      object[key.Scalar()] = read(entry.second, depth + 1);
    }
    return object;
  }

  // Only what looks like JSON is a number, true, false or null: 'no' and '0123' stay words.
  static Json scalar(const YAML::Node& node) {
    const std::string& word = node.Scalar();
    if (node.Tag() == "!") return word;  // quoted
    const Json plain = Json::parse(word, nullptr, false);
    if (!plain.is_discarded() && plain.is_primitive() && !plain.is_string()) return plain;
    if (word == "~" || word.empty()) return nullptr;
    return word;
  }

  std::string name_;
  int nodes_ = 0;
};

Json parse_yaml(const std::string& content, const std::string& name) {
  try {
    return YamlReader(name).read(YAML::Load(content));
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
  static constexpr auto kText = "a whole number";
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
    if (value.is_number_unsigned()) {
      return value.get<std::uint64_t>() <=
             static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    }
    return value.is_number_integer() && value.get<std::int64_t>() >= std::numeric_limits<T>::min();
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

Json parse_document(const std::string& content, const std::string& name) {
  try {
    return Json::parse(content, StrictKeys(name));
  } catch (const Json::parse_error& error) {
    const std::size_t start = content.find_first_not_of(" \t\r\n");
    const bool meant_as_json =
        start != std::string::npos && (content[start] == '{' || content[start] == '[');
    if (!meant_as_json) return parse_yaml(content, name);
    try {
      return parse_yaml(content, name);  // flow YAML such as {a: 1}
    } catch (const Error&) {
      corrupt(place_of(content, error.byte == 0 ? 0 : error.byte - 1, name), "a syntax error",
              "JSON or YAML");
    }
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
  for (const auto& [key, value] : object.items()) {
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
