#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/collective/choice.h"

namespace hethub {
namespace {

constexpr const char* kFormat = "hethub-choices/1";

std::int64_t at_least(std::int64_t least, std::int64_t value, const std::string& where,
                      std::string_view key) {
  if (value >= least) return value;
  throw Error(ErrorCode::kInvalidConfig, {.what = text(where, ": ", key),
                                          .found = text(value),
                                          .expected = text(least, " or more"),
                                          .fix = "leave it out for no limit"});
}

ChoiceRule parse_rule(const Json& object, const std::string& where) {
  if (!object.is_object()) {
    throw Error(ErrorCode::kInvalidConfig, {.what = where,
                                            .found = object.type_name(),
                                            .expected = "an object with op and algorithm",
                                            .fix = "write one object for each rule"});
  }
  check_keys(object, where,
             {"op", "algorithm", "most_bytes", "least_ranks", "most_ranks", "needs_parts"});
  ChoiceRule rule{.op = collective_op_of(get<std::string>(object, where, "op")),
                  .algorithm = get<std::string>(object, where, "algorithm")};
  if (object.contains("most_bytes")) {
    rule.most_bytes =
        at_least(0, get<std::int64_t>(object, where, "most_bytes"), where, "most_bytes");
  }
  if (object.contains("most_ranks")) {
    rule.most_ranks =
        static_cast<int>(at_least(1, get<int>(object, where, "most_ranks"), where, "most_ranks"));
  }
  rule.least_ranks = get_or<int>(object, where, "least_ranks", 1);
  rule.needs_parts = get_or<bool>(object, where, "needs_parts", false);
  make_algorithm(rule.algorithm, {.op = rule.op});  // refuses names there are none of
  return rule;
}

Json json_of(const ChoiceRule& rule) {
  Json object = {{"op", std::string(name_of(rule.op))}, {"algorithm", rule.algorithm}};
  if (rule.most_bytes >= 0) object["most_bytes"] = rule.most_bytes;
  if (rule.least_ranks > 1) object["least_ranks"] = rule.least_ranks;
  if (rule.most_ranks >= 0) object["most_ranks"] = rule.most_ranks;
  if (rule.needs_parts) object["needs_parts"] = true;
  return object;
}

}  // namespace

ChoiceTable parse_choices(const Json& file, const std::string& name) {
  const auto refuse = [&](std::string found) {
    throw Error(ErrorCode::kInvalidConfig,
                {.what = name,
                 .found = std::move(found),
                 .expected = text("an object with format \"", kFormat, "\" and a list of rules"),
                 .fix = "correct it, or leave the table out for the built-in one"});
  };
  if (!file.is_object()) refuse(file.type_name());
  check_keys(file, name, {"format", "rules"});
  if (get<std::string>(file, name, "format") != kFormat) {
    refuse(get<std::string>(file, name, "format"));
  }
  if (!file.contains("rules") || !file["rules"].is_array()) refuse("no list of rules");
  ChoiceTable table;
  for (const Json& rule : file["rules"]) {
    table.rules.push_back(parse_rule(rule, text(name, ": rules[", table.rules.size(), "]")));
  }
  return table;
}

ChoiceTable read_choices(const std::filesystem::path& file) {
  return parse_choices(read_document(file), file.string());
}

std::string choices_text(const ChoiceTable& table) {
  std::string all = text("{\"format\": \"", kFormat, "\",\n \"rules\": [");
  for (std::size_t rule = 0; rule < table.rules.size(); ++rule) {
    all += text(rule == 0 ? "\n  " : ",\n  ", json_of(table.rules[rule]).dump());
  }
  return all + "\n]}\n";
}

}  // namespace hethub
