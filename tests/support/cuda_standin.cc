#include "ckptdb/tests/support/cuda_standin.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>

#include "absl/strings/str_cat.h"

namespace ckptdb::testing {
namespace {

// Each thread has a device of its own, as in the runtime.
thread_local int current_device = 0;

struct Stream;

// Work that is queued, or a place to wait at.
struct Op {
  std::string name;
  std::function<void()> run;
  std::vector<CudaStandin::Range> ranges;
  std::shared_ptr<Stream> awaited;  // null: it waits for no other stream
  uint64_t awaited_ops = 0;
};

struct Stream {
  std::deque<Op> ops;
  uint64_t queued = 0;
  uint64_t done = 0;
  bool destroyed = false;
};

struct Event {
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
    violations_.clear();
    calls_ = copies_ = fail_call_ = flip_copy_ = skip_call_ = 0;
    ordering_.clear();
    device_used_ = 0;
    last_call_.clear();
  }

  // Counts a call and returns the error that it is to fail with.
  cudaError_t Enter(const char* name, bool may_fail = true) {
    ++calls_;
    last_call_ = name;
    const bool fails =
        fail_call_ > 0 && may_fail &&
        (fail_forever_ ? calls_ >= fail_call_ : calls_ == fail_call_);
    return fails ? fail_error_ : cudaSuccess;
  }

  // Notes the call that was entered last as one that orders something. Returns
  // whether it is to do nothing.
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
    Violate("a stream that is not there is used");
    return nullptr;
  }

  cudaError_t Push(cudaStream_t to, Op op) {
    const std::shared_ptr<Stream> stream = Find(to);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    stream->ops.push_back(std::move(op));
    ++stream->queued;
    Advance();
    return cudaSuccess;
  }

  // Does what is waited for, and nothing else.
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

  void Advance() {
    if (options_.order == CudaStandin::Order::kEager) RunAll();
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

  // The memory that has all of these bytes; null: none.
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
    // What nobody has written is not zero.
    std::memset(memory, 0xa5, whole);
    memory_[reinterpret_cast<uintptr_t>(memory)] = {bytes, kind,
                                                    current_device};
    return memory;
  }

  // Takes memory off; notes what is queued for it.
  bool Remove(const void* memory, const char* call) {
    const auto found = memory_.find(reinterpret_cast<uintptr_t>(memory));
    if (found == memory_.end()) {
      Violate(absl::StrCat(call, " of memory that is not there"));
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

  void Violate(std::string what) { violations_.push_back(std::move(what)); }

  static void* ToPointer(uintptr_t address) {
    return reinterpret_cast<void*>(address);
  }

  std::mutex mutex_;
  CudaStandin::Options options_;
  std::mt19937_64 random_;
  std::map<uintptr_t, Memory> memory_;
  std::map<cudaStream_t, std::shared_ptr<Stream>> streams_;
  std::map<cudaEvent_t, Event> events_;
  std::shared_ptr<Stream> default_stream_ = std::make_shared<Stream>();
  std::vector<std::string> violations_;
  uintptr_t next_handle_ = 16;
  uint64_t device_used_ = 0;
  int64_t calls_ = 0;
  std::string last_call_;
  std::map<std::thread::id, int64_t> host_waits_;
  int64_t copies_ = 0;
  int64_t fail_call_ = 0;
  cudaError_t fail_error_ = cudaSuccess;
  bool fail_forever_ = false;
  int64_t skip_call_ = 0;
  std::vector<CudaStandin::Ordering> ordering_;
  int64_t flip_copy_ = 0;
  uint64_t flip_byte_ = 0;
};

using Lock = std::lock_guard<std::mutex>;

}  // namespace

void CudaStandin::Reset(const Options& options) {
  current_device = 0;
  State::Get().Reset(options);
}

cudaError_t CudaStandin::Queue(cudaStream_t stream, const char* name,
                               std::function<void()> work,
                               std::vector<Range> ranges) {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  if (const cudaError_t error = state.Enter(name); error != cudaSuccess) {
    return error;
  }
  return state.Push(stream,
                    {name, std::move(work), std::move(ranges), nullptr, 0});
}

int64_t CudaStandin::calls() {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  return state.calls_;
}

std::string CudaStandin::LastCall() {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  return state.last_call_;
}

void CudaStandin::FailCall(int64_t number, cudaError_t error, bool forever) {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  state.fail_call_ = number;
  state.fail_error_ = error;
  state.fail_forever_ = forever;
}

void CudaStandin::Finish(cudaStream_t stream) {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  const std::shared_ptr<Stream> found = state.Find(stream);
  if (found != nullptr) state.RunTo(found.get(), found->queued);
}

void CudaStandin::SkipCall(int64_t number) {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  state.skip_call_ = number;
}

std::vector<CudaStandin::Ordering> CudaStandin::ordering_calls() {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  return state.ordering_;
}

// The stand-in is locked while a kernel runs.
void CudaStandin::ExpectDeviceMemory(const void* memory, uint64_t bytes) {
  State& state = State::Get();
  const Memory* const held = state.Holder(memory, bytes);
  if (held != nullptr && held->kind == Kind::kDevice) return;
  state.Violate("a kernel uses memory that is not the device's");
}

void CudaStandin::FlipCopy(int64_t number, uint64_t byte) {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  state.flip_copy_ = number == 0 ? 0 : state.copies_ + number;
  state.flip_byte_ = byte;
}

int64_t CudaStandin::copies() {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  return state.copies_;
}

int64_t CudaStandin::host_waits_of(std::thread::id thread) {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  return state.host_waits_[thread];
}

std::vector<std::string> CudaStandin::violations() {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  return state.violations_;
}

uint64_t CudaStandin::device_bytes_used() {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  return state.device_used_;
}

int64_t CudaStandin::allocations() {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  int64_t streams = 0;
  for (const auto& [handle, stream] : state.streams_) {
    if (!stream->destroyed) ++streams;
  }
  return static_cast<int64_t>(state.memory_.size() + state.events_.size()) +
         streams;
}

}  // namespace ckptdb::testing

