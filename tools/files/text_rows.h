// SPDX-License-Identifier: Apache-2.0
// Rows of tables as text: "<table>.csv" with a column for each element, and
// "<table>.jsonl" with an object for each row. A number has the fewest digits
// that distinguish it from all others of its dtype; floats of fewer than 32
// bits are formatted as f32. Rows are in no particular order.
#ifndef CKPTDB_TOOLS_FILES_TEXT_ROWS_H_
#define CKPTDB_TOOLS_FILES_TEXT_ROWS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "db/reader.h"
#include "tools/files/output_folder.h"
#include "tools/files/step_arrays.h"

namespace ckptdb::tool {

enum class RowText { kCsv, kJsonLines };

// Writes a table with its slots into a new file of the folder, and returns the
// number of rows. Returns InvalidArgument if a slot is called "id", as the
// first column is.
absl::StatusOr<uint64_t> WriteRowText(const StepReader& step,
                                      const StepSelection& selection,
                                      const StepTable& table, RowText text,
                                      const ReadOptions& options,
                                      OutputFolder* folder);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_TEXT_ROWS_H_
