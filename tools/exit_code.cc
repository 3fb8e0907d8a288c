// SPDX-License-Identifier: Apache-2.0
#include "tools/exit_code.h"

namespace ckptdb::tool {

// Unavailable means a busy store: ReadingStatus has converted I/O errors with
// that code to Internal.
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
