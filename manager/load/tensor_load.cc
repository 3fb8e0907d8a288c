// SPDX-License-Identifier: Apache-2.0
#include "manager/load/tensor_load.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "db/base/call_guard.h"
#include "db/base/parallel.h"
#include "manager/internal/tensor_device.h"
#include "manager/load/load_cast.h"
#include "schema/bytes/shape.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// A part of a tensor that is staged in host memory on its way to a device; the
// next one is read meanwhile.
constexpr uint64_t kWindowBytes = uint64_t{32} << 20;

absl::StatusOr<uint64_t> BytesOf(const TensorState& state) {
  const uint32_t element_bytes = DTypeBytes(state.dtype);
  CKPTDB_ASSIGN_OR_RETURN(const int64_t elements,
                          ElementCount(state.shape, element_bytes));
  return static_cast<uint64_t>(elements) * element_bytes;
}

// Reads a tensor on the owner and broadcasts it in pieces. Reads all of it
// before it sends the first piece, so that a read error fails all ranks and
// none waits for a piece that is never sent. All ranks return the same status.
absl::Status BroadcastTensor(const std::string& name,
                             const std::function<absl::Status()>& read,
                             absl::Span<char> tensor, Coordinator* ranks,
                             absl::Duration deadline) {
  constexpr size_t kBroadcastBytes = size_t{8} << 20;
  const std::string tag = absl::StrCat("tensor \"", name, "\"");
  const bool is_owner = ranks->rank() == kOwnerRank;
  CKPTDB_RETURN_IF_ERROR(
      Agree(ranks, tag, is_owner ? CallGuarded(tag, read) : absl::OkStatus(),
            deadline));
  absl::Status status;
  for (size_t at = 0; at < tensor.size(); at += kBroadcastBytes) {
    const absl::Span<char> piece = tensor.subspan(at, kBroadcastBytes);
    CKPTDB_ASSIGN_OR_RETURN(
        const std::string bytes,
        ranks->Broadcast(
            tag, is_owner ? std::string(piece.data(), piece.size()) : "",
            deadline));
    // A piece of another size does not end the loop: the other ranks continue
    // with the next broadcast, and would wait for this one.
    if (bytes.size() == piece.size()) {
      std::copy(bytes.begin(), bytes.end(), piece.begin());
    } else {
      status.Update(absl::InternalError(
          absl::StrCat(tag, ": the broadcast returned ", bytes.size(),
                       " bytes, expected ", piece.size())));
    }
  }
  return Agree(ranks, tag, status, deadline);
}

absl::Status ReadTensor(const TensorLoad& load, const TensorState& state,
                        uint64_t bytes) {
  if (!state.sharded()) {
    return load.step->ReadTensor(load.source, state.data, bytes, load.read);
  }
  return load.step->ReadTensorPart(load.source, state.offset, state.shape,
                                   state.data, bytes, load.read);
}

// Loads a tensor, or a part of one, to host memory.
absl::Status LoadToHost(const TensorLoad& load, const TensorState& state) {
  if (load.from != state.dtype) {
    return LoadCastTensor(*load.step, load.read, load.source, load.from, state);
  }
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t bytes, BytesOf(state));
  const auto read = [&] { return ReadTensor(load, state, bytes); };
  if (load.ranks == nullptr) return read();
  return BroadcastTensor(load.source, read,
                         {static_cast<char*>(state.data), bytes}, load.ranks,
                         load.deadline);
}

// Returns a box of a tensor, in host memory, as a shard of the tensor.
TensorState PartOf(const TensorState& state, const Box& box, char* memory) {
  TensorState part;
  part.dtype = state.dtype;
  part.shape = box.shape;
  part.data = memory;
  part.global_shape = state.sharded() ? state.global_shape : state.shape;
  part.offset = box.offset;
  for (size_t i = 0; state.sharded() && i < part.offset.size(); ++i) {
    part.offset[i] += state.offset[i];
  }
  return part;
}

// A tensor on its way to a device, part by part.
class DeviceLoad {
 public:
  DeviceLoad(const TensorLoad& load, uint64_t bytes)
      : load_(load),
        bytes_(bytes),
        element_bytes_(DTypeBytes(load.state.dtype)),
        parts_(load.state.shape, kWindowBytes / element_bytes_) {}

  // If ranks load together, one whose device fails continues with the others,
  // and the calling thread alone reads.
  absl::Status Run() {
    const TensorState& state = load_.state;
    const bool alone = load_.ranks == nullptr;
    absl::StatusOr<std::unique_ptr<TensorState::Device::Upload>> upload =
        state.device->BeginUpload(load_.source, state, bytes_);
    status_ = upload.status();
    if (alone) CKPTDB_RETURN_IF_ERROR(status_);
    CKPTDB_RETURN_IF_ERROR(Read(0));
    for (uint64_t p = 0; p < parts_.count(); ++p) {
      CKPTDB_RETURN_IF_ERROR(
          ParallelFor(alone ? 2 : 1, p + 1 < parts_.count() ? 2 : 1,
                      [&](int, uint64_t task) -> absl::Status {
                        if (task == 1) return Read(p + 1);
                        if (status_.ok()) status_ = Write(p, upload->get());
                        return alone ? status_ : absl::OkStatus();
                      }));
    }
    if (status_.ok()) status_ = (*upload)->Finish();
    return status_;
  }

 private:
  // A window, and the part of the tensor in it.
  struct Part {
    std::unique_ptr<char[]> memory;
    uint64_t first = 0;
    uint64_t bytes = 0;
  };

  absl::Status Read(uint64_t p) {
    Part& part = windows_[p % 2];
    if (part.memory == nullptr) {
      part.memory = std::make_unique_for_overwrite<char[]>(parts_.elements() *
                                                           element_bytes_);
    }
    const TensorState state =
        PartOf(load_.state, parts_.At(p, &part.first), part.memory.get());
    CKPTDB_RETURN_IF_ERROR(LoadToHost(load_, state));
    CKPTDB_ASSIGN_OR_RETURN(part.bytes, BytesOf(state));
    return absl::OkStatus();
  }
  absl::Status Write(uint64_t p, TensorState::Device::Upload* upload) const {
    const Part& part = windows_[p % 2];
    return upload->Write(part.first * element_bytes_,
                         {part.memory.get(), part.bytes});
  }

  const TensorLoad& load_;
  const uint64_t bytes_;
  const uint32_t element_bytes_;
  const TensorPieces parts_;
  std::array<Part, 2> windows_;
  absl::Status status_;  // of the device
};

}  // namespace

absl::Status LoadTensor(const TensorLoad& load) {
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t bytes, BytesOf(load.state));
  if (load.state.device == nullptr || bytes == 0) {
    return LoadToHost(load, load.state);
  }
  absl::Status status = DeviceLoad(load, bytes).Run();
  if (load.ranks == nullptr) return status;
  return Agree(load.ranks, absl::StrCat("tensor \"", load.source, "\""), status,
               load.deadline);
}

}  // namespace ckptdb::internal
