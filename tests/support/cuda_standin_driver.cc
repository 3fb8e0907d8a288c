// SPDX-License-Identifier: Apache-2.0
// The CUDA driver's functions that ckptdb looks up through the runtime,
// implemented by the stand-in.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <string>

#include "tests/support/cuda_standin_state.h"

namespace {

using ckptdb::testing::standin::contexts;
using ckptdb::testing::standin::Locked;

CUcontext ContextOf(int device) {
  return reinterpret_cast<CUcontext>(static_cast<uintptr_t>(device) + 1);
}

int DeviceOf(CUcontext context) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
}

// Returns the error with which the call must fail.
CUresult Enter(const Locked& state, const char* name) {
  const cudaError_t error = state->Enter(name);
  // The driver sets no error for cudaGetLastError.
  ckptdb::testing::standin::last_error = cudaSuccess;
  return static_cast<CUresult>(error);
}

CUresult DeviceGet(CUdevice* device, int number) {
  *device = number;
  return CUDA_SUCCESS;
}

CUresult Retain(CUcontext* context, CUdevice device) {
  const Locked state;
  if (const CUresult error = Enter(state, "cuDevicePrimaryCtxRetain");
      error != CUDA_SUCCESS) {
    return error;
  }
  ++state->retained_[device];
  state->contexts_.insert(device);
  *context = ContextOf(device);
  return CUDA_SUCCESS;
}

CUresult Release(CUdevice device) {
  const Locked state;
  if (--state->retained_[device] < 0) {
    state->Violate("a context without references is released");
  }
  return CUDA_SUCCESS;
}

CUresult GetCurrent(CUcontext* context) {
  *context = contexts.empty() ? nullptr : ContextOf(contexts.back());
  return CUDA_SUCCESS;
}

CUresult Push(CUcontext context) {
  const Locked state;
  if (const CUresult error = Enter(state, "cuCtxPushCurrent");
      error != CUDA_SUCCESS) {
    return error;
  }
  if (state->retained_[DeviceOf(context)] == 0) {
    state->Violate("a context without references is pushed");
  }
  contexts.push_back(DeviceOf(context));
  return CUDA_SUCCESS;
}

CUresult Pop(CUcontext* context) {
  const Locked state;
  if (contexts.empty()) {
    state->Violate("a context is popped on a thread without one");
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *context = ContextOf(contexts.back());
  contexts.pop_back();
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** call, unsigned int /*version*/,
    unsigned long long /*flags*/,  // NOLINT(google-runtime-int)
    cudaDriverEntryPointQueryResult* result) {
  static const std::map<std::string, void*> kCalls = {
      {"cuDeviceGet", reinterpret_cast<void*>(&DeviceGet)},
      {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(&Retain)},
      {"cuDevicePrimaryCtxRelease", reinterpret_cast<void*>(&Release)},
      {"cuCtxGetCurrent", reinterpret_cast<void*>(&GetCurrent)},
      {"cuCtxPushCurrent", reinterpret_cast<void*>(&Push)},
      {"cuCtxPopCurrent", reinterpret_cast<void*>(&Pop)},
  };
  const Locked state;
  if (const cudaError_t error =
          state->Enter("cudaGetDriverEntryPointByVersion");
      error != cudaSuccess) {
    return error;
  }
  const auto found = kCalls.find(symbol);
  *call = found == kCalls.end() ? nullptr : found->second;
  *result = found == kCalls.end() ? cudaDriverEntryPointSymbolNotFound
                                  : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
