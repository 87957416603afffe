#include "hethub/base/version.h"

#include "version_text.h"  // written by cmake/version.cmake

namespace hethub {

std::string_view version() { return HETHUB_VERSION_TEXT; }

}  // namespace hethub
