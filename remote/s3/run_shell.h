// SPDX-License-Identifier: Apache-2.0
// Runs a command of the user's configuration; private to remote/s3.
#ifndef CKPTDB_REMOTE_S3_RUN_SHELL_H_
#define CKPTDB_REMOTE_S3_RUN_SHELL_H_

#include <string>

#include "absl/status/statusor.h"
#include "remote/s3/pause.h"

namespace ckptdb::internal::s3 {

// Runs `command` with /bin/sh, and returns what it writes to its standard
// output. Its input is empty; its errors go to this process's standard error.
// Returns Unavailable if it fails or takes longer than `limit`, after which it
// is killed, and the error of `poll`. No error contains output of the command.
absl::StatusOr<std::string> RunShell(const std::string& command,
                                     SteadyClock::duration limit,
                                     const Poll& poll);

}  // namespace ckptdb::internal::s3

#endif  // CKPTDB_REMOTE_S3_RUN_SHELL_H_
