// SPDX-License-Identifier: Apache-2.0
// Launching and loading kernels; internal to cuda/.
//
//   return Launch(ScaleRows, blocks, kThreads, stream, rows, count, 0.5F);
#ifndef CKPTDB_CUDA_KERNELS_LAUNCH_H_
#define CKPTDB_CUDA_KERNELS_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

namespace ckptdb::internal {

// Launches a kernel on a stream. Returns the error of this launch only: after a
// <<<>>> launch, cudaGetLastError may return an error of an earlier call of the
// trainer, such as cudaErrorNotReady from querying an event.
template <typename... Parameters>
cudaError_t Launch(void (*kernel)(Parameters...), uint32_t blocks,
                   uint32_t threads, cudaStream_t stream,
                   std::type_identity_t<Parameters>... arguments) {
  void* places[] = {static_cast<void*>(&arguments)...};
  return cudaLaunchKernel(kernel, dim3(blocks), dim3(threads), places, 0,
                          stream);
}

// Loads kernels. Otherwise the runtime loads each at its first launch, and may
// then wait for the device. Returns cudaErrorNoKernelImageForDevice if they
// were not compiled for the current device.
template <typename... Kernels>
cudaError_t Load(Kernels*... kernels) {
  cudaError_t error = cudaSuccess;
  const auto load = [&](auto* kernel) {
    cudaFuncAttributes attributes = {};
    if (error == cudaSuccess)
      error = cudaFuncGetAttributes(&attributes, kernel);
  };
  (load(kernels), ...);
  return error;
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_KERNELS_LAUNCH_H_
