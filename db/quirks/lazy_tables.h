// SPDX-License-Identifier: Apache-2.0
// Decides which SST files are opened with a database, and how to open it if
// some of them are damaged or missing; internal to db/.
//
// By default RocksDB opens every table with the database, and fails if one is
// damaged, truncated or missing: one corrupt file of one old step would cost
// all steps. It can also open each table when it is first read. Then only the
// steps that need a corrupt table are lost, with an error that names the file,
// and deleting them removes the damage.
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

// Adds the tables that an open error names. Returns whether any of them is new,
// so that another attempt may succeed.
bool AddCorruptTables(const absl::Status& opened, CorruptTables* corrupt);

// Opens tables when they are first read, without checking their sizes in
// advance. The caller raises `max_open_files` again once the database is open.
void OpenTablesLazily(rocksdb::DBOptions* options);

// Limits how many table readers RocksDB keeps in memory. Only some tables are
// opened with the database, the others when they are read.
void BoundTables(uint64_t most_tables, rocksdb::DBOptions* options);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_LAZY_TABLES_H_
