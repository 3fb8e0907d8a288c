// Facts that only the texts of RocksDB's errors tell; internal to db/.
#ifndef CKPTDB_DB_QUIRKS_ERROR_TEXT_H_
#define CKPTDB_DB_QUIRKS_ERROR_TEXT_H_

#include <rocksdb/status.h>

#include <string>

#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Returns whether the error is that errno. A status of RocksDB keeps nothing of
// an errno but its words.
bool SaysErrno(const rocksdb::Status& status, int error);

// Returns the text of the error with each SST file by its name. RocksDB names
// some by their number alone, and adds that the MANIFEST is to blame for a
// table that it lists.
std::string TextWithTableNames(const rocksdb::Status& status);

// Returns whether an opening failed since the database lacks column families.
bool SaysFamilyIsMissing(absl::string_view text);

// Returns whether an opening failed since a file that is there could not be
// looked at. RocksDB calls that a corruption.
bool SaysFileIsOutOfReach(absl::string_view text);

// Returns whether a file was replaced on another host, and the file system has
// lost the handle of the old one.
bool SaysHandleIsStale(absl::string_view text);

// Returns whether a log was listed, and was missing when it was opened.
bool SaysLogIsMissing(absl::string_view text);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_ERROR_TEXT_H_
