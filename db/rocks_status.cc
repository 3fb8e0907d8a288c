#include "ckptdb/db/rocks_status.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ckptdb::internal {
namespace {

// RocksDB keeps nothing of an errno but its text.
bool Says(const rocksdb::Status& status, int error) {
  return absl::StrContains(absl::AsciiStrToLower(status.ToString()),
                           absl::AsciiStrToLower(std::strerror(error)));
}

absl::StatusCode CodeOf(const rocksdb::Status& status) {
  if (status.IsNoSpace()) return absl::StatusCode::kResourceExhausted;
  if (status.IsPathNotFound() || status.IsNotFound()) {
    return absl::StatusCode::kNotFound;
  }
  if (status.IsCorruption()) return absl::StatusCode::kDataLoss;
  if (status.IsInvalidArgument()) return absl::StatusCode::kInvalidArgument;
  if (status.IsIOError() && (Says(status, EACCES) || Says(status, EPERM))) {
    return absl::StatusCode::kPermissionDenied;
  }
  if (status.IsIOError() && Says(status, ENOTDIR)) {
    return absl::StatusCode::kFailedPrecondition;
  }
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
                      absl::StrCat(context, ": ", status.ToString()));
}

absl::Status FromRocksRead(const rocksdb::Status& status,
                           absl::string_view context) {
  absl::Status converted = FromRocks(status, context);
  if (!absl::IsNotFound(converted)) return converted;
  return absl::DataLossError(converted.message());
}

}  // namespace ckptdb::internal
