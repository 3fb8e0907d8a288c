#include "ckptdb/tools/exit_code.h"

namespace ckptdb::tool {

// Unavailable stands for a busy store alone, as ReadingStatus has turned the
// I/O errors of that code into Internal.
ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kInvalidArgument:
      return ExitCode::kUsage;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case absl::StatusCode::kDataLoss:
      return ExitCode::kDamaged;
    case absl::StatusCode::kUnavailable:
      return ExitCode::kBusy;
    default:
      return ExitCode::kFailed;
  }
}

}  // namespace ckptdb::tool
