// SPDX-License-Identifier: Apache-2.0
// Extracts facts that only the texts of RocksDB's errors contain; internal to
// db/.
#ifndef CKPTDB_DB_QUIRKS_ERROR_TEXT_H_
#define CKPTDB_DB_QUIRKS_ERROR_TEXT_H_

#include <rocksdb/status.h>

#include <string>

#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Returns whether the error is this errno. A status of RocksDB keeps only the
// words of an errno.
bool IsErrno(const rocksdb::Status& status, int error);

// Returns the error's text with each SST file's name. RocksDB identifies some
// files only by number, and blames the MANIFEST for a table that it lists.
std::string TextWithTableNames(const rocksdb::Status& status);

// Returns whether an open failed because the database lacks column families.
bool IsMissingFamily(absl::string_view text);

// Returns whether an open failed because an existing file could not be
// examined. RocksDB reports that as a corruption.
bool IsInaccessibleFile(absl::string_view text);

// Returns whether a file was replaced on another host, and the file system has
// lost the old one's handle.
bool IsStaleHandle(absl::string_view text);

// Returns whether a log was listed but missing when it was opened.
bool IsMissingLog(absl::string_view text);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_ERROR_TEXT_H_
