#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "hethub/base/descriptor.h"
#include "hethub/comm/plugin/transport_plugin.h"
#include "hethub/comm/wire.h"

namespace hethub {

/// The file of a transport in the plug-in folders; empty if there is none.
std::filesystem::path transport_file(std::string_view name);

/// A loaded transport. It stays loaded until the program ends.
/// Throws kUnavailable, naming the file or the folders, if it is not there, cannot be loaded, or is
/// one of another version or name.
const HethubTransport& load_transport(std::string_view name);

/// The table, if this program can use it. Throws kUnavailable, naming the file, for one that is of
/// another version or name, or lacks a function.
const HethubTransport& checked_transport(const HethubTransport* table, std::string_view name,
                                         const std::filesystem::path& file);

/// One end of a plug-in's stream, before it is a wire: two ends give each other their addresses.
class TransportEnd {
 public:
  /// Throws kUnavailable with the transport's reason.
  explicit TransportEnd(const HethubTransport& transport);

  /// Where the peer reaches this end.
  std::span<const std::byte> address() const;

  /// A wire to the end of this address. `socket`, a connected stream socket to the peer, carries no
  /// data: its end tells that the peer is gone, which a transport may not see.
  /// Throws kUnavailable with the transport's reason.
  std::unique_ptr<Wire> connect(std::span<const std::byte> address, Descriptor socket) &&;

 private:
  struct Close {
    const HethubTransport* transport = nullptr;
    void operator()(HethubTransportEnd* end) const { transport->close(end); }
  };
  friend class TransportWire;

  const HethubTransport* transport_;
  std::unique_ptr<HethubTransportEnd, Close> end_;
};

}  // namespace hethub
