#include "hethub/comm/shm/shm_wire.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hethub/base/error.h"

namespace hethub {
namespace {

// One direction. `written` and `consumed` count bytes since the start and never wrap in practice;
// each is changed by one side only.
struct alignas(64) RingHead {
  alignas(64) std::atomic<std::uint64_t> written = 0;
  alignas(64) std::atomic<std::uint64_t> consumed = 0;
  alignas(64) std::atomic<std::uint32_t> reader_sleeps = 0;
  std::atomic<std::uint32_t> writer_sleeps = 0;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// The shared memory: this, then the bytes of the ring from the first, then of that to the first.
struct Heads {
  std::uint64_t nonce = 0;
  std::atomic<std::int32_t> first_pid = 0;
  std::atomic<std::int32_t> second_pid = 0;
  RingHead from_first = {};
  RingHead to_first = {};
};
constexpr std::int64_t kHeadBytes = 4096;
static_assert(sizeof(Heads) <= kHeadBytes);

Heads& heads_of(const SharedRings& rings) { return *reinterpret_cast<Heads*>(rings.memory()); }

}  // namespace

SharedRings SharedRings::create(std::int64_t ring_bytes) {
  Descriptor file(::memfd_create("hethub-rings", MFD_CLOEXEC));
  const std::int64_t bytes = kHeadBytes + 2 * ring_bytes;
  if (!file.valid() || ::posix_fallocate(file.get(), 0, bytes) != 0) {
    throw Error(ErrorCode::kOutOfMemory, {.what = "shared memory between two ranks of this host",
                                          .found = std::strerror(errno),
                                          .expected = text(bytes, " bytes"),
                                          .fix = "free memory, or use the tcp transport"});
  }
  SharedRings rings(std::move(file), ring_bytes);
  auto* heads = new (rings.memory_) Heads();
  if (::getrandom(&heads->nonce, sizeof heads->nonce, 0) != sizeof heads->nonce) heads->nonce = 1;
  return rings;
}

SharedRings SharedRings::open(int pid, int number, std::int64_t ring_bytes, std::uint64_t nonce) {
  const std::string path = text("/proc/", pid, "/fd/", number);
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat facts = {};
  const bool fits = file.valid() && ::fstat(file.get(), &facts) == 0 &&
                    facts.st_size == kHeadBytes + 2 * ring_bytes;
  if (!fits) {
    throw Error(ErrorCode::kUnavailable, {.what = text("shared memory ", path),
                                          .found = std::strerror(errno),
                                          .expected = "the memory that the peer made",
                                          .fix = "use the tcp transport between these ranks"});
  }
  SharedRings rings(std::move(file), ring_bytes);
  if (rings.nonce() != nonce) {
    throw Error(ErrorCode::kUnavailable, {.what = text("shared memory ", path),
                                          .found = "another process's memory",
                                          .expected = "the memory that the peer made",
                                          .fix = "use the tcp transport between these ranks"});
  }
  return rings;
}

SharedRings::SharedRings(Descriptor file, std::int64_t ring_bytes)
    : file_(std::move(file)), ring_bytes_(ring_bytes) {
  void* memory = ::mmap(nullptr, static_cast<std::size_t>(kHeadBytes + 2 * ring_bytes),
                        PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorCode::kOutOfMemory, {.what = "mapping shared memory between two ranks",
                                          .found = std::strerror(errno),
                                          .expected = text(2 * ring_bytes, " bytes"),
                                          .fix = "free memory, or use the tcp transport"});
  }
  memory_ = static_cast<std::byte*>(memory);
}

SharedRings::SharedRings(SharedRings&& other) noexcept
    : file_(std::move(other.file_)),
      ring_bytes_(other.ring_bytes_),
      memory_(std::exchange(other.memory_, nullptr)) {}

SharedRings& SharedRings::operator=(SharedRings&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(ring_bytes_, other.ring_bytes_);
  std::swap(memory_, other.memory_);
  return *this;
}

SharedRings::~SharedRings() {
  if (memory_ != nullptr) {
    ::munmap(memory_, static_cast<std::size_t>(kHeadBytes + 2 * ring_bytes_));
  }
}

std::uint64_t SharedRings::nonce() const { return heads_of(*this).nonce; }

namespace {

// Sleeping and waking follow one rule on both sides: say that you sleep, then look once more; the
// other side changes the ring, then looks whether you sleep. These accesses are sequentially
// consistent, so one of the two sees the other.
class ShmWire : public Wire {
 public:
  ShmWire(SharedRings rings, Descriptor socket, bool first, bool pulls)
      : rings_(std::move(rings)),
        socket_(std::move(socket)),
        out_(first ? heads_of(rings_).from_first : heads_of(rings_).to_first),
        in_(first ? heads_of(rings_).to_first : heads_of(rings_).from_first),
        out_bytes_(rings_.memory() + kHeadBytes + (first ? 0 : rings_.ring_bytes())),
        in_bytes_(rings_.memory() + kHeadBytes + (first ? rings_.ring_bytes() : 0)),
        capacity_(static_cast<std::uint64_t>(rings_.ring_bytes())),
        peer_pid_(first ? heads_of(rings_).second_pid : heads_of(rings_).first_pid),
        pulls_(pulls) {
    (first ? heads_of(rings_).first_pid : heads_of(rings_).second_pid).store(::getpid());
    ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
    attend(false);
  }

  std::string_view name() const override { return "shm"; }

