// Copies of memory that nobody reads soon: rows that a RowSink puts into its
// table, say.
//
//   BulkCopy(to.data(), from.data(), from.size());
//
// An ordinary write first reads the line of memory that it changes. Where what
// is copied is not in the processor's cache that is a third of all traffic
// between processor and memory, and it puts out of the cache what is needed
// there. Streaming stores (SSE2) do neither.
#ifndef CKPTDB_SCHEMA_BULK_COPY_H_
#define CKPTDB_SCHEMA_BULK_COPY_H_

#include <cstdint>

namespace ckptdb {

// As memcpy: `bytes` bytes that do not overlap, of any alignment. What is
// written is seen by whoever sees that the call has returned. Few bytes, and
// processors without such stores, are left to memcpy.
void BulkCopy(void* to, const void* from, uint64_t bytes);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_BULK_COPY_H_
