// SPDX-License-Identifier: Apache-2.0
// What a process asks of the library in an exit handler that is older than all
// that the library has made.
#ifndef CKPTDB_TESTS_DB_LATE_EXIT_H_
#define CKPTDB_TESTS_DB_LATE_EXIT_H_

#include <string>

#include "absl/status/status.h"

namespace ckptdb::testing {

// Opens the store at `path` as an owner and as a reader, and leaves both open.
// The handler calls them, opens and stages, and prints a line for each call.
absl::Status LeaveForExit(const std::string& path);

// Stages ChildContent(0) by this ticket, in a process that opens no store. The
// handler stages again, and prints a line.
absl::Status StageAndStageAtExit(const std::string& path,
                                 const std::string& ticket);

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_LATE_EXIT_H_
