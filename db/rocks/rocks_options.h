// SPDX-License-Identifier: Apache-2.0
// The options of RocksDB; internal to db/. docs/rocksdb.md gives the reasons.
#ifndef CKPTDB_DB_ROCKS_ROCKS_OPTIONS_H_
#define CKPTDB_DB_ROCKS_ROCKS_OPTIONS_H_

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace ckptdb::internal {

// Column families, in the order in which they are opened.
enum class Family : size_t { kDefault = 0, kMeta = 1, kInline = 2, kBulk = 3 };
inline constexpr size_t kFamilies = 4;

rocksdb::DBOptions DatabaseOptions(rocksdb::Env* env);
std::vector<rocksdb::ColumnFamilyDescriptor> FamilyDescriptors();
// Returns whether the family of this name holds rows, tensors and blobs. Damage
// in it affects only some steps.
bool HoldsData(const std::string& family);

// Returns the options of the files that a stager writes. Files with small
// entries have small blocks.
rocksdb::Options FileWriterOptions(rocksdb::Env* env,
                                   bool small_entries = false);

// Returns the options of one scan from `begin` to before `end`, which must
// outlive the iterator. A null `end` is the end of the family.
rocksdb::ReadOptions PassOptions(const rocksdb::Slice* begin,
                                 const rocksdb::Slice* end);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_ROCKS_OPTIONS_H_
