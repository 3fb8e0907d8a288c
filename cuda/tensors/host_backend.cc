// SPDX-License-Identifier: Apache-2.0
#include "cuda/tensors/host_backend.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "cuda/tensors/tensor_place.h"
#include "db/base/parallel.h"
#include "manager/internal/tensor_device.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

using Device = TensorState::Device;

// The bytes of a tensor that one task copies.
constexpr uint64_t kTaskBytes = uint64_t{4} << 20;
constexpr int kThreads = 4;

// Calls move(offset in the tensor, address, bytes) for each contiguous range of
// the bytes [first, first + bytes).
template <typename Move>
void ForStretches(const TensorPlace& place, uint64_t first, uint64_t bytes,
                  Move move) {
  if (place.stride_bytes == 0) return move(first, place.data + first, bytes);
  for (const uint64_t end = first + bytes; first < end;) {
    const uint64_t row = first / place.row_bytes;
    const uint64_t in_row = first % place.row_bytes;
    const uint64_t some = std::min(end - first, place.row_bytes - in_row);
    move(first, place.data + row * place.stride_bytes + in_row, some);
    first += some;
  }
}

// The tensors were copied when the capture was made.
class HostCapture : public Device::Capture {
 public:
  absl::Status Fetch() override { return absl::OkStatus(); }
};

class HostUpload : public Device::Upload {
 public:
  HostUpload(absl::string_view name, const TensorState& tensor, uint64_t bytes)
      : name_(name), place_(TensorPlace::Of(tensor, bytes)), bytes_(bytes) {}

  absl::Status Write(uint64_t first, absl::Span<const char> bytes) override {
    if (first > bytes_ || bytes.size() > bytes_ - first) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", absl::Utf8SafeCHexEscape(name_), "\": bytes ", first,
          " to ", first + bytes.size(), ", expected at most its ", bytes_));
    }
    ForStretches(place_, first, bytes.size(),
                 [&](uint64_t byte, char* to, uint64_t some) {
                   std::memcpy(to, bytes.data() + (byte - first), some);
                 });
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  const std::string name_;
  const TensorPlace place_;
  const uint64_t bytes_;
};

class HostBackend final : public CudaDevice {
 public:
  std::string name() const override { return "host"; }
  DeviceContext* context() override { return nullptr; }

  absl::Status Check(const TensorState& tensor) const override {
    return CheckTensorPlace(tensor).status();
  }

  absl::StatusOr<std::unique_ptr<Capture>> SetAside(
      absl::Span<const Item> items, char* memory) override {
    struct Task {
      const Item* item;
      uint64_t first;
    };
    std::vector<Task> tasks;
    for (const Item& item : items) {
      for (uint64_t first = 0; first < item.bytes; first += kTaskBytes) {
        tasks.push_back({&item, first});
      }
    }
    CKPTDB_RETURN_IF_ERROR(
        ParallelFor(kThreads, tasks.size(), [&](int, uint64_t t) {
          const Item& item = *tasks[t].item;
          const uint64_t first = tasks[t].first;
          ForStretches(TensorPlace::Of(*item.state, item.bytes), first,
                       std::min(kTaskBytes, item.bytes - first),
                       [&](uint64_t byte, const char* from, uint64_t some) {
                         std::memcpy(memory + item.at + byte, from, some);
                       });
          return absl::OkStatus();
        }));
    return std::make_unique<HostCapture>();
  }

  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(absl::string_view name,
                                                      const TensorState& tensor,
                                                      uint64_t bytes) override {
    return std::make_unique<HostUpload>(name, tensor, bytes);
  }

  absl::Status Pin(char* /*memory*/, uint64_t /*bytes*/) override {
    return absl::OkStatus();
  }
  void Unpin(char* /*memory*/) override {}
};

}  // namespace

std::unique_ptr<CudaDevice> NewHostBackend() {
  return std::make_unique<HostBackend>();
}

}  // namespace ckptdb::internal
