#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <ucp/api/ucp.h>

#include "hethub/comm/plugin/transport_plugin.h"

// The transport over UCX: InfiniBand, RoCE and what else UCX knows, chosen by its own variables
// (UCX_NET_DEVICES, UCX_TLS). An end is an endpoint with a worker of its own, so that ends share
// nothing that two threads could want at once.

namespace {

// What is written is sent from copies, so many at once and so large.
constexpr std::size_t kSlots = 4;
constexpr std::size_t kSlotBytes = std::size_t{256} * 1024 + 4096;
constexpr auto kCloseTime = std::chrono::milliseconds(100);

void explain(HethubTransportError* error, const char* call, ucs_status_t status) {
  std::snprintf(error->why, sizeof error->why, "%s: %s", call, ucs_status_string(status));
}

// One for the process; it lives as long as that. Throws nothing: null, with `error`.
ucp_context_h context_of_process(HethubTransportError* error) {
  static std::mutex mutex;
  static ucp_context_h context = nullptr;
  const std::lock_guard lock(mutex);
  if (context != nullptr) return context;
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) {
    explain(error, "ucp_config_read", status);
    return nullptr;
  }
  // Its shared memory cannot tell that a peer is gone; ranks of one host have ours.
  if (std::getenv("UCX_TLS") == nullptr) ucp_config_modify(config, "TLS", "^shm");
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_STREAM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;
  status = ucp_init(&params, config, &context);
  ucp_config_release(config);
  if (status != UCS_OK) {
    explain(error, "ucp_init", status);
    context = nullptr;
  }
  return context;
}

}  // namespace

struct HethubTransportEnd {
  struct Slot {
    std::unique_ptr<std::byte[]> memory = {};
    bool busy = false;
  };

  ~HethubTransportEnd() { close(); }

  bool open(HethubTransportError* error) {
    const ucp_context_h context = context_of_process(error);
    if (context == nullptr) return false;
    ucp_worker_params_t params = {};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    ucs_status_t status = ucp_worker_create(context, &params, &worker);
    if (status == UCS_OK) status = ucp_worker_get_efd(worker, &descriptor);
    if (status == UCS_OK) status = ucp_worker_get_address(worker, &address, &address_bytes);
    if (status != UCS_OK) explain(error, "making a worker", status);
    return status == UCS_OK;
  }

  bool connect(const void* to, HethubTransportError* error) {
    for (Slot& slot : slots) {
      slot.memory = std::make_unique_for_overwrite<std::byte[]>(kSlotBytes);
    }
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = static_cast<const ucp_address_t*>(to);
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = [](void* end, ucp_ep_h, ucs_status_t status) {
      static_cast<HethubTransportEnd*>(end)->fail(status);
    };
    params.err_handler.arg = this;
    const ucs_status_t status = ucp_ep_create(worker, &params, &endpoint);
    if (status == UCS_OK) return true;
    explain(error, "ucp_ep_create", status);
    return false;
  }

  void fail(ucs_status_t status) {
    if (failure.empty()) failure = ucs_status_string(status);
  }

  std::size_t write(const std::byte* first, std::size_t first_bytes, const std::byte* second,
                    std::size_t second_bytes) {
    const std::size_t wanted = first_bytes + second_bytes;
    std::size_t taken = 0;
    while (taken < wanted && failure.empty()) {
      Slot* slot = free_slot();
      if (slot == nullptr) break;
      const std::size_t size = std::min(wanted - taken, kSlotBytes);
      const std::size_t of_first = taken < first_bytes ? std::min(first_bytes - taken, size) : 0;
      if (of_first > 0) std::memcpy(slot->memory.get(), first + taken, of_first);
      if (size > of_first) {
        std::memcpy(slot->memory.get() + of_first, second + (taken + of_first - first_bytes),
                    size - of_first);
      }
      send(*slot, size);
      taken += size;
    }
    return taken;
  }

  std::size_t read(std::byte* to, std::size_t bytes) {
    std::size_t given = 0;
    while (given < bytes) {
      if (arrived == nullptr && !fetch()) break;
      const std::size_t size = std::min(bytes - given, arrived_bytes - taken);
      std::memcpy(to + given, arrived + taken, size);
      given += size;
      taken += size;
      if (taken == arrived_bytes) release();
    }
    return given;
  }

  // Whether the descriptor will tell of what comes next. Nothing that has come is left unread.
  bool arm() {
    constexpr int kRounds = 16;
    for (int round = 0; round < kRounds; ++round) {
      // What an earlier call took in is no event of the worker's any more.
      if (arrived != nullptr || fetch() || std::exchange(freed, false) || !failure.empty()) {
        return false;
      }
      const ucs_status_t status = ucp_worker_arm(worker);
      if (status == UCS_OK) return true;
      if (status != UCS_ERR_BUSY) fail(status);
    }
    return false;
  }

