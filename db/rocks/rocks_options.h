// How RocksDB is set up; internal to db/. docs/design.md says why.
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
// Whether the family of this name is of rows, tensors and blobs: damage in it
// is of some steps alone.
bool HoldsData(const std::string& family);

// Of the files that a stager writes.
rocksdb::Options FileWriterOptions(rocksdb::Env* env);

// Of one pass over the entries from `begin` to before `end`, which must outlive
// the iterator; a null `end` is that of the family.
rocksdb::ReadOptions PassOptions(const rocksdb::Slice* begin,
                                 const rocksdb::Slice* end);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_ROCKS_OPTIONS_H_
