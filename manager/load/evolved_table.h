// Hands the rows of a step on to a table with other slots; internal to
// manager/.
#ifndef CKPTDB_MANAGER_LOAD_EVOLVED_TABLE_H_
#define CKPTDB_MANAGER_LOAD_EVOLVED_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/manager/load/slot_plan.h"

namespace ckptdb::internal {

// Casts, converts and fills the slots of each batch. Each worker has memory of
// its own, so it is as thread-safe as the trainer's table and functions are.
class EvolvedTable : public LiveTable {
 public:
  // `slots` are a plan without a misfit, and a scan gives their inputs in that
  // order. It serves a scan of at most `threads` workers. `live` outlives it.
  EvolvedTable(std::string name, std::vector<SlotSource> slots, int threads,
               LiveTable* live);

  absl::Status Clear() override { return live_->Clear(); }
  // Returns OutOfRange naming the table, the row, the slot and the number of a
  // cast, or the error of a function with the table and the slot; then nothing
  // of the batch is handed on.
  absl::Status Consume(int worker, const RowSink::Batch& batch) override;
  absl::Status Erase(int worker, absl::Span<const int64_t> ids) override {
    return live_->Erase(worker, ids);
  }

 private:
  struct Worker {
    std::vector<std::string> values;  // of each slot that is not as it is
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