// The runtime's own names and signatures.
using ckptdb::testing::Event;
using ckptdb::testing::Kind;
using ckptdb::testing::Lock;
using ckptdb::testing::Op;
using ckptdb::testing::State;
using ckptdb::testing::Stream;

namespace {

cudaError_t AllocateHost(void** memory, size_t bytes) {
  *memory = State::Get().Add(bytes, Kind::kPinned);
  return cudaSuccess;
}

// Queues a copy of which one side is the device's memory and the other pinned.
cudaError_t QueueCopy(void* to, const void* from, size_t bytes,
                      cudaMemcpyKind kind, cudaStream_t stream) {
  State& state = State::Get();
  const bool to_host = kind == cudaMemcpyDeviceToHost;
  const auto* const device = state.Holder(to_host ? from : to, bytes);
  const auto* const host = state.Holder(to_host ? to : from, bytes);
  if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyHostToDevice) {
    state.Violate("a copy of a kind that is not expected");
    return cudaErrorInvalidMemcpyDirection;
  }
  if (device == nullptr || device->kind != Kind::kDevice) {
    state.Violate("a copy beyond the memory of the device");
    return cudaErrorInvalidValue;
  }
  if (host == nullptr || host->kind == Kind::kDevice) {
    state.Violate("a copy of host memory that is not pinned");
    return cudaErrorInvalidValue;
  }
  const bool flips = ++state.copies_ == state.flip_copy_;
  const uint64_t byte = state.flip_byte_;
  return state.Push(stream, {to_host ? "copy to host" : "copy to device",
                             [=] {
                               std::memcpy(to, from, bytes);
                               if (!flips || bytes == 0) return;
                               static_cast<char*>(to)[byte % bytes] ^= 0x10;
                             },
                             {{to, bytes}, {from, bytes}},
                             nullptr,
                             0});
}

}  // namespace

#define CKPTDB_STANDIN_ENTER(name)                                       \
  State& state = State::Get();                                           \
  const Lock lock(state.mutex_);                                         \
  if (const cudaError_t error = state.Enter(name); error != cudaSuccess) \
  return error

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
         : error == cudaErrorLaunchFailure  ? "cudaErrorLaunchFailure"
                                            : "cudaErrorOther";
}

