// SPDX-License-Identifier: Apache-2.0
// Passes a step's rows to a table with other slots; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_EVOLVED_TABLE_H_
#define CKPTDB_MANAGER_LOAD_EVOLVED_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "db/reader.h"
#include "manager/load/slot_plan.h"

namespace ckptdb::internal {

// Casts, converts and fills the slots of each batch. Each worker has its own
// memory, so it is as thread-safe as the trainer's table and functions.
class EvolvedTable : public LiveTable {
 public:
  // `slots` come from a plan without a misfit, and the scan's batches have
  // their inputs in that order. At most `threads` workers scan. `live` outlives
  // it.
  EvolvedTable(std::string name, std::vector<SlotSource> slots, int threads,
               LiveTable* live);

  absl::Status Clear() override { return live_->Clear(); }
  // Returns OutOfRange naming the table, the row, the slot and the value of a
  // failed cast, or a function's error with the table and the slot; then
  // nothing of the batch is passed on.
  absl::Status Consume(int worker, const RowSink::Batch& batch) override;
  absl::Status Erase(int worker, absl::Span<const int64_t> ids) override {
    return live_->Erase(worker, ids);
  }

 private:
  struct Worker {
    std::vector<std::string> values;  // by slot; empty if passed as is
    std::vector<const char*> slots;
  };
  absl::Status Make(const SlotSource& slot, const RowSink::Batch& batch,
                    std::string* values) const;
  absl::Status Cast(const SlotSource& slot, const RowSink::Batch& batch,
                    char* out) const;

  const std::string name_;
  const std::vector<SlotSource> slots_;
  LiveTable* const live_;
  std::vector<Worker> workers_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_EVOLVED_TABLE_H_
