#include "ckptdb/db/rocks/late_tables.h"

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

bool AddBadTables(const absl::Status& opened, BadTables* bad) {
  if (!absl::IsDataLoss(opened)) return false;
  constexpr absl::string_view kSuffix = ".sst";
  const absl::string_view text = opened.message();
  const size_t known = bad->size();
  size_t at = text.find(kSuffix);
  for (; at != text.npos; at = text.find(kSuffix, at + 1)) {
    size_t begin = at;
    while (begin > 0 && absl::ascii_isdigit(text[begin - 1])) --begin;
    if (begin == at) continue;
    bad->emplace(text.substr(begin, at + kSuffix.size() - begin));
  }
  return bad->size() > known;
}

// RocksDB opens with the database a quarter of the tables that it may keep
// open, which are ten less than this, 20 being the least that it takes: the
// first two. Those are of the records, not of the data.
void OpenTablesLate(rocksdb::DBOptions* options) {
  options->max_open_files = 20;
  options->skip_checking_sst_file_sizes_on_db_open = true;
}

}  // namespace ckptdb::internal
