// SPDX-License-Identifier: Apache-2.0
#include "db/disk/rocks_status.h"

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/disk/disk_folder.h"
#include "db/quirks/error_text.h"

namespace ckptdb::internal {
namespace {

// RocksDB passes file system errors on as text, so only the text identifies
// this one.
bool IsNotAStoreEntry(const rocksdb::Status& status) {
  return absl::StrContains(status.ToString(), kNotAStoreEntry);
}

// Returns the code for an error of RocksDB. The errno of an I/O error decides,
// which appears only in its text (line 2 of docs/rocksdb.md).
absl::StatusCode CodeOf(const rocksdb::Status& status) {
  // The order matters: a full disk and an entry that is not the store's are I/O
  // errors, too.
  if (status.IsNoSpace() || status.IsMemoryLimit()) {
    return absl::StatusCode::kResourceExhausted;
  }
  if (IsNotAStoreEntry(status)) return absl::StatusCode::kFailedPrecondition;
  if (status.IsPathNotFound() || status.IsNotFound()) {
    return absl::StatusCode::kNotFound;
  }
  if (status.IsCorruption()) return absl::StatusCode::kDataLoss;
  if (status.IsInvalidArgument()) return absl::StatusCode::kInvalidArgument;
  if (status.IsIOError() &&
      (IsErrno(status, EACCES) || IsErrno(status, EPERM) ||
       IsErrno(status, EROFS))) {
    return absl::StatusCode::kPermissionDenied;
  }
  if (status.IsIOError() &&
      (IsErrno(status, ENOTDIR) || IsErrno(status, EFBIG))) {
    return absl::StatusCode::kFailedPrecondition;
  }
  if (status.IsIOError() && IsErrno(status, ENAMETOOLONG)) {
    return absl::StatusCode::kInvalidArgument;
  }
  // Errors that may disappear are Unavailable.
  if (status.IsIOError() || status.IsBusy() || status.IsTryAgain() ||
      status.IsShutdownInProgress() || status.IsTimedOut()) {
    return absl::StatusCode::kUnavailable;
  }
  return absl::StatusCode::kInternal;
}

}  // namespace

absl::Status FromRocks(const rocksdb::Status& status,
                       absl::string_view context) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(CodeOf(status),
                      absl::StrCat(context, ": ", TextWithTableNames(status)));
}

absl::Status FromRocksRead(const rocksdb::Status& status,
                           absl::string_view context) {
  absl::Status converted = FromRocks(status, context);
  // Data that a record or the database names must exist, so its absence is
  // damage.
  if (!absl::IsNotFound(converted)) return converted;
  return absl::DataLossError(converted.message());
}

}  // namespace ckptdb::internal
