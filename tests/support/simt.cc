// SPDX-License-Identifier: Apache-2.0
#include "tests/support/simt.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/cuda_standin_state.h"
#include "tests/support/fiber.h"

// The memory of all __shared__ variables of the program, from the linker. There
// may be none.
extern char shared_begin[] __asm__("__start_simt_shared") __attribute__((weak));
extern char shared_end[] __asm__("__stop_simt_shared") __attribute__((weak));

namespace ckptdb::testing {
namespace {

// A running block. The stand-in's lock is held all the time.
class Block {
 public:
  Block(uint32_t threads, std::mt19937_64* random)
      : random_(*random), threads_(threads) {
    while (fibers_.size() < threads) fibers_.emplace_back();
    warps_.resize((threads + kSimtWarp - 1) / kSimtWarp);
    if (random_() % 2 == 0) late_warp_ = random_() % warps_.size();
  }

  void Run(const std::function<void()>& kernel) {
    running_ = this;
    if (shared_begin != nullptr) {
      std::fill(shared_begin, shared_end, static_cast<char>(random_()));
    }
    for (uint32_t t = 0; t < threads_.size(); ++t) {
      fibers_[t].Start(kernel);
      ready_.push_back(t);
    }
    live_ = threads_.size();
    while (live_ > 0) {
      if (ready_.empty()) std::swap(ready_, late_);
      if (ready_.empty()) ReleaseAll();
      RunThread(TakeReady());
    }
    running_ = nullptr;
  }

  static Block& Running() { return *running_; }

  void SyncThreads(int line) {
    Wait(State::kBlock, line);
    if (++at_barrier_ == 1) barrier_line_ = line;
    if (line != barrier_line_) {
      Violate("threads of a block wait at different places", line);
    }
    ReleaseBarrierIfAll();
    Fiber::Yield();
  }

  uint64_t Exchange(uint32_t mask, uint64_t mine, uint32_t from, int line) {
    const uint32_t thread = current_;
    Warp& warp = warps_[thread / kSimtWarp];
    if (warp.waiting == 0) {
      warp.mask = mask;
      warp.line = line;
    }
    if (warp.mask != mask || warp.line != line) {
      Violate("threads of a warp wait at different places", line);
    }
    if ((mask >> thread % kSimtWarp & 1) == 0 || (mask >> from & 1) == 0) {
      Violate("a thread that is outside the mask takes part", line);
    }
    warp.values[thread % kSimtWarp] = mine;
    warp.from[thread % kSimtWarp] = from;
    warp.waiting |= uint32_t{1} << thread % kSimtWarp;
    Wait(State::kWarp, line);
    if (warp.waiting == warp.mask) ReleaseWarp(thread / kSimtWarp);
    Fiber::Yield();
    return threads_[thread].received;
  }

 private:
  enum class State { kReady, kBlock, kWarp };
  struct Thread {
    State state = State::kReady;
    int line = 0;
    uint64_t received = 0;
  };
  struct Warp {
    uint32_t mask = 0;
    int line = 0;
    uint32_t waiting = 0;  // threads that have arrived
    uint64_t values[kSimtWarp] = {};
    uint32_t from[kSimtWarp] = {};
  };

  static void Violate(const char* what, int line) {
    standin::State::Get().Violate(absl::StrCat(what, ", line ", line));
  }

  uint32_t TakeReady() {
    const size_t drawn = random_() % ready_.size();
    std::swap(ready_[drawn], ready_.back());
    const uint32_t thread = ready_.back();
    ready_.pop_back();
    return thread;
  }

  void RunThread(uint32_t thread) {
    current_ = thread;
    threadIdx.x = thread;
    fibers_[thread].Resume();
    if (!fibers_[thread].ended()) return;
    --live_;
    ReleaseBarrierIfAll();
  }

  void Wait(State state, int line) {
    threads_[current_].state = state;
    threads_[current_].line = line;
  }

