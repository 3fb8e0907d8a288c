// SPDX-License-Identifier: Apache-2.0
// Copies entries of a data file that lies elsewhere; internal to db/ and
// remote/.
#ifndef CKPTDB_DB_TRANSFER_COPY_ENTRIES_H_
#define CKPTDB_DB_TRANSFER_COPY_ENTRIES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/base/outside_files.h"

namespace ckptdb::internal {

// The entries of a stream from `from` to before `end`, and the one before
// `from`, which may have rows that belong to `from`: a page's key is the
// position of its first row.
struct KeyRange {
  std::string begin;  // of the stream
  std::string from;   // within it; the same to copy all that comes before `end`
  std::string end;
};

struct CopiedEntries {
  uint64_t entries = 0;  // 0: no file was made
  uint64_t bytes = 0;
};

// Writes the entries of `table` in these ranges, which ascend, to a table at
// `path`, which is replaced. The checksum of each block is compared. Returns
// DataLoss for damage, NotFound without the file, and other errors of reading
// and writing.
// `cancelled` may be empty.
absl::StatusOr<CopiedEntries> CopyEntries(
    const std::shared_ptr<OutsideFiles>& files, const OutsideTable& table,
    const std::vector<KeyRange>& ranges, const std::string& path,
    const std::function<bool()>& cancelled);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRANSFER_COPY_ENTRIES_H_
