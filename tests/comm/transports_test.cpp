#include "hethub/comm/transports.h"

#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

#include "hethub/comm/plugin/transport.h"
#include "tests/comm/errors.h"

namespace hethub {
namespace {

TEST(Transports, a_list_names_shm_and_at_most_one_way_between_hosts) {
  const Transports usual = transports_of("shm,tcp");
  EXPECT_TRUE(usual.shm && !usual.ucx);
  const Transports shared = transports_of("shm");
  EXPECT_TRUE(shared.shm && !shared.ucx);
  const Transports tcp = transports_of("tcp");
  EXPECT_TRUE(!tcp.shm && !tcp.ucx);
  const Transports both = transports_of("ucx,shm");
  EXPECT_TRUE(both.shm && both.ucx);
  const Transports ucx = transports_of("ucx");
  EXPECT_TRUE(!ucx.shm && ucx.ucx);
  for (const char* list : {"", ",", "shm,", "rdma", "tcp,ucx", "shm tcp"}) {
    EXPECT_THROW((void)transports_of(list), Error) << list;
  }
}

TEST(Transports, one_that_is_not_there_is_refused_with_the_folders_that_were_searched) {
  ::setenv("HETHUB_PLUGIN_PATH", "/nowhere/at/all", 1);
  const std::string error =
      error_text([] { (void)load_transport("pigeon"); }, ErrorCode::kUnavailable);
  ::unsetenv("HETHUB_PLUGIN_PATH");
  expect_contains(error, "transport-pigeon.so in /nowhere/at/all");
}

HethubTransport whole() {
  HethubTransport table = {};
  table.version = HETHUB_TRANSPORT_VERSION;
  table.bytes = sizeof(table);
  table.name = "x";
  table.open = [](HethubTransportError*) -> HethubTransportEnd* { return nullptr; };
  table.address = [](HethubTransportEnd*, std::uint64_t*) -> const void* { return nullptr; };
  table.connect = [](HethubTransportEnd*, const void*, std::uint64_t, HethubTransportError*) {
    return 1;
  };
  table.write = [](HethubTransportEnd*, const void*, std::uint64_t, const void*,
                   std::uint64_t) -> std::uint64_t { return 0; };
  table.read = [](HethubTransportEnd*, void*, std::uint64_t) -> std::uint64_t { return 0; };
  table.descriptor = [](HethubTransportEnd*) { return -1; };
  table.arm = [](HethubTransportEnd*) { return 1; };
  table.failure = [](HethubTransportEnd*) { return ""; };
  table.close = [](HethubTransportEnd*) {};
  return table;
}

TEST(Transports, a_table_of_another_version_size_or_name_or_without_a_function_is_refused) {
  const HethubTransport good = whole();
  EXPECT_EQ(&checked_transport(&good, "x", "x.so"), &good);
  const auto refused = [](HethubTransport table, const char* why) {
    const std::string error =
        error_text([&] { (void)checked_transport(&table, "x", "x.so"); }, ErrorCode::kUnavailable);
    expect_contains(error, why);
  };
  HethubTransport bad = whole();
  bad.version += 1;
  refused(bad, "version 2");
  bad = whole();
  bad.bytes -= 8;
  refused(bad, "a table of");
  bad = whole();
  bad.arm = nullptr;
  refused(bad, "lacks a function");
  bad = whole();
  bad.name = "y";
  refused(bad, "a transport y");
  EXPECT_THROW((void)checked_transport(nullptr, "x", "x.so"), Error);
}

TEST(Transports, an_end_that_cannot_be_opened_says_why) {
  HethubTransport table = whole();
  table.open = [](HethubTransportError* error) -> HethubTransportEnd* {
    std::snprintf(error->why, sizeof error->why, "no card");
    return nullptr;
  };
  const std::string error = error_text([&] { TransportEnd end(table); }, ErrorCode::kUnavailable);
  expect_contains(error, "no card");
}

}  // namespace
}  // namespace hethub