  void Release(uint32_t thread) {
    threads_[thread].state = State::kReady;
    (thread / kSimtWarp == late_warp_ ? late_ : ready_).push_back(thread);
  }

  // Does not wait for threads that have exited, as on a device.
  void ReleaseBarrierIfAll() {
    if (at_barrier_ == 0 || at_barrier_ < live_) return;
    at_barrier_ = 0;
    for (uint32_t t = 0; t < threads_.size(); ++t) {
      if (threads_[t].state == State::kBlock) Release(t);
    }
  }

  void ReleaseWarp(uint32_t number) {
    Warp& warp = warps_[number];
    for (uint32_t t = 0; t < kSimtWarp; ++t) {
      if ((warp.waiting >> t & 1) == 0) continue;
      const uint32_t thread = number * kSimtWarp + t;
      threads_[thread].received = warp.values[warp.from[t]];
      Release(thread);
    }
    warp.waiting = 0;
  }

  // No thread can continue: a device would hang.
  void ReleaseAll() {
    for (const Thread& thread : threads_) {
      if (thread.state == State::kReady) continue;
      Violate("some threads of a block wait for others forever", thread.line);
      break;
    }
    for (uint32_t w = 0; w < warps_.size(); ++w) ReleaseWarp(w);
    at_barrier_ = 0;
    for (uint32_t t = 0; t < threads_.size(); ++t) {
      if (threads_[t].state == State::kBlock) Release(t);
    }
    if (ready_.empty()) std::swap(ready_, late_);
  }

  // NOLINTBEGIN(readability-identifier-naming): of the class, as its members
  static inline Block* running_ = nullptr;
  // Blocks run one after another and share the fibers.
  static inline std::deque<Fiber>& fibers_ = *new std::deque<Fiber>;
  // NOLINTEND(readability-identifier-naming)

  std::mt19937_64& random_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  size_t late_warp_ = ~size_t{0};
  std::vector<uint32_t> ready_;
  std::vector<uint32_t> late_;  // of the late warp, while others are ready
  size_t live_ = 0;
  size_t at_barrier_ = 0;
  int barrier_line_ = 0;
  uint32_t current_ = 0;
};

std::mt19937_64& Random() {
  static std::mt19937_64 random;
  return random;
}

uint64_t blocks_run = 0;

void RunGrid(dim3 grid, dim3 block, const std::function<void()>& kernel) {
  std::vector<uint32_t> order(grid.x);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), Random());
  gridDim = grid;
  blockDim = block;
  for (const uint32_t number : order) {
    blockIdx.x = number;
    Block(block.x, &Random()).Run(kernel);
    ++blocks_run;
  }
}

}  // namespace

void Simt::Seed(uint64_t seed) {
  const standin::Lock lock(standin::State::Get().mutex_);
  Random().seed(seed);
}

uint64_t Simt::blocks() {
  const standin::Lock lock(standin::State::Get().mutex_);
  return blocks_run;
}

cudaError_t Simt::Queue(dim3 grid, dim3 block, cudaStream_t stream,
                        std::function<void()> kernel,
                        const std::vector<const void*>& words) {
  std::vector<CudaStandin::Range> ranges;
  {
    standin::State& state = standin::State::Get();
    const standin::Lock lock(state.mutex_);
    for (const void* word : words) {
      if (state.Holder(word, 1) != nullptr) ranges.emplace_back(word, 1);
    }
  }
  return CudaStandin::Queue(
      stream, "kernel",
      [grid, block, kernel = std::move(kernel)] {
        RunGrid(grid, block, kernel);
      },
      std::move(ranges));
}

void Simt::SyncThreads(int line) { Block::Running().SyncThreads(line); }

uint64_t Simt::Exchange(uint32_t mask, uint64_t mine, uint32_t from, int line) {
  return Block::Running().Exchange(mask, mine, from, line);
}

}  // namespace ckptdb::testing
