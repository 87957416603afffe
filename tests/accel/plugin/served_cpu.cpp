// The cpu backend as a plug-in: the edge without a vendor's library.

#include "hethub/accel/cpu/cpu.h"
#include "hethub/accel/plugin/serve.h"

namespace hethub {

const char* const kServedName = "served-cpu";

std::unique_ptr<Backend> open_served(const BackendOptions& options) { return open_cpu(options); }

std::vector<FoundDevice> find_served() { return find_cpu(); }

}  // namespace hethub
