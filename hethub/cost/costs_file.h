#pragma once

#include <filesystem>
#include <string>

#include "hethub/base/json.h"
#include "hethub/cost/costs.h"

namespace hethub {

/// Reads costs from a parsed file named `name`. Throws kInvalidConfig for unknown keys, wrong types
/// and times that are not positive.
Costs parse_costs(const Json& file, const std::string& name);

/// parse_costs of a JSON or YAML file.
Costs read_costs(const std::filesystem::path& file);

/// The costs as parse_costs reads them ("hethub-costs/1").
Json to_json(const Costs& costs);

/// Writes the costs as JSON, whole or not at all. Throws kCannotWrite.
void write_costs(const Costs& costs, const std::filesystem::path& file);

}  // namespace hethub
