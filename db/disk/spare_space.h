// Disk space that a store sets aside, so that steps can be removed when the
// disk is full; internal to db/.
#ifndef CKPTDB_DB_DISK_SPARE_SPACE_H_
#define CKPTDB_DB_DISK_SPARE_SPACE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "ckptdb/db/base/mutex.h"

namespace ckptdb::internal {

// The name of the file in the store's folder.
inline constexpr char kSpareName[] = "SPARE";

// A file of the machine that is there to be removed. Thread-safe.
class SpareSpace {
 public:
  // If `bytes` is 0 nothing is set aside, and an existing file stays.
  SpareSpace(std::string path, uint64_t bytes, uint32_t mode)
      : path_(std::move(path)), bytes_(bytes), mode_(mode) {}

  // Returns whether the file is there, or none is wanted.
  bool IsSetAside() const;

  // Makes the file unless it is there, when its bytes and an eighth more are
  // free. Where that fails, a full disk can only be freed by hand.
  void SetAside(uint64_t free_bytes) const;

  // Gives so much of the space, and a little more, back to the file system, and
  // keeps the rest: whoever fills the disk takes what is given. Returns false
  // when none was left.
  bool Release(uint64_t bytes) const;

 private:
  const std::string path_;
  const uint64_t bytes_;
  const uint32_t mode_;
  mutable Mutex mutex_;  // guards the file
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_SPARE_SPACE_H_
