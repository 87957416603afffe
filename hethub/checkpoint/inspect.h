#pragma once

#include <filesystem>
#include <string>

namespace hethub {

/// What is in a safetensors file, a Hugging Face folder, a checkpoint or a run's checkpoint folder:
/// a line for each tensor (name, type, shape) and a total, or the same as one JSON object.
/// Throws what opening it throws.
std::string inspect(const std::filesystem::path& path, bool as_json);

}  // namespace hethub
