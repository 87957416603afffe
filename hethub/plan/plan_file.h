#pragma once

#include <filesystem>
#include <string>

#include "hethub/base/json.h"
#include "hethub/plan/plan.h"

namespace hethub {

/// Reads a plan from a parsed file named `name`; "format" must be "hethub-plan/1". Throws
/// kInvalidConfig for unknown keys (with the nearest known one), missing ones and wrong types.
/// Whether the plan can run is validate()'s question.
Plan parse_plan(const Json& file, const std::string& name);

/// parse_plan of a JSON or YAML file.
Plan read_plan(const std::filesystem::path& file);

/// Where the plan's model lies: a relative path counts from the plan file's folder or, if nothing
/// is there, from the current one.
std::filesystem::path model_path_of(const std::filesystem::path& plan_file, const Plan& plan);

/// The plan as parse_plan reads it.
Json to_json(const Plan& plan);

/// A number that two ranks have in common only if they run the same plan: 64-bit FNV-1a of its
/// JSON without the prediction, as 16 hexadecimal digits.
std::string plan_hash(const Plan& plan);

}  // namespace hethub
