// SPDX-License-Identifier: Apache-2.0
// Disk space that a store sets aside, so that steps can be deleted when the
// disk is full; internal to db/.
#ifndef CKPTDB_DB_DISK_SPARE_SPACE_H_
#define CKPTDB_DB_DISK_SPARE_SPACE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "db/base/mutex.h"

namespace ckptdb::internal {

// The name of the file in the store's folder.
inline constexpr char kSpareName[] = "SPARE";

// A file that exists only to be removed. Thread-safe.
class SpareSpace {
 public:
  // If `bytes` is 0, sets nothing aside, and leaves an existing file alone.
  SpareSpace(std::string path, uint64_t bytes, uint32_t mode)
      : path_(std::move(path)), bytes_(bytes), mode_(mode) {}

  // Returns whether the file exists, or none is wanted.
  bool IsSetAside() const;

  // Creates the file if it is missing, provided that its size and an eighth
  // more are free. Without it, a full disk can only be freed by hand.
  void SetAside(uint64_t free_bytes) const;

  // Returns this much of the space, and a little more, to the file system, and
  // keeps the rest, because whoever fills the disk may take the released space.
  // Returns false if none was left.
  bool Release(uint64_t bytes) const;

 private:
  const std::string path_;
  const uint64_t bytes_;
  const uint32_t mode_;
  mutable Mutex mutex_;  // guards the file
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_SPARE_SPACE_H_
