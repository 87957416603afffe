#include "hethub/accel/gpu/host/fibers.h"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include <ucontext.h>

namespace hethub::gpu {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;

// A thread of a block. It outlives the block: it waits in its jump for the next one.
struct Fiber {
  std::vector<std::byte> stack = std::vector<std::byte>(kStackBytes);
  std::array<void*, 5> jump = {};
  bool started = false;
  bool ended = false;
};

// The block that runs on this thread of the process: what the entry of a fiber can reach.
struct Block {
  std::vector<Fiber> fibers = {};
  std::array<void*, 5> scheduler = {};
  const std::function<void()>* kernel = nullptr;
};

Block& block() {
  static thread_local Block running;
  return running;
}

Fiber& running() { return block().fibers[static_cast<std::size_t>(position().thread)]; }

// The compiler's jumps: swapcontext() would ask the system for the signal mask millions of times,
// and longjmp() tells address sanitizers that a stack has come to its end. They are not to be told.
#define HETHUB_JUMPS __attribute__((noinline, no_sanitize("address")))

HETHUB_JUMPS void yield_to_scheduler() {
  if (__builtin_setjmp(running().jump.data()) == 0) __builtin_longjmp(block().scheduler.data(), 1);
}

void enter() {
  for (;;) {
    (*block().kernel)();
    running().ended = true;
    yield_to_scheduler();
  }
}

HETHUB_JUMPS void start(Fiber& fiber) {
  ucontext_t context = {};
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.data();
  context.uc_stack.ss_size = fiber.stack.size();
  makecontext(&context, enter, 0);
  fiber.started = true;
  setcontext(&context);
  std::abort();  // setcontext() returns only if it fails
}

// Runs a fiber as far as its next sync() or its end.
HETHUB_JUMPS void resume(Fiber& fiber) {
  if (__builtin_setjmp(block().scheduler.data()) != 0) return;
  if (fiber.started) __builtin_longjmp(fiber.jump.data(), 1);
  start(fiber);
}

// Each thread as far as its next sync(), until all have ended.
void take_turns(long index, int threads) {
  for (int thread = 0; thread < threads; ++thread) {
    block().fibers[static_cast<std::size_t>(thread)].ended = false;
  }
  for (bool alive = true; alive;) {
    alive = false;
    for (int thread = 0; thread < threads; ++thread) {
      Fiber& fiber = block().fibers[static_cast<std::size_t>(thread)];
      if (fiber.ended) continue;
      position() = {index, thread, threads};
      resume(fiber);
      alive = alive || !fiber.ended;
    }
  }
}

}  // namespace

Position& position() {
  static thread_local Position running;
  return running;
}

void run_blocks(long blocks, int threads, const std::function<void()>& kernel) {
  if (block().fibers.size() < static_cast<std::size_t>(threads)) {
    block().fibers.resize(static_cast<std::size_t>(threads));
  }
  block().kernel = &kernel;
  for (long index = 0; index < blocks; ++index) {
    take_turns(index, threads);
  }
}

void yield_to_block() { yield_to_scheduler(); }

}  // namespace hethub::gpu
