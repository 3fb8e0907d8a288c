// Rows of a table in device memory that are set aside for a save; internal to
// cuda/.
//
//   side stream     has waited for the trainer's; gathers the rows, `gathered`
//   trainer's       waits for `gathered`
//   copy stream     waits for `gathered`; a chunk a slot of the ring, `done`
//   host            waits for the `done` of a slot, checks the digest of the
//                   chunk and copies it on, and only then uses the slot again
//
// Where the rows do not fit into the staging memory, each chunk is gathered
// into a window when the chunk that was there before has left it, and the host
// waits for the last one.
#ifndef CKPTDB_CUDA_TABLES_ROW_CAPTURE_H_
#define CKPTDB_CUDA_TABLES_ROW_CAPTURE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/cuda/runtime/device_context.h"
#include "ckptdb/cuda/runtime/stream.h"
#include "ckptdb/cuda/tables/row_list.h"
#include "ckptdb/cuda/tables/table_rows.h"
#include "ckptdb/db/base/large_array.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

class RowCapture : public TableState::Captured {
 public:
  // Sets the rows of the list aside, whose ids are `ids`, as what is queued on
  // the side stream leaves them, which has waited for the trainer's. The
  // context and the table outlive it.
  static absl::StatusOr<std::unique_ptr<RowCapture>> Begin(
      DeviceContext* context, const TableRows* table, RowList list,
      std::vector<int64_t> ids);
  // Waits for what is queued.
  ~RowCapture() override;
  RowCapture(const RowCapture&) = delete;
  RowCapture& operator=(const RowCapture&) = delete;

  absl::Status Fetch() override;
  uint64_t block_count() const override { return ids_.empty() ? 0 : 1; }
  // Returns FailedPrecondition before Fetch has succeeded.
  absl::StatusOr<RowBlock> Block(uint64_t block) const override;

 private:
  // Rows of one slot, which are copied at once.
  struct Chunk {
    size_t slot = 0;
    uint64_t first = 0;
    uint64_t rows = 0;
    uint64_t bytes = 0;  // padded
    uint64_t at = 0;     // in staging memory and in host memory
  };
  // A place of the ring.
  struct Place {
    PinnedPool::Loan buffer;
    CudaEvent done;
    const Chunk* chunk = nullptr;  // on its way
  };
  // Where a chunk is gathered to.
  struct Staged {
    char* rows = nullptr;
    char* digest = nullptr;
  };

  RowCapture(DeviceContext* context, const TableRows* table, RowList list,
             std::vector<int64_t> ids, CudaEvent gathered);

  void CutChunks();
  uint64_t digests_bytes() const { return chunks_.size() * sizeof(uint64_t); }
  Staged StagedAt(size_t chunk) const;
  absl::Status Gather(const Chunk& chunk, const Staged& to);
  absl::Status SetAside();
  absl::Status PassThrough();
  uint64_t PlaceBytes() const;
  absl::StatusOr<std::vector<Place>> MakeRing() const;
  absl::Status AllocateHost();
  absl::Status StartCopy(const Chunk& chunk, const Staged& from, Place* place);
  absl::Status FinishCopy(Place* place);
  absl::Status CopyStaged();

  DeviceContext* const context_;
  const TableRows& table_;
  const RowList list_;
  const std::vector<int64_t> ids_;
  const CudaEvent gathered_;
  std::vector<Chunk> chunks_;
  uint64_t bytes_ = 0;  // of all chunks
  DevicePool::Loan staging_;
  LargeArray<char> host_;
  std::vector<RowBlock::Column> columns_;
  bool queued_ = false;   // something that has not been waited for
  bool fetched_ = false;  // the rows are in host memory
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_ROW_CAPTURE_H_
