// SPDX-License-Identifier: Apache-2.0
// Compares two steps.
//
//   CKPTDB_ASSIGN_OR_RETURN(const StepDiff diff,
//                           CompareSteps(reader.get(), *from, *to));
//
// Tensors and blobs are compared by the digests in the records. If the steps
// divide a tensor into different parts, such as after a save with more ranks,
// and all comparable parts are equal, the tensor is read in both. For a table,
// the ids in the runs between the steps are read and counted. With
// DiffOptions::values, tensors that differ and rows that were written are read
// and compared.
#ifndef CKPTDB_TOOLS_STEP_DIFF_H_
#define CKPTDB_TOOLS_STEP_DIFF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/reader.h"
#include "schema/types.h"
#include "tools/number_diff.h"
#include "tools/row_diff.h"

namespace ckptdb::tool {

struct MetricDiff {
  std::string name;
  std::optional<double> from;
  std::optional<double> to;
};

// If only one step has the tensor, only that side is set.
struct TensorDiff {
  std::string name;
  std::optional<Item> from;
  std::optional<Item> to;
  // "dtype" and/or "shape", or "content" if both are equal.
  std::vector<std::string> differs;
  // Set if the values were compared and both have the same shape.
  std::optional<NumberDiff> numbers;
};

struct BlobDiff {
  uint32_t rank = 0;
  std::string name;
  std::optional<uint64_t> from_bytes;
  std::optional<uint64_t> to_bytes;
};

// If both are set and equal, the slot has moved within the row.
struct SlotDiff {
  std::string name;
  std::optional<Slot> from;
  std::optional<Slot> to;
};

struct RowCounts {
  // Rows written between the steps, possibly with the same values.
  uint64_t upserted = 0;
  // Rows erased between the steps, including rows added between them.
  uint64_t erased = 0;
};

struct TableDiff {
  std::string name;
  bool in_from = false;
  bool in_to = false;
  std::vector<SlotDiff> slots;
  bool slice_hash_differs = false;
  // Set if both steps have the table and delta runs connect them.
  std::optional<RowCounts> rows;
  std::string not_counted_reason;  // if `rows` is not set
  std::optional<RowDiff> values;   // set if the values were compared
  // Set if all of the step's rows of the table are in base runs.
  std::optional<uint64_t> from_rows;
  std::optional<uint64_t> to_rows;

  bool layout_differs() const { return !slots.empty() || slice_hash_differs; }
  // Returns whether it is unknown if the table differs.
  bool unknown() const {
    return in_from && in_to && !layout_differs() && !rows.has_value() &&
           !values.has_value() &&
           !(from_rows && to_rows && *from_rows != *to_rows);
  }
};

struct StepDiff {
  StepRecord from;
  StepRecord to;
  std::vector<MetricDiff> metrics;  // by name, as are the others
  std::vector<TensorDiff> tensors;
  std::vector<TableDiff> tables;
  std::vector<BlobDiff> blobs;  // by name and rank
  // Why no delta runs connect the steps. Empty if they do.
  std::string not_incremental_reason;
  uint64_t tensors_read = 0;
  uint64_t tensors_compared = 0;   // tensors whose values were compared
  uint64_t tensor_read_bytes = 0;  // from both steps
  uint64_t tables_counted = 0;     // tables whose ids were read

  // Returns whether the steps are equal, or nullopt if that is unknown.
  std::optional<bool> same() const;
};

struct DiffOptions {
  // Compares the values of rows, by the delta runs between the steps where
  // these have all that changed, otherwise by a scan of both steps; and those
  // of tensors that differ.
  bool values = false;
  bool scan = false;  // with `values`, never uses the delta runs
  // Compares the values of rows that delta runs wrote, even without `values`,
  // so that rewritten equal values do not count as differences.
  bool exact = false;
  RowDiffOptions rows = {};
};

// `reader` must be the one that opened both, or null for steps of two stores.
// Returns Aborted if `to` was overwritten in the meantime.
absl::StatusOr<StepDiff> CompareSteps(Reader* reader, const StepReader& from,
                                      const StepReader& to,
                                      const DiffOptions& options = {});

// Returns "added" if only the second step has it, "removed" if only the first
// has it, and otherwise "changed".
absl::string_view ChangeName(bool in_from, bool in_to);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_STEP_DIFF_H_
