// A snapshot of what a rank saves of its model; internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_SNAPSHOT_H_
#define CKPTDB_MANAGER_SAVE_SNAPSHOT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/db/state.h"
#include "ckptdb/manager/model_state.h"
#include "ckptdb/manager/save/arena.h"
#include "ckptdb/manager/state/change_sets.h"

namespace ckptdb::internal {

struct SnapshotSpec {
  // The owner saves what all ranks have in common, too.
  bool owner = true;
  // The ranks that save the replicated tensors, in the order of the model's
  // tensors, and this rank. Without them the owner saves all.
  std::vector<uint32_t> tensor_savers;
  uint32_t rank = 0;
  // The reasons why tables are saved in full. A table without a reason is saved
  // as its changes.
  BaseReasons bases;
  // Shardings by table, in the order of the model's; empty: none is declared.
  // Of a replicated table only the owner saves rows.
  std::vector<TableSharding> shardings;
  // The changes of the tables, which outlive the snapshot; null: none.
  const ChangeSets* changes = nullptr;
};

class Snapshot {
 public:
  // Points to the model, which must not change before CopyTo has returned or
  // the state was staged. What turns into bytes does so here.
  static absl::StatusOr<std::unique_ptr<Snapshot>> Of(const ModelState& model,
                                                      const SnapshotSpec& spec);

  // The bytes that CopyTo takes of the arena, and those of them that are of
  // tensors of devices, for which SetAside takes them.
  uint64_t bytes() const { return bytes_; }
  uint64_t device_bytes() const { return device_bytes_; }

  // Copies everything, on several threads; nothing points to the model then,
  // but to the arena. What devices have is set aside by them, so that Fetch has
  // to be called before the state is staged. Returns ResourceExhausted if there
  // is no such memory.
  absl::Status CopyTo(Arena* arena, int threads);
  // Does so with what devices have alone, in an arena of `bytes`; the rest
  // points to the model. What is left of the arena begins at free_memory()
  // then.
  absl::Status SetAside(Arena* arena, uint64_t bytes);
  char* free_memory() const { return free_memory_; }
  // Waits until what devices have is in host memory. Called once, by any
  // thread.
  absl::Status Fetch();

  // Returns the state to stage, which points to the snapshot.
  RankState state() const;

 private:
  // The rows of a table that one task copies: of some blocks, or of a part of
  // one block.
  struct Part {
    uint64_t block = 0;  // the first
    uint64_t blocks = 0;
    uint64_t skipped = 0;  // of its rows
    uint64_t row = 0;      // the first, of all rows
    uint64_t rows = 0;
  };
  struct Table {
    RankState::Table item;
    bool whole = true;
    std::unique_ptr<RowSource> rows;
    std::vector<Part> parts;
    uint64_t row_count = 0;
    absl::Span<const int64_t> erased;
    // The rows, if a device has set them aside: they are not copied.
    TableState::Captured* captured = nullptr;
  };
  // A tensor of a device. It has no memory before it is set aside.
  struct DeviceTensor {
    size_t tensor = 0;  // its number in tensors_
    TensorState state;
    uint64_t bytes = 0;
  };
  struct Copy;

  static absl::Status CutTable(Table* table);
  absl::Status AddTensors(const ModelState& model, const SnapshotSpec& spec);
  absl::Status AddTable(const ModelState::Table& table,
                        const SnapshotSpec& spec, const TableSharding& sharding,
                        const ChangeTracker::Changes* changes);
  static absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      const ModelState::Table& table, bool whole,
      const ChangeTracker::Changes* changes);
  static absl::Status AddRows(const ModelState::Table& table,
                              const ChangeTracker::Changes* changes,
                              Table* added);
  absl::StatusOr<char*> Reserve(Arena* arena, uint64_t bytes) const;
  absl::Status SetTensorsAside(char* memory);
  absl::Status AddBlob(std::string name, absl::StatusOr<std::string> bytes);

  std::vector<RankState::Tensor> tensors_;
  std::vector<DeviceTensor> device_tensors_;  // those of a device together
  std::vector<Table> tables_;
  std::vector<std::pair<std::string, std::string>> blobs_;
  uint64_t bytes_ = 0;
  uint64_t device_bytes_ = 0;
  char* free_memory_ = nullptr;
  // They wait for their devices when they go.
  std::vector<std::unique_ptr<TensorState::Device::Capture>> captures_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_SNAPSHOT_H_
