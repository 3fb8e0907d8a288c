// What differs between two steps, from the one to the other.
//
//   CKPTDB_ASSIGN_OR_RETURN(const StepDiff diff,
//                           CompareSteps(reader.get(), *from, *to));
//
// Tensors and blobs are compared by the digests of the records, and not read.
// The digests are no answer for a tensor that the steps have in other parts,
// as after a save by more ranks, when all parts that are alike are the same:
// such a tensor is read in both. Of a table the ids of the runs between the
// steps are read, and counted.
#ifndef CKPTDB_TOOLS_STEP_DIFF_H_
#define CKPTDB_TOOLS_STEP_DIFF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/db/step_reader.h"
#include "ckptdb/schema/records.h"

namespace ckptdb::tool {

struct MetricDiff {
  std::string name;
  std::optional<double> from;
  std::optional<double> to;
};

// What only one step has is set on that side alone.
struct TensorDiff {
  std::string name;
  std::optional<TensorSpec> from;
  std::optional<TensorSpec> to;
  // Of "dtype", "shape", "content"; the last one only where both others are
  // the same.
  std::vector<std::string> differs;
};

struct BlobDiff {
  uint32_t rank = 0;
  std::string name;
  std::optional<uint64_t> from_bytes;
  std::optional<uint64_t> to_bytes;
};

// When both are set and alike, the slot is at another place in the row.
struct SlotDiff {
  std::string name;
  std::optional<Slot> from;
  std::optional<Slot> to;
};

struct RowCounts {
  // Written on the way, also with the values that they had.
  uint64_t upserted = 0;
  // Gone; also one that came on the way.
  uint64_t erased = 0;
};

struct TableDiff {
  std::string name;
  bool in_from = false;
  bool in_to = false;
  std::vector<SlotDiff> slots;
  bool slice_hash_differs = false;
  // Of a table of both, where delta runs lead from one to the other.
  std::optional<RowCounts> rows;
  std::string not_counted_reason;  // else
  // Where the step has all rows of it in base runs.
  std::optional<uint64_t> from_rows;
  std::optional<uint64_t> to_rows;

  bool layout_differs() const { return !slots.empty() || slice_hash_differs; }
  // Whether it differs is not known.
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
  // Why no delta runs lead from the one to the other; empty: they do.
  std::string not_incremental_reason;
  uint64_t tensors_read = 0;
  uint64_t tensor_read_bytes = 0;  // of both
  uint64_t tables_counted = 0;     // from run to run, by their ids

  // False when anything is known to differ, nullopt when it is not known.
  std::optional<bool> same() const;
};

// `reader` is what opened both. Aborted when `to` was written over since.
absl::StatusOr<StepDiff> CompareSteps(Reader* reader, const StepReader& from,
                                      const StepReader& to);

// "added", "removed", "changed": in the second only, the first only, in both.
absl::string_view ChangeName(bool in_from, bool in_to);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_STEP_DIFF_H_
