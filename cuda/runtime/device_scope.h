// The context of a device in which a thread works; internal to cuda/.
//
//   CKPTDB_ASSIGN_OR_RETURN(PrimaryContext context, PrimaryContext::Retain(3));
//   CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope,
//                           DeviceScope::Enter(context.get()));
//   ...  // calls of the runtime are of device 3
//
// The runtime takes a thread that has never used a device for one of device 0,
// and makes a context there with almost any call: some hundred MiB, once for
// each rank of a host. To go back by cudaSetDevice would do so, too. So a scope
// puts a context on the stack that the driver keeps for each thread, which the
// runtime then uses, and takes it off again.
//
// The calls of the driver are found through the runtime, as ckptdb::cuda does
// not link it: a program starts on machines that have none.
#ifndef CKPTDB_CUDA_RUNTIME_DEVICE_SCOPE_H_
#define CKPTDB_CUDA_RUNTIME_DEVICE_SCOPE_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "ckptdb/cuda/runtime/status.h"

namespace ckptdb::internal {

// The context of a device that the runtime uses. It stays as long as somebody
// retains it. Thread-safe.
class PrimaryContext {
 public:
  // Makes the context if there is none. Returns Unavailable if the driver lacks
  // a call that this needs.
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

// Returns the context of the calling thread; null: it has none.
CUcontext CurrentContext();

// Makes a context that of the calling thread as long as it lives. Meanwhile
// another thread may capture a stream into a graph: allocations and the like
// are allowed here and do not end its capture. Scopes of a thread end in the
// opposite order.
class DeviceScope {
 public:
  // A context that is the thread's already is not pushed. Null: nothing is
  // done.
  static absl::StatusOr<DeviceScope> Enter(CUcontext context);
  DeviceScope(DeviceScope&& other) noexcept
      : pushed_(std::exchange(other.pushed_, false)),
        before_(std::exchange(other.before_, std::nullopt)) {}
  DeviceScope& operator=(DeviceScope&&) = delete;
  ~DeviceScope();

 private:
  DeviceScope() = default;

  bool pushed_ = false;
  // How the thread took captures of others before; none: that is unchanged.
  std::optional<cudaStreamCaptureMode> before_;
};

// Ends what a call of the runtime has made, such as kCall = cudaFree, in the
// context in which it was made, whatever the thread is in. An error is not left
// for the trainer to find.
template <auto kCall>
struct DestroyIn {
  CUcontext context = nullptr;

  template <typename Made>
  void operator()(Made* made) const {
    const absl::StatusOr<DeviceScope> scope = DeviceScope::Enter(context);
    CudaStatus(kCall(made), "the end of what was made").IgnoreError();
  }
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_RUNTIME_DEVICE_SCOPE_H_
