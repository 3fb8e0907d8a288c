// SPDX-License-Identifier: Apache-2.0
// The state of the CUDA runtime's stand-in: streams, events and memory. For its
// own sources.
#ifndef CKPTDB_TESTS_SUPPORT_CUDA_STANDIN_STATE_H_
#define CKPTDB_TESTS_SUPPORT_CUDA_STANDIN_STATE_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/cuda_standin.h"

namespace ckptdb::testing::standin {

// The devices of each thread's context stack; the last one is current. A thread
// begins without one.
inline thread_local std::vector<int> contexts;
// The thread's stream capture mode.
inline thread_local cudaStreamCaptureMode capture_mode =
    cudaStreamCaptureModeGlobal;
// The thread's last error, until cudaGetLastError returns it.
inline thread_local cudaError_t last_error = cudaSuccess;

struct Stream;

// Queued work, or a place to wait at.
struct Op {
  std::string name;
  std::function<void()> run;
  std::vector<CudaStandin::Range> ranges;
  std::shared_ptr<Stream> awaited;  // null: waits for no other stream
  uint64_t awaited_ops = 0;
};

struct Stream {
  int device = 0;
  bool captured = false;  // into a graph
  std::deque<Op> ops;
  uint64_t queued = 0;
  uint64_t done = 0;
  bool destroyed = false;
};

struct Event {
  int device = 0;
  std::shared_ptr<Stream> stream;  // null: nothing was recorded
  uint64_t ops = 0;
};

enum class Kind { kDevice, kPinned, kRegistered };

struct Memory {
  uint64_t bytes = 0;
  Kind kind = Kind::kDevice;
  int device = 0;
};

class State {
 public:
  // The name of copies to the host.
  static constexpr const char* kCopyToHost = "copy to host";

  static State& Get() {
    static State& state = *new State;
    return state;
  }

