// SPDX-License-Identifier: Apache-2.0
// Follows one row through the steps.
//
//   RowHistory history(reader.get(), "user", -3);
//   for (const StepRecord& step : reader->Steps()) {
//     CKPTDB_RETURN_IF_ERROR(history.Add(step));
//   }
//   for (const RowEvent& event : history.events()) ...
#ifndef CKPTDB_TOOLS_ROW_HISTORY_H_
#define CKPTDB_TOOLS_ROW_HISTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/reader.h"
#include "schema/types.h"

namespace ckptdb::tool {

enum class RowChange {
  kAppeared,
  kChanged,
  kErased,
  kDropped,  // the step lacks the table
};
absl::string_view RowChangeName(RowChange change);

// A row with the slots that its table has in a step.
struct Row {
  std::vector<Slot> slots;
  std::vector<std::string> values;  // slot by slot
};

struct RowEvent {
  StepRecord step;
  RowChange change = RowChange::kChanged;
  Row row;  // for kAppeared and kChanged
  // For kChanged: the slots that were added, changed or removed.
  std::vector<std::string> changed_slots;
};

class RowHistory {
 public:
  // `reader` must outlive it.
  RowHistory(Reader* reader, std::string table, int64_t id);

  // Compares the row in this step with the row in the step added before. Reads
  // only delta runs if they lead from that step to this one; otherwise looks up
  // the row. Skips a step that was removed in the meantime.
  absl::Status Add(const StepRecord& step);

  const std::vector<RowEvent>& events() const { return events_; }
  // Returns the number of steps skipped because they were removed.
  int64_t skipped() const { return skipped_; }
  // Returns whether any step had the table.
  bool found_table() const { return found_table_; }

 private:
  // The row in a step; `row` is nullopt if the step lacks it.
  struct State {
    bool has_table = false;
    std::optional<Row> row;
  };
  absl::StatusOr<State> Follow(int64_t step);
  absl::StatusOr<State> LookUp(int64_t step);
  void Note(const StepRecord& step, State state);

  Reader* const reader_;
  const std::string table_;
  const int64_t id_;
  int64_t skipped_ = 0;
  bool found_table_ = false;
  std::optional<Version> before_;
  State state_;  // in `before_`
  std::vector<RowEvent> events_;
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_ROW_HISTORY_H_
