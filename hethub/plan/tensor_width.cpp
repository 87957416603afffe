#include "hethub/plan/tensor_width.h"

#include <algorithm>
#include <string>

namespace hethub {

std::optional<ErrorParts> width_fault(const ModelConfig& model, const WidthJob& job, int width) {
  const auto fault = [](std::string found, std::string expected,
                        std::string fix = "choose another width") {
    return ErrorParts{
        .found = std::move(found), .expected = std::move(expected), .fix = std::move(fix)};
  };
  if (width < 1) return fault(text(width), "1 or more");
  if (width == 1) return std::nullopt;
  if (model.heads % width != 0) {
    return fault(text("num_attention_heads=", model.heads, " tp=", width),
                 "a divisor of the number of heads");
  }
  if (model.kv_heads % width != 0 && width % model.kv_heads != 0) {
    return fault(text("num_key_value_heads=", model.kv_heads, " tp=", width),
                 "a divisor or a multiple of the number of key heads");
  }
  const std::int64_t rows = std::min(model.vocab_size, model.intermediate_size);
  if (width > rows) {
    return fault(text(width),
                 text("at most ", rows, ", a row of each split matrix for every rank"));
  }
  if (model.experts > 0 && width > model.experts) {
    return fault(text(width),
                 text("at most num_local_experts=", model.experts, ", one for every rank"));
  }
  if (job.sequence_parallel && job.sequence_length % width != 0) {
    return fault(text(width, " with sequence_parallel"),
                 text("a divisor of sequence_length=", job.sequence_length),
                 "choose another width, or leave sequence_parallel out");
  }
  return std::nullopt;
}

}  // namespace hethub
