// SPDX-License-Identifier: Apache-2.0
#include "tests/support/no_memory.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "tests/support/allocated_bytes.h"

namespace ckptdb::testing {
namespace {

constexpr int64_t kNever = -1;
thread_local int64_t allocations_left = kNever;
std::atomic<uint64_t> allocated_bytes = 0;

constexpr int kMaxFrames = 64;

// Returns whether RocksDB ends the process if an exception leaves this
// function: a destructor (an iterator's allocates if it was the last user of a
// version of the data), or the installation of a version and the statistics
// that follow it in an ingestion, because an assertion fails.
bool MayNotThrow(absl::string_view symbol) {
  if (!absl::StartsWith(symbol, "_ZN7rocksdb")) return false;
  return absl::EndsWith(symbol, "D0Ev") || absl::EndsWith(symbol, "D1Ev") ||
         absl::EndsWith(symbol, "D2Ev") ||
         absl::StrContains(symbol, "InstallSuperVersion") ||
         absl::StrContains(symbol, "UpdateStats");
}

bool IsCalledWhereNothingMayBeThrown() {
  std::array<void*, kMaxFrames> frames;
  const int count = backtrace(frames.data(), kMaxFrames);
  for (int i = 0; i < count; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) != 0 && info.dli_sname != nullptr &&
        MayNotThrow(info.dli_sname)) {
      return true;
    }
  }
  return false;
}

}  // namespace

uint64_t AllocatedBytes() { return allocated_bytes; }

NoMemory::NoMemory(int64_t after) {
  // The first call of backtrace() loads a library.
  std::array<void*, 1> frame;
  backtrace(frame.data(), 1);
  allocations_left = after;
}
NoMemory::~NoMemory() { allocations_left = kNever; }
bool NoMemory::HasThrown() const { return allocations_left == kNever; }

// Returns whether this allocation is the one that fails.
bool TakeFailure() {
  if (allocations_left == kNever) return false;
  if (allocations_left > 0) {
    --allocations_left;
    return false;
  }
  if (IsCalledWhereNothingMayBeThrown()) return false;
  allocations_left = kNever;
  return true;
}

}  // namespace ckptdb::testing

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// Found before those of the standard library, by all libraries of the program.
// Its other forms, for arrays and without exceptions, call these.
void* operator new(size_t bytes) {
  if (ckptdb::testing::TakeFailure()) throw std::bad_alloc();
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  ckptdb::testing::allocated_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}

#endif
