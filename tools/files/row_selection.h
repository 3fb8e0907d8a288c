// SPDX-License-Identifier: Apache-2.0
// Some rows of tables, as --ids and --where select them.
#ifndef CKPTDB_TOOLS_FILES_ROW_SELECTION_H_
#define CKPTDB_TOOLS_FILES_ROW_SELECTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "db/reader.h"
#include "schema/types.h"
#include "tools/id_list.h"

namespace ckptdb::tool {

struct RowSelection {
  std::optional<IdList> ids;
  std::string where;  // empty: no filter; see tools/row_filter.h
  SliceRange slices;  // by SliceHash::kModulo, whatever the table's hash
  bool all() const {
    return !ids.has_value() && where.empty() && slices == SliceRange();
  }
};

class SelectedRowSink {
 public:
  // Rows [first, second) of a batch.
  using RowRange = std::pair<size_t, size_t>;

  virtual ~SelectedRowSink() = default;
  // Like RowSink::Consume, but only these rows of the batch are selected.
  virtual absl::Status Consume(int worker, const RowSink::Batch& batch,
                               absl::Span<const RowRange> rows) = 0;
};

// Scans the selected rows of a table, with the values of `slots` in this order;
// without slots, only ids. Returns InvalidArgument for a filter that does
// not fit the table.
absl::Status ScanSelectedRows(const StepReader& step, const std::string& table,
                              const RowSelection& selection,
                              const std::vector<Slot>& slots,
                              const ReadOptions& options,
                              SelectedRowSink* sink);

// Counts the selected rows. Reads only ids, and the slots of the filter.
absl::StatusOr<uint64_t> CountSelectedRows(const StepReader& step,
                                           const std::string& table,
                                           const RowSelection& selection,
                                           const ReadOptions& options);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_ROW_SELECTION_H_
