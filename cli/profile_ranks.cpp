#include "cli/profile_ranks.h"

#include <array>
#include <cstddef>
#include <span>

#include "hethub/base/deadline.h"
#include "hethub/base/error.h"
#include "hethub/comm/tags.h"

namespace hethub {
namespace {

constexpr double kPeerTimeout = 1200;

}  // namespace

void meet(Messenger& messenger, std::uint64_t number) {
  std::byte word{};
  std::vector<std::byte> words(static_cast<std::size_t>(messenger.world_size()));
  const Tag tag = point_to_point_tag(0, number);
  const Deadline deadline = after_seconds(kPeerTimeout);
  for (int peer = 0; peer < messenger.world_size(); ++peer) {
    if (peer == messenger.rank()) continue;
    const Handle sent = messenger.post_send(peer, tag, {&word, 1});
    const Handle got = messenger.post_recv(peer, tag, {&words[static_cast<std::size_t>(peer)], 1});
    messenger.wait(sent, deadline, {.name = "profile"});
    messenger.wait(got, deadline, {.name = "profile"});
  }
}

std::vector<std::string> gather_texts(Messenger& messenger, const std::string& mine) {
  const Tag tag = point_to_point_tag(0, 4);
  const Deadline deadline = after_seconds(kPeerTimeout);
  const Operation operation{.name = "profile"};
  std::uint64_t size = mine.size();
  if (messenger.rank() != 0) {
    messenger.wait(messenger.post_send(0, tag, std::as_bytes(std::span(&size, 1))), deadline,
                   operation);
    messenger.wait(messenger.post_send(0, tag, std::as_bytes(std::span(mine))), deadline,
                   operation);
    return {mine};
  }
  constexpr std::uint64_t kMostText = 64 << 20;
  std::vector<std::string> all = {mine};
  for (int peer = 1; peer < messenger.world_size(); ++peer) {
    messenger.wait(messenger.post_recv(peer, tag, std::as_writable_bytes(std::span(&size, 1))),
                   deadline, operation);
    require(size <= kMostText, [&] {
      return ErrorParts{.what = text("costs measured by ", messenger.name_of(peer)),
                        .found = text(size, " bytes"),
                        .expected = text("at most ", kMostText),
                        .fix = "run the same hethub on all hosts"};
    });
    all.emplace_back(size, ' ');
    messenger.wait(messenger.post_recv(peer, tag, std::as_writable_bytes(std::span(all.back()))),
                   deadline, operation);
  }
  return all;
}

std::vector<std::string> exchange_names(Messenger& messenger, const std::string& mine) {
  using Name = std::array<char, 64>;
  std::vector<Name> names(static_cast<std::size_t>(messenger.world_size()));
  Name& own = names[static_cast<std::size_t>(messenger.rank())];
  mine.copy(own.data(), own.size() - 1);
  std::vector<Handle> handles;
  const Tag tag = point_to_point_tag(0, 5);
  for (int peer = 0; peer < messenger.world_size(); ++peer) {
    if (peer == messenger.rank()) continue;
    Name& name = names[static_cast<std::size_t>(peer)];
    handles.push_back(messenger.post_send(peer, tag, std::as_bytes(std::span(own))));
    handles.push_back(messenger.post_recv(peer, tag, std::as_writable_bytes(std::span(name))));
  }
  for (const Handle handle : handles) {
    messenger.wait(handle, after_seconds(kPeerTimeout), {.name = "profile"});
  }
  std::vector<std::string> all;
  for (Name& name : names) {
    name.back() = '\0';
    all.emplace_back(name.data());
  }
  return all;
}

}  // namespace hethub
