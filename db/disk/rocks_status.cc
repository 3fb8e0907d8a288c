#include "ckptdb/db/disk/rocks_status.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ckptdb/db/disk/disk_folder.h"

namespace ckptdb::internal {
namespace {

// RocksDB keeps nothing of an errno but its text.
bool Says(const rocksdb::Status& status, int error) {
  return absl::StrContains(absl::AsciiStrToLower(status.ToString()),
                           absl::AsciiStrToLower(std::strerror(error)));
}

bool IsNotOfAStore(const rocksdb::Status& status) {
  return absl::StrContains(status.ToString(), kNotOfAStore);
}

absl::StatusCode CodeOf(const rocksdb::Status& status) {
  if (status.IsNoSpace()) return absl::StatusCode::kResourceExhausted;
  if (IsNotOfAStore(status)) return absl::StatusCode::kFailedPrecondition;
  if (status.IsPathNotFound() || status.IsNotFound()) {
    return absl::StatusCode::kNotFound;
  }
  if (status.IsCorruption()) return absl::StatusCode::kDataLoss;
  if (status.IsInvalidArgument()) return absl::StatusCode::kInvalidArgument;
  if (status.IsIOError() &&
      (Says(status, EACCES) || Says(status, EPERM) || Says(status, EROFS))) {
    return absl::StatusCode::kPermissionDenied;
  }
  if (status.IsIOError() && (Says(status, ENOTDIR) || Says(status, EFBIG))) {
    return absl::StatusCode::kFailedPrecondition;
  }
  if (status.IsIOError() && Says(status, ENAMETOOLONG)) {
    return absl::StatusCode::kInvalidArgument;
  }
  if (status.IsIOError() || status.IsBusy() || status.IsTryAgain() ||
      status.IsShutdownInProgress() || status.IsTimedOut()) {
    return absl::StatusCode::kUnavailable;
  }
  return absl::StatusCode::kInternal;
}

// RocksDB tells of some tables by their number, and has the MANIFEST, too,
// answer for a table that it names.
std::string TextOf(const rocksdb::Status& status) {
  constexpr absl::string_view kByNumber = "table file ";
  std::string text = status.ToString();
  const size_t number = absl::string_view(text).find(kByNumber);
  if (number != text.npos) {
    const size_t begin = number + kByNumber.size();
    const size_t end = text.find_first_not_of("0123456789", begin);
    const std::string digits = text.substr(begin, end - begin);
    uint64_t table = 0;
    if (absl::SimpleAtoi(digits, &table)) {
      text.replace(begin, digits.size(), absl::StrFormat("%06d.sst", table));
    }
  }
  const size_t blamed = text.rfind(" in file ");
  if (blamed != text.npos && text.find("/MANIFEST-", blamed) != text.npos &&
      text.find(".sst") < blamed) {
    text.resize(blamed);
  }
  return text;
}

}  // namespace

absl::Status FromRocks(const rocksdb::Status& status,
                       absl::string_view context) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(CodeOf(status),
                      absl::StrCat(context, ": ", TextOf(status)));
}

absl::Status FromRocksRead(const rocksdb::Status& status,
                           absl::string_view context) {
  absl::Status converted = FromRocks(status, context);
  if (!absl::IsNotFound(converted)) return converted;
  return absl::DataLossError(converted.message());
}

}  // namespace ckptdb::internal
