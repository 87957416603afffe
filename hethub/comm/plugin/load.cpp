#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>

#include <dlfcn.h>

#include "hethub/base/error.h"
#include "hethub/base/plugin_folders.h"
#include "hethub/comm/plugin/transport.h"

namespace hethub {
namespace {

[[noreturn]] void refuse(const std::string& what, std::string found, std::string expected,
                         std::string fix) {
  throw Error(ErrorCode::kUnavailable, {.what = text("transport ", what),
                                        .found = std::move(found),
                                        .expected = std::move(expected),
                                        .fix = std::move(fix)});
}

// From the first function on, the table is nothing but functions.
bool lacks_a_function(const HethubTransport& table) {
  constexpr std::size_t kFirst = offsetof(HethubTransport, open);
  for (std::size_t at = kFirst; at < sizeof(HethubTransport); at += sizeof(void*)) {
    void* function = nullptr;
    std::memcpy(&function, reinterpret_cast<const char*>(&table) + at, sizeof(function));
    if (function == nullptr) return true;
  }
  return false;
}

const HethubTransport& loaded(std::string_view name) {
  const std::filesystem::path file = transport_file(name);
  if (file.empty()) {
    std::string folders;
    for (const std::filesystem::path& folder : plugin_folders()) {
      folders += text(folders.empty() ? "" : ", ", folder.string());
    }
    refuse(std::string(name), text("no file transport-", name, ".so in ", folders), "one",
           text("build hethub where ", name,
                " is installed, or name the folder in HETHUB_PLUGIN_PATH; or choose tcp"));
  }
  void* library =
      ::dlopen(std::filesystem::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* why = ::dlerror();
    refuse(file.string(), why == nullptr ? "it cannot be loaded" : why,
           "a shared object whose libraries are here", "install the library that is named");
  }
  const auto entry =
      reinterpret_cast<decltype(&hethub_transport)>(::dlsym(library, "hethub_transport"));
  if (entry == nullptr) {
    refuse(file.string(), "no function hethub_transport", "one",
           "remove the file: it is no transport");
  }
  return checked_transport(entry(), name, file);
}

}  // namespace

std::filesystem::path transport_file(std::string_view name) {
  for (const std::filesystem::path& folder : plugin_folders()) {
    std::error_code missing;
    const std::filesystem::path file = folder / text("transport-", name, ".so");
    if (std::filesystem::exists(file, missing)) return file;
  }
  return {};
}

const HethubTransport& checked_transport(const HethubTransport* table, std::string_view name,
                                         const std::filesystem::path& file) {
  const std::string rebuild = "build the transport from the sources of this program";
  if (table == nullptr) refuse(file.string(), "no table", "one", rebuild);
  // Of another version, nothing but the version can be relied on.
  if (table->version != HETHUB_TRANSPORT_VERSION) {
    refuse(file.string(), text("version ", table->version, " of the transport interface"),
           text("version ", HETHUB_TRANSPORT_VERSION), rebuild);
  }
  if (table->bytes != sizeof(HethubTransport)) {
    refuse(file.string(), text("a table of ", table->bytes, " bytes"),
           text(sizeof(HethubTransport)), rebuild);
  }
  if (lacks_a_function(*table)) {
    refuse(file.string(), "a table that lacks a function", "all", rebuild);
  }
  if (table->name == nullptr || name != table->name) {
    refuse(file.string(),
           text("a transport ", table->name == nullptr ? "without name" : table->name),
           std::string(name), "give the file the name it was built with");
  }
  return *table;
}

const HethubTransport& load_transport(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, const HethubTransport*, std::less<>> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(name);
  if (found != known.end()) return *found->second;
  return *known.emplace(std::string(name), &loaded(name)).first->second;
}

}  // namespace hethub
