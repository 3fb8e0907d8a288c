// Compares two steps.
//
//   CKPTDB_ASSIGN_OR_RETURN(const StepDiff diff,
//                           CompareSteps(reader.get(), *from, *to));
//
// Tensors and blobs are compared by the digests of the records. A tensor that
// the steps divide into different parts, as after a save by more ranks, is read
// in both when all parts that can be compared are the same. For a table, the
// ids of the runs between the steps are read and counted.
#ifndef CKPTDB_TOOLS_STEP_DIFF_H_
#define CKPTDB_TOOLS_STEP_DIFF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::tool {

struct MetricDiff {
  std::string name;
  std::optional<double> from;
  std::optional<double> to;
};

// For a tensor of one step, only that side is set.
struct TensorDiff {
  std::string name;
  std::optional<StepReader::TensorSpec> from;
  std::optional<StepReader::TensorSpec> to;
  // Some of "dtype" and "shape", or "content" when both are the same.
  std::vector<std::string> differs;
};

struct BlobDiff {
  uint32_t rank = 0;
  std::string name;
  std::optional<uint64_t> from_bytes;
  std::optional<uint64_t> to_bytes;
};

// When both are set and equal, the slot has another place in the row.
struct SlotDiff {
  std::string name;
  std::optional<Slot> from;
  std::optional<Slot> to;
};

struct RowCounts {
  // Rows that were written between the steps, also with the same values.
  uint64_t upserted = 0;
  // Rows that were erased between the steps, also ones added between them.
  uint64_t erased = 0;
};

struct TableDiff {
  std::string name;
  bool in_from = false;
  bool in_to = false;
  std::vector<SlotDiff> slots;
  bool slice_hash_differs = false;
  // Set for a table of both steps when delta runs lead from one to the other.
  std::optional<RowCounts> rows;
  std::string not_counted_reason;  // else
  // Set when the step has all rows of the table in base runs.
  std::optional<uint64_t> from_rows;
  std::optional<uint64_t> to_rows;

  bool layout_differs() const { return !slots.empty() || slice_hash_differs; }
  // Returns whether it is not known if the table differs.
  bool unknown() const {
    return in_from && in_to && !layout_differs() && !rows.has_value() &&
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
  // Reason why no delta runs lead from one step to the other; empty when they
  // do.
  std::string not_incremental_reason;
  uint64_t tensors_read = 0;
  uint64_t tensor_read_bytes = 0;  // of both
  uint64_t tables_counted = 0;     // from run to run, by their ids

  // Returns false when anything differs, and nullopt when that is not known.
  std::optional<bool> same() const;
};

// `reader` is the one that opened both. Returns Aborted when `to` was
// overwritten meanwhile.
absl::StatusOr<StepDiff> CompareSteps(Reader* reader, const StepReader& from,
                                      const StepReader& to);

// Returns "added" when only the second step has it, "removed" when only the
// first has it, and else "changed".
absl::string_view ChangeName(bool in_from, bool in_to);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_STEP_DIFF_H_
