// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/device_context.h"

#include <algorithm>
#include <limits>

#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// One ring for each concurrent call, of which a process has few; enough for a
// table's restore with many threads.
constexpr uint64_t kMaxRings = 8;
constexpr uint64_t kLeastWindows = uint64_t{256} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceContext>> DeviceContext::Create(
    int device, const DeviceLimits& limits) {
  CKPTDB_ASSIGN_OR_RETURN(PrimaryContext primary,
                          PrimaryContext::Retain(device));
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope,
                          DeviceScope::Enter(primary.get()));
  CKPTDB_ASSIGN_OR_RETURN(CudaStream side, CudaStream::Create());
  CKPTDB_ASSIGN_OR_RETURN(CudaStream copies, CudaStream::Create());
  return std::unique_ptr<DeviceContext>(new DeviceContext(
      device, limits, std::move(primary), std::move(side), std::move(copies)));
}

DeviceContext::DeviceContext(int device, const DeviceLimits& limits,
                             PrimaryContext primary, CudaStream side,
                             CudaStream copies)
    : device_(device),
      limits_(limits),
      primary_(std::move(primary)),
      side_(std::move(side)),
      copies_(std::move(copies)),
      staging_("captured state (CudaDevice::Options::staging_bytes)",
               limits.staging_bytes),
      windows_(
          "state that passes through the device (CudaDevice::Options::"
          "chunk_bytes, HashTable::Options::batch_rows)",
          std::max(limits.ring_bytes() * 2 * kMaxRings, kLeastWindows)),
      pinned_("copies to and from the device",
              std::numeric_limits<int64_t>::max()) {}

DeviceContext::~DeviceContext() { Synchronize().IgnoreError(); }

absl::Status DeviceContext::Synchronize() const {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, Enter());
  const absl::Status side = side_.Synchronize();
  const absl::Status copies = copies_.Synchronize();
  return side.ok() ? copies : side;
}

}  // namespace ckptdb::internal
