// Which SST files of a database are opened with it, and how it is opened when
// some of them are damaged or missing; internal to db/.
//
// By default RocksDB opens every table with the database, and does not open the
// database when one of them is damaged, cut or missing: one corrupt file of one
// old step would cost all steps. It can also open each table when it is first
// read. Then only the steps that need a corrupt table are lost, with an error
// that names the file, and the damage goes with them when they are deleted.
#ifndef CKPTDB_DB_QUIRKS_LAZY_TABLES_H_
#define CKPTDB_DB_QUIRKS_LAZY_TABLES_H_

#include <rocksdb/options.h>

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"

namespace ckptdb::internal {

// The names of SST files that are damaged or missing, such as "000012.sst".
using CorruptTables = std::set<std::string>;

// Adds the tables that the error of an opening names. Returns whether one of
// them was not known before, so that another opening may succeed.
bool AddCorruptTables(const absl::Status& opened, CorruptTables* corrupt);

// Has tables be opened when they are first read, without a look at their sizes
// before. The caller raises `max_open_files` again once the database is open.
void OpenTablesLazily(rocksdb::DBOptions* options);

// Has RocksDB keep the readers of at most so many tables in memory. Only some
// are opened with the database, the others when they are read.
void BoundTables(uint64_t most_tables, rocksdb::DBOptions* options);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_LAZY_TABLES_H_