  void Reset(const CudaStandin::Options& options) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [begin, memory] : memory_) {
      if (memory.kind != Kind::kRegistered) std::free(ToPointer(begin));
    }
    options_ = options;
    random_.seed(options.seed);
    memory_.clear();
    streams_.clear();
    events_.clear();
    default_stream_ = std::make_shared<Stream>();
    contexts_.clear();
    retained_.clear();
    violations_.clear();
    calls_ = copies_ = fail_call_ = flip_copy_ = skip_call_ = 0;
    bytes_to_host_ = 0;
    ordering_.clear();
    device_used_ = 0;
    last_call_.clear();
    failed_call_.clear();
  }

  // Gives the thread a context if it has none, and creates the context if
  // necessary.
  int UseContext() {
    if (contexts.empty()) contexts.push_back(0);
    contexts_.insert(contexts.back());
    return contexts.back();
  }

  // Reports a violation if the call ends a capture of another thread.
  void EndsCaptures(const char* call) {
    if (capture_mode == cudaStreamCaptureModeRelaxed) return;
    for (const std::shared_ptr<Stream>& stream : AllStreams()) {
      if (!stream->captured) continue;
      Violate(absl::StrCat(call, " while a stream is captured"));
    }
  }

  // Counts a call, and returns the error with which it must fail.
  cudaError_t Enter(const char* name, bool may_fail = true) {
    ++calls_;
    last_call_ = name;
    const bool fails =
        fail_call_ > 0 && may_fail &&
        (fail_forever_ ? calls_ >= fail_call_ : calls_ == fail_call_);
    if (!fails) return cudaSuccess;
    failed_call_ = name;
    return last_error = fail_error_;
  }

  bool IsLastCall(const char* name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return last_call_ == name;
  }

  // Records the last entered call as an ordering call. Returns whether it must
  // be skipped.
  bool Skips() {
    ordering_.push_back({calls_, last_call_});
    return calls_ == skip_call_;
  }

  std::shared_ptr<Stream> Find(cudaStream_t stream) {
    if (stream == nullptr) return default_stream_;
    const auto found = streams_.find(stream);
    if (found != streams_.end() && !found->second->destroyed) {
      return found->second;
    }
    Violate("a nonexistent stream is used");
    return nullptr;
  }

  Event* FindEvent(cudaEvent_t event) {
    const auto found = events_.find(event);
    return found == events_.end() ? nullptr : &found->second;
  }

  cudaError_t Push(cudaStream_t to, Op op) {
    const std::shared_ptr<Stream> stream = Find(to);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    stream->ops.push_back(std::move(op));
    ++stream->queued;
    Advance();
    return cudaSuccess;
  }

  // Runs only the awaited work.
  void RunTo(Stream* stream, uint64_t ops) {
    while (stream->done < ops) {
      Op op = std::move(stream->ops.front());
      stream->ops.pop_front();
      if (op.awaited != nullptr) RunTo(op.awaited.get(), op.awaited_ops);
      if (op.run != nullptr) op.run();
      ++stream->done;
    }
  }

  void RunAll() {
    for (const std::shared_ptr<Stream>& stream : AllStreams()) {
      RunTo(stream.get(), stream->queued);
    }
  }

  // Runs the work before the first copy to the host of each stream, except work
  // that depends on such a copy.
  void RunToCopies() {
    for (bool more = true; more;) {
      more = false;
      for (const std::shared_ptr<Stream>& stream : AllStreams()) {
        while (!stream->ops.empty() &&
               MayRunBeforeCopies(stream->ops.front())) {
          RunTo(stream.get(), stream->done + 1);
          more = true;
        }
      }
    }
  }
  static bool MayRunBeforeCopies(const Op& op) {
    if (op.name == kCopyToHost) return false;
    return op.awaited == nullptr || op.awaited->done >= op.awaited_ops;
  }

  void Advance() {
    if (options_.order == CudaStandin::Order::kEager) RunAll();
    if (options_.order == CudaStandin::Order::kCopiesLast) RunToCopies();
    if (options_.order != CudaStandin::Order::kRandom) return;
    for (const std::shared_ptr<Stream>& stream : AllStreams()) {
      const uint64_t ahead = stream->queued - stream->done;
      RunTo(stream.get(), stream->done + random_() % (ahead + 1) / 2);
    }
  }

  std::vector<std::shared_ptr<Stream>> AllStreams() const {
    std::vector<std::shared_ptr<Stream>> all = {default_stream_};
    for (const auto& [handle, stream] : streams_) all.push_back(stream);
    return all;
  }

  // Returns the memory that contains all these bytes, or null.
  const Memory* Holder(const void* begin, uint64_t bytes) const {
    const auto address = reinterpret_cast<uintptr_t>(begin);
    auto after = memory_.upper_bound(address);
    if (after == memory_.begin()) return nullptr;
    --after;
    const bool inside = address + bytes <= after->first + after->second.bytes;
    return inside ? &after->second : nullptr;
  }

  void* Add(uint64_t bytes, Kind kind) {
    constexpr uint64_t kAlignment = 256;
    const uint64_t whole =
        std::max<uint64_t>((bytes + kAlignment - 1) / kAlignment, 1) *
        kAlignment;
    void* const memory = std::aligned_alloc(kAlignment, whole);
    // Uninitialized memory is not zero.
    std::memset(memory, 0xa5, whole);
    memory_[reinterpret_cast<uintptr_t>(memory)] = {bytes, kind,
                                                    contexts.back()};
    return memory;
  }

  // Removes memory, and reports queued work that uses it.
  bool Remove(const void* memory, const char* call) {
    const auto found = memory_.find(reinterpret_cast<uintptr_t>(memory));
    if (found == memory_.end()) {
      Violate(absl::StrCat(call, " of memory that was not allocated"));
      return false;
    }
    if (Queued(found->first, found->second.bytes, call)) RunAll();
    memory_.erase(found);
    return true;
  }

  bool Queued(uintptr_t begin, uint64_t bytes, const char* call) {
    for (const std::shared_ptr<Stream>& stream : AllStreams()) {
      for (const Op& op : stream->ops) {
        for (const auto& [range, range_bytes] : op.ranges) {
          const auto at = reinterpret_cast<uintptr_t>(range);
          if (at >= begin + bytes || at + range_bytes <= begin) continue;
          Violate(absl::StrCat(call, " of memory that \"", op.name,
                               "\" is queued for"));
          return true;
        }
      }
    }
    return false;
  }

  // Returns whether it is device memory; reports a violation otherwise.
  bool IsOfDevice(const void* memory, size_t bytes) {
    const Memory* const held = Holder(memory, bytes);
    if (held != nullptr && held->kind == Kind::kDevice) return true;
    Violate("a copy beyond the memory of the device");
    return false;
  }

  void Violate(std::string what) { violations_.push_back(std::move(what)); }

  static void* ToPointer(uintptr_t address) {
    return reinterpret_cast<void*>(address);
  }

  // Public for the runtime's functions, which are in other files.
  // NOLINTBEGIN(readability-identifier-naming)
  std::mutex mutex_;
  CudaStandin::Options options_;
  std::mt19937_64 random_;
  std::map<uintptr_t, Memory> memory_;
  std::map<cudaStream_t, std::shared_ptr<Stream>> streams_;
  std::map<cudaEvent_t, Event> events_;
  std::shared_ptr<Stream> default_stream_ = std::make_shared<Stream>();
  std::set<int> contexts_;       // devices with a context
  std::map<int, int> retained_;  // references to each device's context
  std::vector<std::string> violations_;
  uintptr_t next_handle_ = 16;
  uint64_t device_used_ = 0;
  int64_t calls_ = 0;
  std::string last_call_;
  std::string failed_call_;
  std::map<std::thread::id, int64_t> host_waits_;
  int64_t copies_ = 0;
  uint64_t bytes_to_host_ = 0;
  int64_t fail_call_ = 0;
  cudaError_t fail_error_ = cudaSuccess;
  bool fail_forever_ = false;
  int64_t skip_call_ = 0;
  std::vector<CudaStandin::Ordering> ordering_;
  int64_t flip_copy_ = 0;
  uint64_t flip_byte_ = 0;
  // NOLINTEND(readability-identifier-naming)
};

using Lock = std::lock_guard<std::mutex>;

// The state, locked as long as the object exists.
class Locked {
 public:
  State* operator->() const { return &State::Get(); }

 private:
  Lock lock_{State::Get().mutex_};
};

}  // namespace ckptdb::testing::standin

#endif  // CKPTDB_TESTS_SUPPORT_CUDA_STANDIN_STATE_H_
