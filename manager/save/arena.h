// Memory that a save copies the model into; internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_ARENA_H_
#define CKPTDB_MANAGER_SAVE_ARENA_H_

#include <cstdint>

#include "ckptdb/db/base/large_array.h"

namespace ckptdb::internal {

// The memory is kept from one save to the next, as its first touch costs more
// than the copy. Used by one thread at a time.
class Arena {
 public:
  explicit Arena(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  uint64_t max_bytes() const { return max_bytes_; }

  // Returns memory of `bytes`, at most max_bytes(), in place of what was
  // returned before. Returns null if it cannot be allocated.
  char* Reserve(uint64_t bytes);

 private:
  const uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  LargeArray<char> memory_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_ARENA_H_
