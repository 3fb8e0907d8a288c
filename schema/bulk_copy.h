// BulkCopy copies memory that is not read again soon, such as rows that a
// RowSink puts into its table.
//
//   BulkCopy(to.data(), from.data(), from.size());
//
// An ordinary store first reads the cache line that it changes. For memory that
// is not cached that is a third of the traffic between processor and memory,
// and it evicts lines that are still needed. Streaming stores (SSE2) do
// neither.
#ifndef CKPTDB_SCHEMA_BULK_COPY_H_
#define CKPTDB_SCHEMA_BULK_COPY_H_

#include <cstdint>

namespace ckptdb {

// Copies `bytes` bytes as memcpy does: the ranges do not overlap and may have
// any alignment. A thread that sees the call return sees what it wrote. Small
// copies, and processors without streaming stores, use memcpy.
void BulkCopy(void* to, const void* from, uint64_t bytes);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_BULK_COPY_H_
