// The least and the greatest key of a file of small saves; internal to db/.
//
// RocksDB looks into every file of level 0 that has not ended before the key
// sought, also those that begin after the end of the pass. Damage in one would
// then be met by passes over any older step. Files therefore note their bounds
// as a property, and a pass leaves out those that have nothing of it.
#ifndef CKPTDB_DB_QUIRKS_FILE_BOUNDS_H_
#define CKPTDB_DB_QUIRKS_FILE_BOUNDS_H_

#include <rocksdb/options.h>
#include <rocksdb/slice.h>
#include <rocksdb/table_properties.h>

#include <memory>

namespace ckptdb::internal {

// Goes into the options of a family, whose files then note the least and the
// greatest key of their entries and deletions.
std::shared_ptr<rocksdb::TablePropertiesCollectorFactory> NotesBounds();

// Has a pass from `begin` to before `end` leave out the files whose bounds say
// that they have nothing of it. A file without bounds is read. `begin` and
// `end`, which may be null, must outlive the iterator.
void SetPassBounds(const rocksdb::Slice* begin, const rocksdb::Slice* end,
                   rocksdb::ReadOptions* read);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_FILE_BOUNDS_H_
