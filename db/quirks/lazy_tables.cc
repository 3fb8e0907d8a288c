// SPDX-License-Identifier: Apache-2.0
#include "db/quirks/lazy_tables.h"

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

bool AddCorruptTables(const absl::Status& opened, CorruptTables* corrupt) {
  if (!absl::IsDataLoss(opened)) return false;
  constexpr absl::string_view kSuffix = ".sst";
  const absl::string_view text = opened.message();
  const size_t known = corrupt->size();
  // The error names a table by its file or by its number, which FromRocks has
  // converted to a name (line 3 of docs/rocksdb.md).
  size_t at = text.find(kSuffix);
  for (; at != text.npos; at = text.find(kSuffix, at + 1)) {
    size_t begin = at;
    while (begin > 0 && absl::ascii_isdigit(text[begin - 1])) --begin;
    if (begin == at) continue;
    corrupt->emplace(text.substr(begin, at + kSuffix.size() - begin));
  }
  return corrupt->size() > known;
}

// Together with the database, RocksDB opens a quarter of the tables that it may
// keep open, but at most 16. That number is this option minus ten, with a
// minimum of 20 for the option (line 8 of docs/rocksdb.md).
void BoundTables(uint64_t most_tables, rocksdb::DBOptions* options) {
  constexpr int kOther = 10;
  options->max_open_files = static_cast<int>(most_tables) + kOther;
}

// The two tables that are still opened hold records and not data.
void OpenTablesLazily(rocksdb::DBOptions* options) {
  constexpr int kFewestOpenFiles = 20;
  options->max_open_files = kFewestOpenFiles;
  // The check would fail the open if a table is missing or truncated.
  options->skip_checking_sst_file_sizes_on_db_open = true;
}

}  // namespace ckptdb::internal