  void close() {
    if (arrived != nullptr) release();
    if (endpoint != nullptr) close_endpoint();
    if (address != nullptr) ucp_worker_release_address(worker, address);
    if (worker != nullptr) ucp_worker_destroy(worker);
  }

  Slot* free_slot() {
    for (int attempt = 0; attempt < 2; ++attempt) {
      for (Slot& slot : slots) {
        if (!slot.busy) return &slot;
      }
      ucp_worker_progress(worker);
    }
    blocked = true;
    return nullptr;
  }

  void send(Slot& slot, std::size_t bytes) {
    struct Sent {
      static void done(void* request, ucs_status_t, void* user) {
        auto* end = static_cast<HethubTransportEnd*>(user);
        for (std::size_t at = 0; at < kSlots; ++at) {
          if (end->requests[at] == request) {
            end->slots[at].busy = false;
            end->requests[at] = nullptr;
          }
        }
        end->freed = std::exchange(end->blocked, false) || end->freed;
        ucp_request_free(request);
      }
    };
    ucp_request_param_t params = {};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.cb.send = Sent::done;
    params.user_data = this;
    const ucs_status_ptr_t request =
        ucp_stream_send_nbx(endpoint, slot.memory.get(), bytes, &params);
    if (UCS_PTR_IS_ERR(request)) {
      fail(UCS_PTR_STATUS(request));
    } else if (request != nullptr) {
      slot.busy = true;
      requests[static_cast<std::size_t>(&slot - slots.data())] = request;
    }
  }

  // Whether something has come.
  bool fetch() {
    ucp_worker_progress(worker);
    const ucs_status_ptr_t data = ucp_stream_recv_data_nb(endpoint, &arrived_bytes);
    if (data == nullptr) return false;
    if (UCS_PTR_IS_ERR(data)) {
      fail(UCS_PTR_STATUS(data));
      return false;
    }
    arrived = static_cast<const std::byte*>(data);
    taken = 0;
    return true;
  }

  void release() {
    ucp_stream_data_release(endpoint, const_cast<std::byte*>(std::exchange(arrived, nullptr)));
  }

  // The peer's transport says that it has all that was taken, unless it is gone: hence the limit.
  void close_endpoint() {
    const auto until = std::chrono::steady_clock::now() + kCloseTime;
    ucp_request_param_t params = {};
    if (failure.empty()) finish(ucp_ep_flush_nbx(endpoint, &params), until);
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_EP_CLOSE_FLAG_FORCE;
    finish(ucp_ep_close_nbx(endpoint, &params), until + kCloseTime);
  }

  void finish(ucs_status_ptr_t request, std::chrono::steady_clock::time_point until) {
    if (!UCS_PTR_IS_PTR(request)) return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS &&
           std::chrono::steady_clock::now() < until) {
      ucp_worker_progress(worker);
    }
    ucp_request_free(request);
  }

  ucp_worker_h worker = nullptr;
  ucp_ep_h endpoint = nullptr;
  ucp_address_t* address = nullptr;
  std::size_t address_bytes = 0;
  int descriptor = -1;
  std::array<Slot, kSlots> slots = {};
  std::array<void*, kSlots> requests = {};
  bool blocked = false;                // a write found no room
  bool freed = false;                  // and there is room since
  const std::byte* arrived = nullptr;  // memory of UCX
  std::size_t arrived_bytes = 0;
  std::size_t taken = 0;
  std::string failure = {};
};

extern "C" const HethubTransport* hethub_transport(void) {
  static const HethubTransport table = {
      .version = HETHUB_TRANSPORT_VERSION,
      .bytes = sizeof(HethubTransport),
      .name = "ucx",
      .open = [](HethubTransportError* error) -> HethubTransportEnd* {
        auto end = std::make_unique<HethubTransportEnd>();
        return end->open(error) ? end.release() : nullptr;
      },
      .address = [](HethubTransportEnd* end, std::uint64_t* bytes) -> const void* {
        *bytes = end->address_bytes;
        return end->address;
      },
      .connect = [](HethubTransportEnd* end, const void* address, std::uint64_t,
                    HethubTransportError* error) -> std::int32_t {
        return end->connect(address, error) ? 0 : 1;
      },
      .write = [](HethubTransportEnd* end, const void* first, std::uint64_t first_bytes,
                  const void* second, std::uint64_t second_bytes) -> std::uint64_t {
        return end->write(static_cast<const std::byte*>(first), first_bytes,
                          static_cast<const std::byte*>(second), second_bytes);
      },
      .read = [](HethubTransportEnd* end, void* to, std::uint64_t bytes) -> std::uint64_t {
        return end->read(static_cast<std::byte*>(to), bytes);
      },
      .descriptor = [](HethubTransportEnd* end) { return end->descriptor; },
      .arm = [](HethubTransportEnd* end) -> std::int32_t { return end->arm() ? 1 : 0; },
      .failure = [](HethubTransportEnd* end) { return end->failure.c_str(); },
      .close = [](HethubTransportEnd* end) { delete end; }};
  return &table;
}