  std::size_t write(std::span<const std::byte> first, std::span<const std::byte> second) override {
    std::size_t taken = put(first, second);
    if (taken == first.size() + second.size() || attended_) return taken;
    out_.writer_sleeps.store(1);
    const std::size_t of_first = std::min(taken, first.size());
    return taken + put(first.subspan(of_first), second.subspan(taken - of_first));
  }

  std::size_t read(std::span<std::byte> to) override {
    if (arrived_ - taken_ < to.size()) arrived_ = in_.written.load(std::memory_order_acquire);
    const std::uint64_t present = arrived_ - taken_;
    if (present > capacity_) {
      end_ = "shared memory overwritten by the peer";
      return 0;
    }
    const std::size_t size = std::min<std::uint64_t>(to.size(), present);
    if (size == 0) {
      if (closing_ && end_.empty()) end_ = "connection closed";
      return 0;
    }
    copy_out(to.first(size));
    taken_ += size;
    if (taken_ - in_.consumed.load(std::memory_order_relaxed) >= capacity_ / 4) give_room();
    return size;
  }

  bool can_pull() const override { return pulls_; }

  bool pull(const PeerMemory& from, std::span<std::byte> to, std::uint64_t& stamp) override {
    const std::array<iovec, 2> here = {{{to.data(), to.size()}, {&stamp, sizeof stamp}}};
    const std::array<iovec, 2> there = {{{reinterpret_cast<void*>(from.data), to.size()},
                                         {reinterpret_cast<void*>(from.stamp), sizeof stamp}}};
    const ssize_t copied = ::process_vm_readv(peer_pid_.load(), here.data(), here.size(),
                                              there.data(), there.size(), 0);
    pulls_ = copied == static_cast<ssize_t>(to.size() + sizeof stamp);
    return pulls_;
  }

  void flush() override {
    if (in_.consumed.load(std::memory_order_relaxed) != taken_) give_room();
    bool ring = std::exchange(wrote_, false) && out_.reader_sleeps.load() != 0 &&
                out_.reader_sleeps.exchange(0) != 0;
    if (in_.writer_sleeps.load() != 0 && half_empty()) {
      ring = in_.writer_sleeps.exchange(0) != 0 || ring;
    }
    const char bell = 'b';
    // A full socket holds bells enough.
    if (ring && ::send(socket_.get(), &bell, 1, MSG_NOSIGNAL) < 0 && errno == EPIPE) {
      closing_ = true;
    }
  }

  bool attend(bool attended) override {
    attended_ = attended;
    in_.reader_sleeps.store(attended ? 0 : 1);
    return true;
  }

  int descriptor() const override { return socket_.get(); }

  void awoken() override {
    std::array<char, 256> bells = {};
    ssize_t got = 0;
    do {
      got = ::recv(socket_.get(), bells.data(), bells.size(), 0);
    } while (got > 0);
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) closing_ = true;
    if (!attended_) attend(false);
  }

  std::string_view end() const override { return end_; }

 private:
  bool half_empty() const { return in_.written.load() - taken_ <= capacity_ / 2; }

  // The reader of a ring looks at `written` all the time and its writer at `consumed` seldom, so
  // each is told once a burst.
  void give_room() { in_.consumed.store(taken_); }

  std::size_t put(std::span<const std::byte> first, std::span<const std::byte> second) {
    const std::size_t wanted = first.size() + second.size();
    if (capacity_ - (put_ - room_from_) < wanted) {
      room_from_ = std::clamp(out_.consumed.load(), room_from_, put_);
    }
    const std::size_t size = std::min<std::uint64_t>(wanted, capacity_ - (put_ - room_from_));
    if (size == 0) return 0;
    const std::size_t of_first = std::min(size, first.size());
    copy_in(first.first(of_first));
    copy_in(second.first(size - of_first));
    out_.written.store(put_);
    wrote_ = true;
    return size;
  }

  void copy_in(std::span<const std::byte> from) {
    const std::size_t at = put_ % capacity_;
    const std::size_t before_end = std::min<std::size_t>(from.size(), capacity_ - at);
    if (before_end > 0) std::memcpy(out_bytes_ + at, from.data(), before_end);
    if (from.size() > before_end) {
      std::memcpy(out_bytes_, from.data() + before_end, from.size() - before_end);
    }
    put_ += from.size();
  }

  void copy_out(std::span<std::byte> to) const {
    const std::size_t at = taken_ % capacity_;
    const std::size_t before_end = std::min<std::size_t>(to.size(), capacity_ - at);
    if (before_end > 0) std::memcpy(to.data(), in_bytes_ + at, before_end);
    if (to.size() > before_end) {
      std::memcpy(to.data() + before_end, in_bytes_, to.size() - before_end);
    }
  }

  SharedRings rings_;
  Descriptor socket_;
  RingHead& out_;
  RingHead& in_;
  std::byte* out_bytes_;
  std::byte* in_bytes_;
  std::uint64_t capacity_;
  std::atomic<std::int32_t>& peer_pid_;
  bool pulls_;
  std::uint64_t put_ = 0;        // written to the ring out
  std::uint64_t room_from_ = 0;  // of it, what the peer is known to have consumed
  std::uint64_t arrived_ = 0;    // known to be written to the ring in
  std::uint64_t taken_ = 0;      // read of it
  bool attended_ = false;
  bool wrote_ = false;
  bool closing_ = false;
  std::string end_ = {};
};

}  // namespace

std::unique_ptr<Wire> make_shm_wire(SharedRings rings, Descriptor socket, bool first, bool pulls) {
  return std::make_unique<ShmWire>(std::move(rings), std::move(socket), first, pulls);
}

}  // namespace hethub
