// SPDX-License-Identifier: Apache-2.0
// Blocks of a table that hold entries of one version only; internal to db/.
//
// Compactions merge small saves into one table. If versions shared a block,
// damage in it would affect all of them, and also a version saved later whose
// keys lie next to the block.
#ifndef CKPTDB_DB_ROCKS_VERSION_BLOCKS_H_
#define CKPTDB_DB_ROCKS_VERSION_BLOCKS_H_

#include <rocksdb/table.h>

namespace ckptdb::internal {

// Ends a block at its size, and also where the next key is of another version.
// The index has the first and last key of each block, so a forward scan with
// bounds reads no block of another version. SeekForPrev still does.
void SeparateVersions(rocksdb::BlockBasedTableOptions* table);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_VERSION_BLOCKS_H_
