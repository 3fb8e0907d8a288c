// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/device_scope.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "cuda/runtime/status.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

struct Driver {
  decltype(&cuDeviceGet) device_get = nullptr;
  decltype(&cuDevicePrimaryCtxRetain) retain = nullptr;
  decltype(&cuDevicePrimaryCtxRelease) release = nullptr;
  decltype(&cuCtxGetCurrent) current = nullptr;
  decltype(&cuCtxPushCurrent) push = nullptr;
  decltype(&cuCtxPopCurrent) pop = nullptr;
};

// The driver calls as CUDA 12.0 defines them.
template <typename Call>
absl::Status Find(const char* name, Call* call) {
  constexpr unsigned int kVersion = 12000;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(cudaGetDriverEntryPointByVersion(name, &found, kVersion,
                                                  cudaEnableDefault, &result),
                 absl::StrCat("cudaGetDriverEntryPointByVersion of ", name)));
  if (found == nullptr || result != cudaDriverEntryPointSuccess) {
    return absl::UnavailableError(absl::StrCat("the CUDA driver lacks ", name,
                                               " of version ", kVersion,
                                               "; install a newer driver"));
  }
  *call = reinterpret_cast<Call>(found);
  return absl::OkStatus();
}

absl::StatusOr<Driver> FindDriver() {
  Driver driver;
  CKPTDB_RETURN_IF_ERROR(Find("cuDeviceGet", &driver.device_get));
  CKPTDB_RETURN_IF_ERROR(Find("cuDevicePrimaryCtxRetain", &driver.retain));
  CKPTDB_RETURN_IF_ERROR(Find("cuDevicePrimaryCtxRelease", &driver.release));
  CKPTDB_RETURN_IF_ERROR(Find("cuCtxGetCurrent", &driver.current));
  CKPTDB_RETURN_IF_ERROR(Find("cuCtxPushCurrent", &driver.push));
  CKPTDB_RETURN_IF_ERROR(Find("cuCtxPopCurrent", &driver.pop));
  return driver;
}

// The process's driver; null until the first context is retained.
std::atomic<const Driver*>& LoadedDriver() {
  static std::atomic<const Driver*> driver = nullptr;
  return driver;
}

// Finds the driver on the first call. It is never unloaded, because scopes may
// end at any time.
absl::StatusOr<const Driver*> LoadDriver() {
  std::atomic<const Driver*>& loaded = LoadedDriver();
  if (loaded == nullptr) {
    CKPTDB_ASSIGN_OR_RETURN(const Driver found, FindDriver());
    static const Driver& driver = *new Driver(found);
    loaded = &driver;
  }
  return loaded.load();
}

absl::Status StatusOf(CUresult result, absl::string_view call) {
  return DriverStatus(static_cast<cudaError_t>(result), call);
}

}  // namespace

absl::StatusOr<PrimaryContext> PrimaryContext::Retain(int device) {
  CKPTDB_ASSIGN_OR_RETURN(const Driver* const driver, LoadDriver());
  CUdevice number = 0;
  CKPTDB_RETURN_IF_ERROR(StatusOf(driver->device_get(&number, device),
                                  absl::StrCat("cuDeviceGet(", device, ")")));
  CUcontext context = nullptr;
  CKPTDB_RETURN_IF_ERROR(
      StatusOf(driver->retain(&context, number),
               absl::StrCat("cuDevicePrimaryCtxRetain(", device, ")")));
  return PrimaryContext(number, context);
}

PrimaryContext::~PrimaryContext() {
  if (context_ != nullptr) LoadedDriver().load()->release(device_);
}

CUcontext CurrentContext() {
  const Driver* const driver = LoadedDriver();
  CUcontext context = nullptr;
  if (driver != nullptr) driver->current(&context);
  return context;
}

absl::StatusOr<DeviceScope> DeviceScope::Enter(CUcontext context) {
  DeviceScope scope;
  if (context == nullptr) return scope;
  if (context != CurrentContext()) {
    CKPTDB_RETURN_IF_ERROR(
        StatusOf(LoadedDriver().load()->push(context), "cuCtxPushCurrent"));
    scope.pushed_ = true;
  }
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaThreadExchangeStreamCaptureMode(&mode),
                                    "cudaThreadExchangeStreamCaptureMode"));
  scope.before_ = mode;
  return scope;
}

DeviceScope::~DeviceScope() {
  if (before_.has_value()) {
    CudaStatus(cudaThreadExchangeStreamCaptureMode(&*before_),
               "cudaThreadExchangeStreamCaptureMode")
        .IgnoreError();
  }
  CUcontext context = nullptr;
  if (pushed_) LoadedDriver().load()->pop(&context);
}

}  // namespace ckptdb::internal
