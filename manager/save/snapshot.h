// SPDX-License-Identifier: Apache-2.0
// A snapshot of the state that a rank saves; internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_SNAPSHOT_H_
#define CKPTDB_MANAGER_SAVE_SNAPSHOT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/base/state_items.h"
#include "db/state.h"
#include "manager/internal/tensor_device.h"
#include "manager/model_state.h"
#include "manager/save/arena.h"
#include "manager/save/column_exchange.h"
#include "manager/state/change_sets.h"
#include "manager/state/registered_state.h"

namespace ckptdb::internal {

struct SnapshotSpec {
  // The owner also saves the state that all ranks share.
  bool owner = true;
  // The rank that saves each replicated tensor, in the order of the model's
  // tensors, and this rank. If empty, the owner saves all.
  std::vector<uint32_t> tensor_savers;
  uint32_t rank = 0;
  // The reasons why tables are saved in full. The changes of a table without a
  // reason are saved.
  BaseReasons bases;
  // The tables' shardings, in the order of the model's tables; empty if none is
  // declared. Only the owner saves the rows of a replicated table.
  std::vector<TableSharding> shardings;
  // The tables' changes, which outlive the snapshot; null saves all tables in
  // full.
  const ChangeSets* changes = nullptr;
  // The tables whose columns are divided among ranks, which outlive the
  // snapshot; it takes their rows.
  WholeTables* whole_tables = nullptr;
};

class Snapshot {
 public:
  // Points to the model, which must not change before CopyTo has returned or
  // the state was staged. Io states and extras are serialized here.
  static absl::StatusOr<std::unique_ptr<Snapshot>> Of(const ModelState& model,
                                                      const SnapshotSpec& spec);

  // The arena bytes that CopyTo uses, and the part of them for device tensors,
  // which CaptureDeviceTensors uses.
  uint64_t bytes() const { return bytes_; }
  uint64_t device_bytes() const { return device_bytes_; }

  // Copies everything, on several threads; afterwards the snapshot points to
  // the arena instead of the model. Devices capture their state, so Fetch must
  // be called before the state is staged. Returns ResourceExhausted if the
  // memory cannot be allocated. Calls `poll`, unless null, about as often as a
  // wait polls, on this thread, and ends with its error.
  absl::Status CopyTo(Arena* arena, int threads,
                      const std::function<absl::Status()>& poll = nullptr);
  // Captures only the device tensors, in an arena of `bytes`; the rest points
  // to the model. The unused part of the arena begins at free_memory().
  absl::Status CaptureDeviceTensors(Arena* arena, uint64_t bytes);
  char* free_memory() const { return free_memory_; }
  // Waits until the captured device state is in host memory. Called once, by
  // any thread.
  absl::Status Fetch();

  // Returns the state to stage, which points to the snapshot.
  RankState state() const;

 private:
  // The rows of a table that one task copies: some blocks, or a part of one.
  struct Part {
    uint64_t block = 0;  // the first block
    uint64_t blocks = 0;
    uint64_t skipped = 0;  // rows of the first block
    uint64_t row = 0;      // the first row, in the table
    uint64_t rows = 0;
  };
  struct Table {
    RankState::Table item;
    bool full = true;
    std::unique_ptr<RowSource> rows;
    std::vector<Part> parts;
    uint64_t row_count = 0;
    absl::Span<const int64_t> erased;
    // The rows, if a device has captured them, or if they were exchanged: they
    // are not copied.
    TableState::Captured* captured = nullptr;
  };
  // A device tensor. It has no host memory before it is captured.
  struct DeviceTensor {
    size_t tensor = 0;  // index in tensors_
    TensorState state;
    uint64_t bytes = 0;
  };
  struct Copy;

  static absl::Status CutTable(Table* table);
  absl::Status AddTensors(const ModelState& model, const SnapshotSpec& spec);
  absl::Status AddTable(const RegisteredTable& table, const SnapshotSpec& spec,
                        const TableSharding& sharding,
                        const ChangeTracker::Changes* changes,
                        WholeRows* whole);
  static absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      const RegisteredTable& table, bool full,
      const ChangeTracker::Changes* changes);
  static absl::Status AddRows(const RegisteredTable& table,
                              const ChangeTracker::Changes* changes,
                              Table* added);
  absl::StatusOr<char*> Reserve(Arena* arena, uint64_t bytes) const;
  absl::Status CaptureTensors(char* memory);
  absl::Status AddBlob(std::string name, absl::StatusOr<std::string> bytes);

  std::vector<StateTensor> tensors_;
  std::vector<DeviceTensor> device_tensors_;  // grouped by device
  std::vector<Table> tables_;
  std::vector<std::pair<std::string, std::string>> blobs_;
  uint64_t bytes_ = 0;
  uint64_t device_bytes_ = 0;
  char* free_memory_ = nullptr;
  // Their destructors wait for the devices.
  std::vector<std::unique_ptr<TensorState::Device::Capture>> captures_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_SNAPSHOT_H_
