// SPDX-License-Identifier: Apache-2.0
// Finds rows of a table by id, by a filter, or by how they sort.
//
//   RowSearch search = {.table = "user", .where = "nan(embedding)"};
//   CKPTDB_ASSIGN_OR_RETURN(const FoundRows found,
//                           SearchRows(*step, search));
//   for (const FoundRow& row : found.rows) ...
#ifndef CKPTDB_TOOLS_ROW_SEARCH_H_
#define CKPTDB_TOOLS_ROW_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/reader.h"
#include "schema/types.h"
#include "tools/id_list.h"

namespace ckptdb::tool {

struct RowSearch {
  std::string table;
  std::optional<IdList> ids = std::nullopt;  // if set, only these
  std::string where = {};                    // a filter; empty: all rows
  bool not_finite = false;  // only rows with NaN or infinite elements
  // A value: rows with the largest first, NaN before all. Empty: by id.
  std::string sort = {};
  bool smallest_first = false;
  size_t limit = 100;  // the limit of FoundRows::rows
};

struct FoundRow {
  int64_t id = 0;
  // Holds every integer of 64 bits.
  long double sort_value = 0;
};

struct FoundRows {
  std::vector<FoundRow> rows;  // the first of those that match, in order
  uint64_t matched_rows = 0;   // all
  uint64_t read_rows = 0;      // rows of the table that were read
  uint64_t missing_ids = 0;    // ids of the search that the table lacks
};

// Reads the ids of the table and the slots that the search names, or of a list
// of at most a million ids only the pages that may have them. Returns
// InvalidArgument for an invalid filter or value, and otherwise the errors of
// StepReader. Takes memory for `limit` rows per thread.
absl::StatusOr<FoundRows> SearchRows(const StepReader& step,
                                     const RowSearch& search,
                                     const ReadOptions& options = {});

// Passes the rows of these ids that exist to the sink, in order, from this
// thread, in batches of at most 64 MiB, or one row.
absl::Status LookUpRows(const StepReader& step, const std::string& table,
                        absl::Span<const Slot> slots,
                        absl::Span<const int64_t> ids,
                        const ReadOptions& options, RowSink* sink);

// Returns the slots of these names, in this order, or all if there are none.
// Returns NotFound, with the names of all slots, for an unknown one.
absl::StatusOr<std::vector<Slot>> ChooseSlots(
    const std::string& table, const std::vector<Slot>& slots,
    const std::vector<std::string>& names);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_ROW_SEARCH_H_
