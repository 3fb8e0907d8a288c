// SPDX-License-Identifier: Apache-2.0
#include "manager/load/tensor_load.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "db/base/call_guard.h"
#include "manager/internal/tensor_device.h"
#include "manager/load/load_cast.h"
#include "schema/bytes/shape.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// The part of a tensor that is staged in host memory on its way to a device.
constexpr uint64_t kWindowBytes = uint64_t{64} << 20;

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

// Loads a tensor to a device, part by part. If ranks load together, one whose
// device fails continues with the others.
absl::Status LoadToDevice(const TensorLoad& load, uint64_t bytes) {
  const TensorState& state = load.state;
  absl::StatusOr<std::unique_ptr<TensorState::Device::Upload>> upload =
      state.device->BeginUpload(load.source, state, bytes);
  absl::Status status = upload.status();
  if (load.ranks == nullptr) CKPTDB_RETURN_IF_ERROR(status);
  const uint32_t element_bytes = DTypeBytes(state.dtype);
  const TensorPieces parts(state.shape, kWindowBytes / element_bytes);
  std::vector<char> window(parts.elements() * element_bytes);
  for (uint64_t p = 0; p < parts.count(); ++p) {
    uint64_t first = 0;
    const TensorState part = PartOf(state, parts.At(p, &first), window.data());
    CKPTDB_RETURN_IF_ERROR(LoadToHost(load, part));
    CKPTDB_ASSIGN_OR_RETURN(const uint64_t part_bytes, BytesOf(part));
    if (status.ok()) {
      status =
          (*upload)->Write(first * element_bytes, {window.data(), part_bytes});
    }
    if (load.ranks == nullptr) CKPTDB_RETURN_IF_ERROR(status);
  }
  if (status.ok()) status = (*upload)->Finish();
  return status;
}

}  // namespace

absl::Status LoadTensor(const TensorLoad& load) {
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t bytes, BytesOf(load.state));
  if (load.state.device == nullptr || bytes == 0) {
    return LoadToHost(load, load.state);
  }
  absl::Status status = LoadToDevice(load, bytes);
  if (load.ranks == nullptr) return status;
  return Agree(load.ranks, absl::StrCat("tensor \"", load.source, "\""), status,
               load.deadline);
}

}  // namespace ckptdb::internal
