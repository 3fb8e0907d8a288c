#include "ckptdb/db/disk/rocks_status.h"

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ckptdb/db/disk/disk_folder.h"
#include "ckptdb/db/quirks/error_text.h"

namespace ckptdb::internal {
namespace {

// RocksDB passes errors of the file system on as text, so its code cannot tell
// this one from others.
bool IsNotOfAStore(const rocksdb::Status& status) {
  return absl::StrContains(status.ToString(), kNotOfAStore);
}

// Returns the code of an error of RocksDB. Of an I/O error the errno decides,
// which is known by its words alone (line 2 of docs/rocksdb.md).
absl::StatusCode CodeOf(const rocksdb::Status& status) {
  // The order matters: a full disk and an entry that is not the store's are I/O
  // errors, too.
  if (status.IsNoSpace() || status.IsMemoryLimit()) {
    return absl::StatusCode::kResourceExhausted;
  }
  if (IsNotOfAStore(status)) return absl::StatusCode::kFailedPrecondition;
  if (status.IsPathNotFound() || status.IsNotFound()) {
    return absl::StatusCode::kNotFound;
  }
  if (status.IsCorruption()) return absl::StatusCode::kDataLoss;
  if (status.IsInvalidArgument()) return absl::StatusCode::kInvalidArgument;
  if (status.IsIOError() &&
      (SaysErrno(status, EACCES) || SaysErrno(status, EPERM) ||
       SaysErrno(status, EROFS))) {
    return absl::StatusCode::kPermissionDenied;
  }
  if (status.IsIOError() &&
      (SaysErrno(status, ENOTDIR) || SaysErrno(status, EFBIG))) {
    return absl::StatusCode::kFailedPrecondition;
  }
  if (status.IsIOError() && SaysErrno(status, ENAMETOOLONG)) {
    return absl::StatusCode::kInvalidArgument;
  }
  // What may be gone at the next try is Unavailable.
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
  // What a record or the database names must be there, so that its absence is
  // damage.
  if (!absl::IsNotFound(converted)) return converted;
  return absl::DataLossError(converted.message());
}

}  // namespace ckptdb::internal
