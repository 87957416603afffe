#include "cli/devices_routes.h"

#include <array>
#include <cstdio>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hethub/base/descriptor.h"
#include "hethub/base/error.h"
#include "hethub/base/json.h"
#include "hethub/base/text.h"
#include "hethub/comm/plugin/transport.h"
#include "hethub/comm/route.h"
#include "hethub/comm/shm/shm_wire.h"

namespace hethub {
namespace {

// One end of a pair.
struct End {
  std::string name = {};  // "opencl 0 (pocl)"
  std::string kind = {};
  std::string route = {};
};

// How two processes of this host exchange bytes.
struct SameHost {
  std::string transport = "tcp";
  std::string why_not_faster = {};
};

// Whether one process of this user may read another's memory, as ranks do that are no parent and
// child of each other.
bool siblings_may_read() {
  static const std::array<char, 8> kWord = {'h', 'e', 't', 'h', 'u', 'b', '!', '\0'};
  int ends[2] = {};
  if (::pipe(ends) != 0) return false;
  const Descriptor wait_at(ends[0]);
  Descriptor held(ends[1]);
  const pid_t read_from = ::fork();
  if (read_from == 0) {
    char nothing = 0;
    ::close(ends[1]);
    static_cast<void>(!::read(ends[0], &nothing, 1));  // ends when the parent has closed its end
    ::_exit(0);
  }
  const pid_t reader = ::fork();
  if (reader == 0) {
    std::array<char, kWord.size()> got = {};
    const iovec here = {got.data(), got.size()};
    const iovec there = {const_cast<char*>(kWord.data()), kWord.size()};
    ::_exit(::process_vm_readv(read_from, &here, 1, &there, 1, 0) == std::ssize(got) ? 0 : 1);
  }
  int status = 1;
  if (reader > 0) ::waitpid(reader, &status, 0);
  held.reset();
  if (read_from > 0) ::waitpid(read_from, nullptr, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

SameHost same_host() {
  try {
    SharedRings::create(1 << 16);
  } catch (const Error& error) {
    return {"tcp", text("no shared memory: ", error.parts().found)};
  }
  if (siblings_may_read()) return {"shm, one copy", ""};
  return {"shm, two copies",
          "this system lets no rank read another's memory (see kernel.yama.ptrace_scope)"};
}

std::vector<End> ends_of(const std::vector<FoundDevice>& devices) {
  std::vector<End> ends;
  for (const FoundDevice& device : devices) {
    if (!device.problem.empty()) continue;
    const auto backend = open_backend(device.backend, {.device = device.device});
    ends.push_back({.name = text(device.backend, ' ', device.device),
                    .kind = device.info.kind,
                    .route = std::string(route_for(*backend)->name())});
  }
  return ends;
}

// Why nothing but tcp can be chosen between hosts; empty if ucx can.
std::string why_no_ucx() {
  try {
    static_cast<void>(load_transport("ucx"));
    return {};
  } catch (const Error& error) {
    return text(error.parts().what, ": ", error.parts().found);
  }
}

// Why the pair takes no faster route; see DESIGN's three routes.
std::string why_not_faster(const End& first, const End& second, const SameHost& here,
                           const std::string& no_ucx) {
  std::string why = first.kind == second.kind
                        ? text("no vendor's library is known for kind ", first.kind)
                        : std::string("a vendor's library connects one kind only");
  for (const End* end : {&first, &second}) {
    if (end->route == "direct" || (end == &second && first.name == second.name)) continue;
    why += text("; ", end->name, ": the CPU does not address its memory");
  }
  if (!here.why_not_faster.empty()) why += "; " + here.why_not_faster;
  if (!no_ucx.empty()) why += "; " + no_ucx;
  return why;
}

}  // namespace

void print_routes(const std::vector<FoundDevice>& devices, bool json) {
  const std::vector<End> ends = ends_of(devices);
  const SameHost here = same_host();
  const std::string no_ucx = why_no_ucx();
  Json rows = Json::array();
  for (std::size_t low = 0; low < ends.size(); ++low) {
    for (std::size_t high = low; high < ends.size(); ++high) {
      const End& first = ends[low];
      const End& second = ends[high];
      rows.push_back({{"pair", {first.name, second.name}},
                      {"routes", {first.route, second.route}},
                      {"same_host", here.transport},
                      {"between_hosts", no_ucx.empty() ? "tcp or ucx" : "tcp"},
                      {"why_not_faster", why_not_faster(first, second, here, no_ucx)}});
    }
  }
  if (json) {
    std::cout << Json({{"routes", rows}}).dump(2) << '\n';
    return;
  }
  std::printf("%-10s %-10s %-12s %-12s %-16s %-13s %s\n", "first", "second", "its route",
              "its route", "on one host", "between hosts", "why not faster");
  for (const Json& row : rows) {
    const auto cell = [&](const char* name, int at) { return row[name][at].get<std::string>(); };
    std::printf("%-10s %-10s %-12s %-12s %-16s %-13s %s\n", cell("pair", 0).c_str(),
                cell("pair", 1).c_str(), cell("routes", 0).c_str(), cell("routes", 1).c_str(),
                row["same_host"].get<std::string>().c_str(),
                row["between_hosts"].get<std::string>().c_str(),
                row["why_not_faster"].get<std::string>().c_str());
  }
}

}  // namespace hethub
