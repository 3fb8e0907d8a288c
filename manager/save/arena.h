// Memory that a save copies the model into; internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_ARENA_H_
#define CKPTDB_MANAGER_SAVE_ARENA_H_

#include <cstdint>

#include "ckptdb/db/base/large_array.h"

namespace ckptdb::internal {

// Kept from one save to the next: the first touch of memory costs more than the
// copy.
class Arena {
 public:
  explicit Arena(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  uint64_t max_bytes() const { return max_bytes_; }

  // Begins anew, with room for `bytes`, at most max_bytes(); what was there is
  // gone. Null when the machine has no such memory.
  char* Reserve(uint64_t bytes);

 private:
  const uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  LargeArray<char> memory_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_ARENA_H_
