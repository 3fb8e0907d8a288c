// SPDX-License-Identifier: Apache-2.0
// The device context in which a thread works; internal to cuda/.
//
//   CKPTDB_ASSIGN_OR_RETURN(PrimaryContext context, PrimaryContext::Retain(3));
//   CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope,
//                           DeviceScope::Enter(context.get()));
//   ...  // runtime calls use device 3
//
// A thread that has never used a device is on device 0, and almost any runtime
// call creates a context there: a few hundred MiB, for each rank on a host.
// Restoring the device with cudaSetDevice would do the same. So a scope pushes
// a context on the driver's stack of contexts for the thread, which the runtime
// then uses, and pops it when it ends.
//
// The driver calls are looked up through the runtime, because ckptdb::cuda does
// not link the driver: programs also start on machines without one.
#ifndef CKPTDB_CUDA_RUNTIME_DEVICE_SCOPE_H_
#define CKPTDB_CUDA_RUNTIME_DEVICE_SCOPE_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "cuda/runtime/status.h"

namespace ckptdb::internal {

// A device's primary context, which the runtime uses. It exists while anyone
// retains it. Thread-safe.
class PrimaryContext {
 public:
  // Creates the context if necessary. Returns Unavailable if the driver lacks a
  // required call.
  static absl::StatusOr<PrimaryContext> Retain(int device);
  PrimaryContext(PrimaryContext&& other) noexcept
      : device_(other.device_), context_(std::exchange(other.context_, {})) {}
  PrimaryContext& operator=(PrimaryContext&&) = delete;
  ~PrimaryContext();

  CUcontext get() const { return context_; }

 private:
  PrimaryContext(CUdevice device, CUcontext context)
      : device_(device), context_(context) {}

  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

// Returns the calling thread's context, or null if it has none.
CUcontext CurrentContext();

// Makes a context current on the calling thread while the scope lives.
// Meanwhile another thread may be capturing a stream into a graph: allocations
// and the like are allowed in a scope and do not invalidate its capture. The
// scopes of a thread must end in reverse order.
class DeviceScope {
 public:
  // Does not push a context that is current already. Does nothing for null.
  static absl::StatusOr<DeviceScope> Enter(CUcontext context);
  DeviceScope(DeviceScope&& other) noexcept
      : pushed_(std::exchange(other.pushed_, false)),
        before_(std::exchange(other.before_, std::nullopt)) {}
  DeviceScope& operator=(DeviceScope&&) = delete;
  ~DeviceScope();

 private:
  DeviceScope() = default;

  bool pushed_ = false;
  // The thread's previous capture mode; nullopt if it was not changed.
  std::optional<cudaStreamCaptureMode> before_;
};

// Destroys a runtime object with kCall, such as cudaFree, in the context in
// which it was created, whatever the thread's current context is. Clears the
// error, so that the trainer does not see it.
template <auto kCall>
struct DestroyIn {
  CUcontext context = nullptr;

  template <typename Made>
  void operator()(Made* made) const {
    const absl::StatusOr<DeviceScope> scope = DeviceScope::Enter(context);
    CudaStatus(kCall(made), "destroying a CUDA object").IgnoreError();
  }
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_RUNTIME_DEVICE_SCOPE_H_
