// SPDX-License-Identifier: Apache-2.0
// The tensors and tables of a step as arrays: a table's ids as
// "<table>.ids", int64 [rows], and each slot as "<table>.<slot>",
// [rows, elements].
#ifndef CKPTDB_TOOLS_FILES_STEP_ARRAYS_H_
#define CKPTDB_TOOLS_FILES_STEP_ARRAYS_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/reader.h"
#include "tools/files/array.h"
#include "tools/files/array_writer.h"
#include "tools/files/row_selection.h"

namespace ckptdb::tool {

// The part of a step that is exported.
struct StepSelection {
  std::string glob;                // matches items; empty: all
  std::vector<std::string> slots;  // in each table; empty: all
  RowSelection rows;
};

// A table, or its rows in some slices, whose arrays follow each other: ids,
// then slots.
struct StepTable {
  std::string name;
  std::vector<Slot> slots;
  uint64_t rows = 0;
  size_t first_array = 0;
  SliceRange slices = {};
};

struct StepArrays {
  std::vector<ArraySpec> arrays;
  std::vector<size_t> tensors;  // which arrays are tensors, by their names
  std::vector<StepTable> tables;
  uint64_t blobs = 0;  // selected blobs, which are not arrays

  uint64_t bytes() const;
  uint64_t rows() const;
};

// Lists the arrays; where the number of rows is not recorded, as in delta
// steps, or rows are selected, it is counted, which reads ids and the slots
// that the selection needs. Returns NotFound if nothing is selected or a slot
// exists in no table, and InvalidArgument if two arrays have the same name.
absl::StatusOr<StepArrays> ListArrays(const StepReader& step,
                                      const StepSelection& selection,
                                      const ReadOptions& options);

// Reads all arrays in parts, and passes them to `writer`. Takes about 200 MiB,
// whatever their sizes. `options.progress` receives written bytes.
absl::Status WriteArrays(const StepReader& step, const StepSelection& selection,
                         const StepArrays& arrays, const ReadOptions& options,
                         ArrayWriter* writer);

// --- For other layouts of arrays.

// Returns the names of the items of a kind that are selected, in order.
std::set<std::string> SelectNames(const StepReader& step,
                                  const StepSelection& selection,
                                  Item::Kind kind);

// Adds all selected tensors.
absl::Status AddTensors(const StepReader& step, const StepSelection& selection,
                        StepArrays* arrays);

// Returns the tables whose names the selection takes, with the slots it takes.
absl::StatusOr<std::vector<StepTable>> SelectTables(
    const StepReader& step, const StepSelection& selection);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_STEP_ARRAYS_H_
