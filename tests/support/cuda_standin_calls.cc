// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's functions, implemented by the stand-in.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/cuda_standin_state.h"

using ckptdb::testing::standin::contexts;
using ckptdb::testing::standin::Event;
using ckptdb::testing::standin::Kind;
using ckptdb::testing::standin::Lock;
using ckptdb::testing::standin::State;
using ckptdb::testing::standin::Stream;

namespace {

// Queues a copy between device memory and pinned host memory.
cudaError_t QueueCopy(void* to, const void* from, size_t bytes,
                      cudaMemcpyKind kind, cudaStream_t stream) {
  State& state = State::Get();
  const bool to_host = kind == cudaMemcpyDeviceToHost;
  const auto* const device = state.Holder(to_host ? from : to, bytes);
  const auto* const host = state.Holder(to_host ? to : from, bytes);
  if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyHostToDevice) {
    state.Violate("a copy of an unexpected kind");
    return cudaErrorInvalidMemcpyDirection;
  }
  if (device == nullptr || device->kind != Kind::kDevice) {
    state.Violate("a copy beyond the memory of the device");
    return cudaErrorInvalidValue;
  }
  if (host == nullptr || host->kind == Kind::kDevice) {
    state.Violate("a copy of unpinned host memory");
    return cudaErrorInvalidValue;
  }
  const bool flips = ++state.copies_ == state.flip_copy_;
  if (to_host) state.bytes_to_host_ += bytes;
  const uint64_t byte = state.flip_byte_;
  return state.Push(stream, {to_host ? State::kCopyToHost : "copy to device",
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

#define CKPTDB_STANDIN_COUNT(name)                                       \
  State& state = State::Get();                                           \
  const Lock lock(state.mutex_);                                         \
  if (const cudaError_t error = state.Enter(name); error != cudaSuccess) \
  return error
#define CKPTDB_STANDIN_ENTER(name) \
  CKPTDB_STANDIN_COUNT(name);      \
  state.UseContext()
// A call that frees something: it does not fail.
#define CKPTDB_STANDIN_FREE(name)        \
  State& state = State::Get();           \
  const Lock lock(state.mutex_);         \
  state.Enter(name, /*may_fail=*/false); \
  state.UseContext()

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
         : error == cudaErrorLaunchFailure  ? "cudaErrorLaunchFailure"
                                            : "cudaErrorOther";
}

const char* cudaGetErrorString(cudaError_t /*error*/) {
  return "injected by the stand-in";
}

cudaError_t cudaGetLastError() {
  return std::exchange(ckptdb::testing::standin::last_error, cudaSuccess);
}

// Without a driver the argument stays unchanged, as in the real runtime.
cudaError_t cudaGetDeviceCount(int* count) {
  CKPTDB_STANDIN_COUNT("cudaGetDeviceCount");
  if (state.options_.devices == 0) return cudaErrorInsufficientDriver;
  *count = state.options_.devices;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  CKPTDB_STANDIN_COUNT("cudaDriverGetVersion");
  *version = state.options_.driver_version;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  CKPTDB_STANDIN_COUNT("cudaGetDevice");
  *device = contexts.empty() ? 0 : contexts.back();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  CKPTDB_STANDIN_COUNT("cudaSetDevice");
  if (device < 0 || device >= state.options_.devices) {
    return cudaErrorInvalidDevice;
  }
  if (contexts.empty()) contexts.push_back(device);
  contexts.back() = device;
  state.UseContext();
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*attribute*/,
                                   int /*device*/) {
  CKPTDB_STANDIN_COUNT("cudaDeviceGetAttribute");
  *value = 4;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  CKPTDB_STANDIN_ENTER("cudaDeviceGetStreamPriorityRange");
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* /*attributes*/,
                                  const void* /*kernel*/) {
  // Kernels that are loaded one after the other count as one call.
  if (State::Get().IsLastCall("cudaFuncGetAttributes")) return cudaSuccess;
  CKPTDB_STANDIN_ENTER("cudaFuncGetAttributes");
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
  state.EndsCaptures("cudaMalloc");
  if (bytes > state.options_.device_bytes - state.device_used_) {
    return ckptdb::testing::standin::last_error = cudaErrorMemoryAllocation;
  }
  *memory = state.Add(bytes, Kind::kDevice);
  state.device_used_ += bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  CKPTDB_STANDIN_FREE("cudaFree");
  state.EndsCaptures("cudaFree");
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
  state.EndsCaptures("cudaHostAlloc");
  *memory = state.Add(bytes, Kind::kPinned);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  CKPTDB_STANDIN_FREE("cudaFreeHost");
  state.EndsCaptures("cudaFreeHost");
  if (memory == nullptr) return cudaSuccess;
  if (!state.Remove(memory, "cudaFreeHost")) return cudaErrorInvalidValue;
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* memory, size_t bytes,
                             unsigned int /*flags*/) {
  CKPTDB_STANDIN_ENTER("cudaHostRegister");
  state.EndsCaptures("cudaHostRegister");
  if (state.Holder(memory, 1) != nullptr) {
    return cudaErrorHostMemoryAlreadyRegistered;
  }
  state.memory_[reinterpret_cast<uintptr_t>(memory)] = {bytes,
                                                        Kind::kRegistered, 0};
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* memory) {
  CKPTDB_STANDIN_FREE("cudaHostUnregister");
  state.EndsCaptures("cudaHostUnregister");
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

// The default stream waits for all others, and the host waits for it.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                       cudaMemcpyKind kind) {
  return cudaMemcpy2D(to, bytes, from, bytes, bytes, 1, kind);
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from,
                         size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  CKPTDB_STANDIN_ENTER("cudaMemcpy2D");
  const bool to_host = kind == cudaMemcpyDeviceToHost;
  if (!state.IsOfDevice(
          to_host ? from : to,
          (height - 1) * (to_host ? from_pitch : to_pitch) + width)) {
    return cudaErrorInvalidValue;
  }
  state.RunAll();
  for (size_t row = 0; row < height; ++row) {
    std::memcpy(static_cast<char*>(to) + row * to_pitch,
                static_cast<const char*>(from) + row * from_pitch, width);
  }
  return cudaSuccess;
}

// Unpinned host memory is read before the call returns.
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                              size_t from_pitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  CKPTDB_STANDIN_ENTER("cudaMemcpy2DAsync");
  const size_t bytes = (height - 1) * to_pitch + width;
  if (kind != cudaMemcpyHostToDevice || !state.IsOfDevice(to, bytes)) {
    return cudaErrorInvalidValue;
  }
  std::string rows;
  for (size_t row = 0; row < height; ++row) {
    rows.append(static_cast<const char*>(from) + row * from_pitch, width);
  }
  return state.Push(stream, {"copy of rows to device",
                             [=] {
                               for (size_t row = 0; row < height; ++row) {
                                 std::memcpy(
                                     static_cast<char*>(to) + row * to_pitch,
                                     rows.data() + row * width, width);
                               }
                             },
                             {{to, bytes}},
                             nullptr,
                             0});
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
  state.streams_[*stream]->device = contexts.back();
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream,
                                      unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

// Its queued work still runs.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  CKPTDB_STANDIN_FREE("cudaStreamDestroy");
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
  if (found->captured) state.Violate("a wait for a stream that is captured");
  state.RunTo(found.get(), found->queued);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  cudaStreamCaptureStatus* status) {
  CKPTDB_STANDIN_ENTER("cudaStreamIsCapturing");
  const auto found = state.Find(stream);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  *status = found->captured ? cudaStreamCaptureStatusActive
                            : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  CKPTDB_STANDIN_ENTER("cudaThreadExchangeStreamCaptureMode");
  std::swap(*mode, ckptdb::testing::standin::capture_mode);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned int /*flags*/) {
  CKPTDB_STANDIN_ENTER("cudaStreamWaitEvent");
  if (state.Skips()) return cudaSuccess;
  const Event* const recorded = state.FindEvent(event);
  if (recorded == nullptr) return cudaErrorInvalidResourceHandle;
  return state.Push(stream,
                    {"wait", nullptr, {}, recorded->stream, recorded->ops});
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event,
                                     unsigned int /*flags*/) {
  CKPTDB_STANDIN_ENTER("cudaEventCreateWithFlags");
  *event = reinterpret_cast<cudaEvent_t>(state.next_handle_ += 16);
  state.events_[*event] = {contexts.back(), nullptr, 0};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  CKPTDB_STANDIN_FREE("cudaEventDestroy");
  return state.events_.erase(event) == 1 ? cudaSuccess
                                         : cudaErrorInvalidResourceHandle;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  CKPTDB_STANDIN_ENTER("cudaEventRecord");
  if (state.Skips()) return cudaSuccess;
  Event* const recorded = state.FindEvent(event);
  const auto on = state.Find(stream);
  if (recorded == nullptr || on == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (stream != nullptr && on->device != recorded->device) {
    state.Violate("an event is recorded on a stream of another device");
  }
  if (on->captured) state.Violate("an event is recorded in a capture");
  recorded->stream = on;
  recorded->ops = on->queued;
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  CKPTDB_STANDIN_ENTER("cudaEventQuery");
  const Event* const recorded = state.FindEvent(event);
  if (recorded == nullptr) return cudaErrorInvalidResourceHandle;
  const bool done =
      recorded->stream == nullptr || recorded->stream->done >= recorded->ops;
  return done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  CKPTDB_STANDIN_ENTER("cudaEventSynchronize");
  if (state.Skips()) return cudaSuccess;
  ++state.host_waits_[std::this_thread::get_id()];
  const Event* const recorded = state.FindEvent(event);
  if (recorded == nullptr) return cudaErrorInvalidResourceHandle;
  if (recorded->stream != nullptr) {
    state.RunTo(recorded->stream.get(), recorded->ops);
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

#undef CKPTDB_STANDIN_FREE
#undef CKPTDB_STANDIN_ENTER
#undef CKPTDB_STANDIN_COUNT
