// SPDX-License-Identifier: Apache-2.0
#include "cuda/tensors/tensor_capture.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cuda/runtime/stream.h"
#include "cuda/tensors/packed_batch.h"
#include "cuda/tensors/packing.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

using Item = TensorState::Device::Item;
using Capture = TensorState::Device::Capture;

cudaStream_t StreamOf(const TensorState& tensor) {
  return static_cast<cudaStream_t>(tensor.stream);
}

// The captured tensors of one save: in staging memory, or already copied.
class TensorCapture : public Capture {
 public:
  TensorCapture(std::unique_ptr<PackedBatch> batch, char* memory)
      : batch_(std::move(batch)), memory_(memory) {}

  // Returns the device memory to its pool as soon as it is copied.
  absl::Status Fetch() override {
    const std::unique_ptr<PackedBatch> batch = std::move(batch_);
    return batch == nullptr ? absl::OkStatus() : batch->Fetch(memory_);
  }

 private:
  std::unique_ptr<PackedBatch> batch_;  // null: nothing to fetch
  char* const memory_;
};

// Divides the tensors into those that fit into the staging memory and those
// that pass through.
void Divide(absl::Span<const Item> items, uint64_t room, Packing* staged,
            std::vector<const Item*>* staged_items,
            std::vector<const Item*>* passing) {
  for (const Item& item : items) {
    if (item.bytes == 0) continue;
    const uint64_t needed = Packing::DeviceBytesOf(item.bytes);
    if (needed > room) {
      passing->push_back(&item);
      continue;
    }
    room -= needed;
    staged->Add(item, 0, item.bytes, item.at);
    staged_items->push_back(&item);
  }
}

std::vector<cudaStream_t> StreamsOf(const std::vector<const Item*>& items) {
  std::vector<cudaStream_t> streams;
  for (const Item* item : items) {
    const cudaStream_t stream = StreamOf(*item->state);
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
      streams.push_back(stream);
    }
  }
  return streams;
}

// Makes the side stream wait until the tensors are valid.
absl::Status AwaitTensors(const DeviceContext& context,
                          const std::vector<const Item*>& items) {
  for (const cudaStream_t stream : StreamsOf(items)) {
    CKPTDB_RETURN_IF_ERROR(AwaitStream(context.side(), stream));
  }
  for (const Item* item : items) {
    if (item->state->event == nullptr) continue;
    CKPTDB_RETURN_IF_ERROR(AwaitEvent(
        context.side(), static_cast<cudaEvent_t>(item->state->event)));
  }
  return absl::OkStatus();
}

absl::Status FetchWindow(DeviceContext* context, Packing window, char* memory) {
  CKPTDB_ASSIGN_OR_RETURN(
      const std::unique_ptr<PackedBatch> batch,
      PackedBatch::Begin(context, &context->windows(), std::move(window)));
  return batch->Fetch(memory);
}

// Copies tensors through a window, which is packed and fetched repeatedly.
absl::Status PassThrough(DeviceContext* context,
                         const std::vector<const Item*>& items, char* memory) {
  const uint64_t most = context->limits().ring_bytes();
  Packing window;
  for (const Item* item : items) {
    for (uint64_t first = 0; first < item->bytes;) {
      const uint64_t bytes =
          std::min(item->bytes - first, most - window.bytes());
      window.Add(*item, first, bytes, item->at + first);
      first += bytes;
      if (window.bytes() < most) continue;
      CKPTDB_RETURN_IF_ERROR(
          FetchWindow(context, std::exchange(window, Packing()), memory));
    }
  }
  if (window.empty()) return absl::OkStatus();
  return FetchWindow(context, std::move(window), memory);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Capture>> CaptureTensors(
    DeviceContext* context, absl::Span<const Item> items, char* memory) {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context->Enter());
  Packing packing;
  std::vector<const Item*> staged;
  std::vector<const Item*> passing;
  Divide(items, context->staging().free_bytes(), &packing, &staged, &passing);
  CKPTDB_RETURN_IF_ERROR(AwaitTensors(*context, staged));
  CKPTDB_RETURN_IF_ERROR(AwaitTensors(*context, passing));
  std::unique_ptr<PackedBatch> batch;
  if (!packing.empty()) {
    absl::StatusOr<std::unique_ptr<PackedBatch>> begun =
        PackedBatch::Begin(context, &context->staging(), std::move(packing));
    if (begun.ok()) {
      batch = *std::move(begun);
    } else if (absl::IsResourceExhausted(begun.status())) {
      // The trainer or another save has taken the memory.
      passing.insert(passing.end(), staged.begin(), staged.end());
      staged.clear();
    } else {
      return begun.status();
    }
  }
  for (const cudaStream_t stream : StreamsOf(staged)) {
    CKPTDB_RETURN_IF_ERROR(batch->packed().Await(stream));
  }
  CKPTDB_RETURN_IF_ERROR(PassThrough(context, passing, memory));
  return std::make_unique<TensorCapture>(std::move(batch), memory);
}

}  // namespace ckptdb::internal
