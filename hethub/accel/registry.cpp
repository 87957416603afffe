#include "hethub/accel/registry.h"

#include "built_backends.h"
#include "hethub/base/error.h"

namespace hethub {

std::vector<FoundDevice> find_devices() {
  std::vector<FoundDevice> all;
  for (const BuiltBackend& backend : kBuiltBackends) {
    for (FoundDevice& device : backend.find()) {
      all.push_back(std::move(device));
    }
  }
  return all;
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const BuiltBackend& backend : kBuiltBackends) {
    names.emplace_back(backend.name);
  }
  return names;
}

std::unique_ptr<Backend> open_backend(std::string_view name, const BackendOptions& options) {
  std::string known;
  for (const BuiltBackend& backend : kBuiltBackends) {
    if (backend.name == name) return backend.open(options);
    known += text(known.empty() ? "" : ", ", backend.name);
  }
  throw Error(ErrorCode::kInvalidArgument, {.what = "backend",
                                            .found = text("'", name, "'"),
                                            .expected = text("one of: ", known),
                                            .fix = "name a backend of this build"});
}

}  // namespace hethub
