// SPDX-License-Identifier: Apache-2.0
// Pools the memory of the blocks that RocksDB reads; internal to db/.
//
// A scan allocates and frees a block of 256 KiB or more for each page. The C
// library returns such memory to the system each time, and allocates it again
// with a page fault every 4 KiB. A pool keeps some of it.
#ifndef CKPTDB_DB_QUIRKS_BLOCK_POOL_H_
#define CKPTDB_DB_QUIRKS_BLOCK_POOL_H_

#include <memory>

namespace rocksdb {
class Cache;
}

namespace ckptdb::internal {

// Returns a block cache that holds only blocks that are being read. Their
// memory is lent by the window in use (read_window.h), or pooled for the whole
// process, which keeps at most 32 MiB when idle. Each database needs a separate
// cache: RocksDB cannot tell the blocks of a store from those of its copy, and
// would miss damage in one of them.
std::shared_ptr<rocksdb::Cache> PooledBlocks();

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_BLOCK_POOL_H_
