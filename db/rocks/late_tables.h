// Opening a database some of whose tables are damaged or gone; internal to db/.
//
// RocksDB opens every table with the database, and does not open the database
// when one of them is damaged, cut or not there: one bad file of one old step,
// and no step can be read. It can also open each table when it is first read.
// Then only the steps that need a bad table are lost, with an error that names
// it, and go with it when they are deleted.
#ifndef CKPTDB_DB_ROCKS_LATE_TABLES_H_
#define CKPTDB_DB_ROCKS_LATE_TABLES_H_

#include <rocksdb/options.h>

#include <set>
#include <string>

#include "absl/status/status.h"

namespace ckptdb::internal {

// The names of tables, such as "000012.sst".
using BadTables = std::set<std::string>;

// Adds what tables an opening that failed has named. Whether there is one that
// was not known, so that another try may do.
bool AddBadTables(const absl::Status& opened, BadTables* bad);

// Tables are opened when they are first read; their sizes are not looked at.
void OpenTablesLate(rocksdb::DBOptions* options);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_LATE_TABLES_H_
