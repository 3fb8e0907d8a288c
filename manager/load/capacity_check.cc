// SPDX-License-Identifier: Apache-2.0
#include "manager/load/capacity_check.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

class IdChecker : public RowSink {
 public:
  explicit IdChecker(const TableState& table) : table_(table) {}

  absl::Status Consume(int /*worker*/, const Batch& batch) override {
    rows_ += batch.ids.size();
    for (const int64_t id : batch.ids) {
      CKPTDB_RETURN_IF_ERROR(table_.CheckId(id));
    }
    return absl::OkStatus();
  }
  uint64_t rows() const { return rows_; }

 private:
  const TableState& table_;
  std::atomic<uint64_t> rows_ = 0;
};

}  // namespace

absl::Status CapacityCheck::Run() const {
  const std::string place = absl::StrCat("table \"", source, "\"");
  ScanOptions ids = scan;
  ids.slots.clear();
  ids.ids_only = true;
  IdChecker checker(*table);
  CKPTDB_RETURN_IF_ERROR(
      Annotate(step->ScanTable(source, ids, &checker), place));
  if (mode == LiveTable::RestoreMode::kMerge || checker.rows() <= rows) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(place, ": the step has ", checker.rows(),
                   " rows for this rank, but the table has room for ", rows,
                   "; make it larger"));
}

}  // namespace ckptdb::internal
