#pragma once

#include <memory>

#include "hethub/base/descriptor.h"
#include "hethub/comm/wire.h"

namespace hethub {

/// A wire over a connected stream socket, which it makes non-blocking.
std::unique_ptr<Wire> make_tcp_wire(Descriptor socket);

}  // namespace hethub
