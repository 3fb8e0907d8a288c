// SPDX-License-Identifier: Apache-2.0
// Captures rows of a table in device memory for a save; internal to cuda/.
//
//   side stream     has waited for the trainer's; gathers the rows, `gathered`
//   trainer's       waits for `gathered`
//   copy stream     waits for `gathered`; one chunk per ring slot, `done`
//   host            waits for a slot's `done`, checks the chunk's digest,
//   copies
//                   it to its destination, and only then reuses the slot
//
// If the rows do not fit in staging memory, each chunk is gathered into a
// window after the previous chunk has left it, and the host waits for the last
// one.
//
// A slot with a lossy codec is encoded as it is gathered. The host then also
// waits for the gathers, whose findings show whether each number can be
// encoded. If one cannot, the slot is gathered again unencoded, while the table
// is still unchanged.
#ifndef CKPTDB_CUDA_TABLES_ROW_CAPTURE_H_
#define CKPTDB_CUDA_TABLES_ROW_CAPTURE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/rows/row_codes.h"
#include "cuda/runtime/device_context.h"
#include "cuda/runtime/stream.h"
#include "cuda/tables/row_list.h"
#include "cuda/tables/slot_form.h"
#include "cuda/tables/table_rows.h"
#include "db/base/large_array.h"
#include "manager/internal/tensor_device.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

// How rows leave the device.
enum class RowForm {
  kRaw,      // unencoded
  kEncoded,  // slots with a lossy codec are encoded; only for the stager
};

class RowCapture : public TableState::Captured {
 public:
  // Captures the rows of the list, whose ids are `ids`, as the work queued on
  // the side stream leaves them; that stream has waited for the trainer's. The
  // context, the table, and ids that the caller owns must outlive it.
  static absl::StatusOr<std::unique_ptr<RowCapture>> Begin(
      DeviceContext* context, const TableRows* table, RowList list, RowIds ids,
      RowForm form);
  // Waits for the queued work.
  ~RowCapture() override;
  RowCapture(const RowCapture&) = delete;
  RowCapture& operator=(const RowCapture&) = delete;

  absl::Status Fetch() override;
  uint64_t block_count() const override { return ids_.empty() ? 0 : 1; }
  // Returns FailedPrecondition before Fetch has succeeded.
  absl::StatusOr<RowBlock> Block(uint64_t block) const override;
  // Returns whether a slot leaves the device encoded.
  bool IsEncoded(size_t slot) const { return forms_[slot].encoded(); }

 private:
  // Rows of one slot, copied at once.
  struct Chunk {
    size_t slot = 0;
    uint64_t first = 0;
    uint64_t rows = 0;
    uint64_t bytes = 0;  // in whole lanes
    uint64_t at = 0;     // in staging memory
  };
  // A slot of the ring.
  struct Place {
    PinnedPool::Loan buffer;
    CudaEvent done;
    const Chunk* chunk = nullptr;  // in flight
  };
  // The device memory into which a chunk is gathered.
  struct Staged {
    char* rows = nullptr;
    char* digest = nullptr;
  };

  RowCapture(DeviceContext* context, const TableRows* table, RowList list,
             RowIds ids, CudaEvent gathered, RowForm form);

  void CutChunks();
  uint64_t digests_bytes() const {
    return AlignLane(chunks_.size() * sizeof(uint64_t));
  }
  // Bytes of the encoder's statistics; 0 if no slot is encoded.
  uint64_t findings_bytes() const;
  Staged StagedAt(size_t chunk) const;
  absl::Status TakeRows();
  absl::Status ClearFindings(char* found);
  absl::Status ReadFindings();
  absl::Status Launch(const Chunk& chunk, const Staged& to);
  absl::Status Gather(const Chunk& chunk, const Staged& to);
  absl::Status StageRows();
  absl::Status PassThrough();
  uint64_t PlaceBytes() const;
  absl::StatusOr<std::vector<Place>> MakeRing() const;
  absl::Status AllocateHost();
  absl::Status StartCopy(const Chunk& chunk, const Staged& from, Place* place);
  absl::Status FinishCopy(Place* place);
  absl::Status FinishRing(std::vector<Place>* ring);
  absl::Status CopyStaged();
  RowBlock::SlotValues ValuesOf(size_t slot);

  DeviceContext* const context_;
  const TableRows& table_;
  const RowList list_;
  const RowIds ids_;
  const CudaEvent gathered_;
  std::vector<SlotForm> forms_;  // of the slots
  bool refused_ = false;         // a slot could not be encoded and is now raw
  std::vector<Chunk> chunks_;
  uint64_t bytes_ = 0;             // of all chunks
  std::vector<uint64_t> host_at_;  // of each slot, in host memory
  uint64_t host_bytes_ = 0;
  CodesFound* found_ = nullptr;       // on the device, for each slot
  std::vector<EncodedRows> encoded_;  // of each slot
  DevicePool::Loan staging_;
  LargeArray<char> host_;
  std::vector<RowBlock::SlotValues> slot_values_;
  bool host_waited_ = false;  // for the gathers
  bool queued_ = false;       // queued work that nobody has waited for
  bool fetched_ = false;      // the rows are in host memory
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_ROW_CAPTURE_H_
