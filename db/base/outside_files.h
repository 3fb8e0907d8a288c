// SPDX-License-Identifier: Apache-2.0
// Data files of a store that lie elsewhere, such as in an object store;
// internal to the library.
#ifndef CKPTDB_DB_BASE_OUTSIDE_FILES_H_
#define CKPTDB_DB_BASE_OUTSIDE_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace ckptdb::internal {

// A table of bulk with data of one version.
struct OutsideTable {
  std::string name;  // for OutsideFiles and errors
  uint64_t bytes = 0;
  std::string first_key;
  std::string last_key;
};

// Thread-safe.
class OutsideFiles {
 public:
  virtual ~OutsideFiles() = default;

  // Reads `out.size()` bytes at `offset`, all of which lie in the table.
  // Returns NotFound if the table no longer exists.
  virtual absl::Status Read(const OutsideTable& table, uint64_t offset,
                            absl::Span<char> out) = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_OUTSIDE_FILES_H_
