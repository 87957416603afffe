#include "hethub/comm/transports.h"

#include <algorithm>
#include <cstddef>

#include "hethub/base/error.h"

namespace hethub {

Transports transports_of(std::string_view list) {
  Transports chosen = {.shm = false};
  bool tcp = false;
  bool known = !list.empty();
  for (std::size_t begin = 0; begin <= list.size() && known;) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view name = list.substr(begin, end - begin);
    bool* const flag = name == "shm"   ? &chosen.shm
                       : name == "ucx" ? &chosen.ucx
                       : name == "tcp" ? &tcp
                                       : nullptr;
    known = flag != nullptr;
    if (known) *flag = true;
    begin = end + 1;
  }
  if (known && !(tcp && chosen.ucx)) return chosen;
  throw Error(ErrorCode::kUsage,
              {.what = "transports",
               .found = text("'", list, "'"),
               .expected = "shm,tcp or tcp, or shm,ucx or ucx",
               .fix = "name shm (inside a host), and tcp or ucx for all other ways"});
}

}  // namespace hethub
