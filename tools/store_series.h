// SPDX-License-Identifier: Apache-2.0
// The numbers of a store's saves over time, from its records and from the
// statistics file of its manager.
#ifndef CKPTDB_TOOLS_STORE_SERIES_H_
#define CKPTDB_TOOLS_STORE_SERIES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/reader.h"

namespace ckptdb::tool {

struct SavePoint {
  int64_t step = 0;
  uint32_t attempt = 0;  // 0 if the save failed
  // The attempt, which folding keeps; for a save that failed, that of the one
  // before it in the file.
  uint32_t order = 0;
  int64_t at_micros = 0;
  bool in_store = false;
  bool failed = false;
  std::string kind;    // "full", "delta", or empty if it failed
  std::string reason;  // why it was saved, if known
  // By column: "save_micros", "blocking_micros", "exclusive_bytes", "rows",
  // "chain_length", ..., and "metric auc".
  std::map<std::string, double> values;
};

struct StoreSeries {
  std::vector<SavePoint> points;     // in the order of saves
  std::vector<std::string> columns;  // all that occur; metrics last
  uint64_t skipped_lines = 0;        // lines of the file without statistics

  // Returns the finite values of a column, in the order of saves.
  std::vector<double> ValuesOf(const std::string& column) const;
};

// `statistics_path` may be empty. Returns NotFound if it names no file. Saves
// of other stores in the file are not told apart.
absl::StatusOr<StoreSeries> LoadSeries(const Reader& reader,
                                       const std::string& statistics_path);

// Formats a value of a column: "1.5 s", "4.2 GiB", "0.731".
std::string ColumnText(const std::string& column, double value);

// Returns a line of at most `width` block characters, each the mean of as many
// values.
std::string Sparkline(const std::vector<double>& values, size_t width);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_STORE_SERIES_H_
