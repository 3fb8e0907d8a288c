// SPDX-License-Identifier: Apache-2.0
#include "python/binding/devices.h"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "python/binding/errors.h"

#ifdef CKPTDB_PYTHON_CUDA
#include "cuda/cuda_device.h"
#endif

namespace ckptdb::python {
namespace {

using nb::literals::operator""_a;

#ifdef CKPTDB_PYTHON_CUDA
// Opened devices stay: tensors of several managers use them, and at the end of
// the process the CUDA runtime may be gone before they are.
absl::StatusOr<TensorState::Device*> OpenDevice(int index,
                                                uint64_t staging_bytes) {
  static absl::Mutex mutex(absl::kConstInit);
  static auto* const kDevices =
      new std::map<std::pair<int, uint64_t>, std::unique_ptr<CudaDevice>>();
  const absl::MutexLock lock(&mutex);
  std::unique_ptr<CudaDevice>& device = (*kDevices)[{index, staging_bytes}];
  if (device == nullptr) {
    CudaDevice::Options options;
    options.device = index;
    options.staging_bytes = staging_bytes;
    options.required = true;
    absl::StatusOr<std::unique_ptr<CudaDevice>> opened =
        CudaDevice::Open(options);
    if (!opened.ok()) return opened.status();
    device = *std::move(opened);
  }
  return device.get();
}
#else
absl::StatusOr<TensorState::Device*> OpenDevice(int /*index*/,
                                                uint64_t /*staging_bytes*/) {
  return absl::UnimplementedError("ckptdb was built without CUDA");
}
#endif

}  // namespace

void BindDevices(nb::module_& module) {
  module.def(
      "open_device",
      [](int index, uint64_t staging_bytes) {
        const ReleaseGil release;
        return reinterpret_cast<Address>(
            Check(OpenDevice(index, staging_bytes)));
      },
      "index"_a, "staging_bytes"_a);
}

}  // namespace ckptdb::python