const char* cudaGetErrorString(cudaError_t /*error*/) {
  return "as the stand-in was told";
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

// As without a driver it leaves its argument untouched.
cudaError_t cudaGetDeviceCount(int* count) {
  CKPTDB_STANDIN_ENTER("cudaGetDeviceCount");
  if (state.options_.devices == 0) return cudaErrorInsufficientDriver;
  *count = state.options_.devices;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  CKPTDB_STANDIN_ENTER("cudaGetDevice");
  *device = ckptdb::testing::current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  CKPTDB_STANDIN_ENTER("cudaSetDevice");
  if (device < 0 || device >= state.options_.devices) {
    return cudaErrorInvalidDevice;
  }
  ckptdb::testing::current_device = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*attribute*/,
                                   int /*device*/) {
  CKPTDB_STANDIN_ENTER("cudaDeviceGetAttribute");
  *value = 4;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  CKPTDB_STANDIN_ENTER("cudaDeviceGetStreamPriorityRange");
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  CKPTDB_STANDIN_ENTER("cudaMemGetInfo");
  *total = state.options_.device_bytes;
  *available = state.options_.device_bytes - state.device_used_;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  CKPTDB_STANDIN_ENTER("cudaMalloc");
  if (bytes > state.options_.device_bytes - state.device_used_) {
    return cudaErrorMemoryAllocation;
  }
  *memory = state.Add(bytes, Kind::kDevice);
  state.device_used_ += bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  state.Enter("cudaFree", /*may_fail=*/false);
  if (memory == nullptr) return cudaSuccess;
  const auto* const held = state.Holder(memory, 1);
  const uint64_t bytes = held == nullptr ? 0 : held->bytes;
  if (!state.Remove(memory, "cudaFree")) return cudaErrorInvalidValue;
  state.device_used_ -= bytes;
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned int /*flags*/) {
  CKPTDB_STANDIN_ENTER("cudaHostAlloc");
  return AllocateHost(memory, bytes);
}

cudaError_t cudaFreeHost(void* memory) {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  state.Enter("cudaFreeHost", /*may_fail=*/false);
  if (memory == nullptr) return cudaSuccess;
  if (!state.Remove(memory, "cudaFreeHost")) return cudaErrorInvalidValue;
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* memory, size_t bytes,
                             unsigned int /*flags*/) {
  CKPTDB_STANDIN_ENTER("cudaHostRegister");
  if (state.Holder(memory, 1) != nullptr) {
    return cudaErrorHostMemoryAlreadyRegistered;
  }
  state.memory_[reinterpret_cast<uintptr_t>(memory)] = {bytes,
                                                        Kind::kRegistered, 0};
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* memory) {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  state.Enter("cudaHostUnregister", /*may_fail=*/false);
  return state.Remove(memory, "cudaHostUnregister")
             ? cudaSuccess
             : cudaErrorHostMemoryNotRegistered;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                     const void* pointer) {
  CKPTDB_STANDIN_ENTER("cudaPointerGetAttributes");
  const auto* const holder = state.Holder(pointer, 1);
  *attributes = {};
  if (holder != nullptr) attributes->device = holder->device;
  attributes->type = holder == nullptr ? cudaMemoryTypeUnregistered
                     : holder->kind == Kind::kDevice ? cudaMemoryTypeDevice
                                                     : cudaMemoryTypeHost;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  CKPTDB_STANDIN_ENTER("cudaMemcpyAsync");
  return QueueCopy(to, from, bytes, kind, stream);
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes,
                            cudaStream_t stream) {
  CKPTDB_STANDIN_ENTER("cudaMemsetAsync");
  if (state.Holder(memory, bytes) == nullptr) return cudaErrorInvalidValue;
  return state.Push(stream, {"memset",
                             [=] { std::memset(memory, value, bytes); },
                             {{memory, bytes}},
                             nullptr,
                             0});
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream,
                                         unsigned int /*flags*/,
                                         int /*priority*/) {
  CKPTDB_STANDIN_ENTER("cudaStreamCreateWithPriority");
  *stream = reinterpret_cast<cudaStream_t>(state.next_handle_ += 16);
  state.streams_[*stream] = std::make_shared<Stream>();
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream,
                                      unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

// What is queued on it is done all the same.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  state.Enter("cudaStreamDestroy", /*may_fail=*/false);
  const auto found = state.Find(stream);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  found->destroyed = true;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  CKPTDB_STANDIN_ENTER("cudaStreamSynchronize");
  if (state.Skips()) return cudaSuccess;
  ++state.host_waits_[std::this_thread::get_id()];
  const auto found = state.Find(stream);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  state.RunTo(found.get(), found->queued);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned int /*flags*/) {
  CKPTDB_STANDIN_ENTER("cudaStreamWaitEvent");
  if (state.Skips()) return cudaSuccess;
  const auto found = state.events_.find(event);
  if (found == state.events_.end()) return cudaErrorInvalidResourceHandle;
  const Event& recorded = found->second;
  return state.Push(stream,
                    {"wait", nullptr, {}, recorded.stream, recorded.ops});
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event,
                                     unsigned int /*flags*/) {
  CKPTDB_STANDIN_ENTER("cudaEventCreateWithFlags");
  *event = reinterpret_cast<cudaEvent_t>(state.next_handle_ += 16);
  state.events_[*event] = {};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  State& state = State::Get();
  const Lock lock(state.mutex_);
  state.Enter("cudaEventDestroy", /*may_fail=*/false);
  return state.events_.erase(event) == 1 ? cudaSuccess
                                         : cudaErrorInvalidResourceHandle;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  CKPTDB_STANDIN_ENTER("cudaEventRecord");
  if (state.Skips()) return cudaSuccess;
  const auto found = state.events_.find(event);
  const auto on = state.Find(stream);
  if (found == state.events_.end() || on == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  found->second = {on, on->queued};
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  CKPTDB_STANDIN_ENTER("cudaEventQuery");
  const auto found = state.events_.find(event);
  if (found == state.events_.end()) return cudaErrorInvalidResourceHandle;
  const Event& recorded = found->second;
  const bool done =
      recorded.stream == nullptr || recorded.stream->done >= recorded.ops;
  return done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  CKPTDB_STANDIN_ENTER("cudaEventSynchronize");
  if (state.Skips()) return cudaSuccess;
  ++state.host_waits_[std::this_thread::get_id()];
  const auto found = state.events_.find(event);
  if (found == state.events_.end()) return cudaErrorInvalidResourceHandle;
  const Event& recorded = found->second;
  if (recorded.stream != nullptr) {
    state.RunTo(recorded.stream.get(), recorded.ops);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  CKPTDB_STANDIN_ENTER("cudaDeviceSynchronize");
  if (state.Skips()) return cudaSuccess;
  ++state.host_waits_[std::this_thread::get_id()];
  state.RunAll();
  return cudaSuccess;
}

}  // extern "C"

#undef CKPTDB_STANDIN_ENTER
