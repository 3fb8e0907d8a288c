// SPDX-License-Identifier: Apache-2.0
// Limits how many of the process's open files a database may use; internal to
// db/.
#ifndef CKPTDB_DB_DISK_OPEN_FILES_H_
#define CKPTDB_DB_DISK_OPEN_FILES_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace ckptdb::internal {

// A share of the files that the process may have open. The destructor returns
// it. Movable, not copyable. Take is thread-safe.
class OpenFileShare {
 public:
  // The maximum for one database.
  static constexpr uint64_t kMost = 4096;
  // The minimum to open a store: its tables, log, MANIFEST and folders.
  static constexpr uint64_t kFewest = 64;

  // Takes half of the files that neither another share nor an open file uses,
  // at most kMost. Raises a soft limit below kEnough to kEnough, or to the hard
  // limit if that is lower. Returns ResourceExhausted with the limit and the
  // number of open files if fewer than kFewest can be opened.
  static absl::StatusOr<OpenFileShare> Take();

  OpenFileShare() = default;
  ~OpenFileShare();
  OpenFileShare(OpenFileShare&& from) noexcept;
  OpenFileShare& operator=(OpenFileShare&& from) noexcept;

  uint64_t files() const { return files_; }

 private:
  static constexpr uint64_t kEnough = uint64_t{4} * kMost;

  explicit OpenFileShare(uint64_t files) : files_(files) {}
  uint64_t files_ = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_OPEN_FILES_H_
