#include "hethub/model/config_fields.h"

namespace hethub {

ModelConfig read_llama(const ConfigFields& fields) { return read_llama_like(fields, {}); }

}  // namespace hethub
