#include "hethub/model/config_fields.h"

namespace hethub {

ModelConfig read_llama(const ConfigFields& fields) {
  // A window is no field of this family: a file that has one means another model.
  if (fields.flag("use_sliding_window", fields.has("sliding_window"))) {
    fields.refuse(fields.has("sliding_window") ? "sliding_window" : "use_sliding_window",
                  "a window", "null: this family attends to all before a token");
  }
  return read_llama_like(fields, {});
}

}  // namespace hethub
