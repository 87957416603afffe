#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace hethub {

/// JSON whose objects keep their order. Include <nlohmann/json.hpp> where you look inside.
using Json = nlohmann::ordered_json;

/// Reads JSON. What many readers let pass is refused: a key that stands twice in one object,
/// nesting over 128, numbers over 1.8e308, text after the end. `name` is the file's name in errors.
/// Throws kCorruptData with "name:line:column".
Json parse_json(const std::string& text, const std::string& name);

/// Reads JSON or YAML: JSON alone if `name` ends in ".json", otherwise by content. YAML gives what
/// the same JSON would: only JSON's spellings are numbers, true, false and null (also "~" and
/// nothing), so `no` and `0123` are texts. Refused as in parse_json, and so are tags, a second
/// document and more than a million values, where aliases count each time.
Json parse_document(const std::string& text, const std::string& name);

/// parse_document of a file. Throws kMissingInput if it is not there.
Json read_document(const std::filesystem::path& file);

/// Throws kInvalidConfig, naming the nearest known key, if `object` has a key not in `known`.
/// `where` names the object in the message, e.g. "plan.json: pipelines[0]".
void check_keys(const Json& object, const std::string& where,
                std::initializer_list<std::string_view> known);

/// The member `key` of `object` as T (bool, int, int64, double, string or a vector of these).
/// Throws kInvalidConfig naming `where` and `key` if it is missing or of another type, or if a
/// number does not fit.
template <typename T>
T get(const Json& object, const std::string& where, std::string_view key);

/// The same, or `fallback` if the key is missing or null.
template <typename T>
T get_or(const Json& object, const std::string& where, std::string_view key, T fallback);

}  // namespace hethub
