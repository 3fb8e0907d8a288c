// SPDX-License-Identifier: Apache-2.0
// Records the least and the greatest key of each file of small saves; internal
// to db/.
//
// RocksDB searches every file of level 0 that does not end before the sought
// key, even files that begin after the end of the scan. Damage in one would
// then affect scans of any older step. So files record their bounds as a
// property, and a scan skips those without keys in its range.
#ifndef CKPTDB_DB_QUIRKS_FILE_BOUNDS_H_
#define CKPTDB_DB_QUIRKS_FILE_BOUNDS_H_

#include <rocksdb/options.h>
#include <rocksdb/slice.h>
#include <rocksdb/table_properties.h>

#include <memory>

namespace ckptdb::internal {

// For the options of a family, whose files then record the least and the
// greatest key of their entries and deletions.
std::shared_ptr<rocksdb::TablePropertiesCollectorFactory>
NewBoundsCollectorFactory();

// Makes a scan from `begin` to before `end` skip files whose bounds do not
// overlap it. A file without bounds is read. `begin` and `end`, which may be
// null, must outlive the iterator.
void SetPassBounds(const rocksdb::Slice* begin, const rocksdb::Slice* end,
                   rocksdb::ReadOptions* read);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_FILE_BOUNDS_H_
