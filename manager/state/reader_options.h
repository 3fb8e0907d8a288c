// SPDX-License-Identifier: Apache-2.0
// The options with which a manager reads stores; internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_READER_OPTIONS_H_
#define CKPTDB_MANAGER_STATE_READER_OPTIONS_H_

#include "db/reader.h"
#include "manager/manager_options.h"

namespace ckptdb::internal {

// Returns the options for a Reader of the manager's own store, or of another
// store to restore from: those of its Store.
inline StoreOptions ReaderOptionsOf(const ManagerOptions& options) {
  StoreOptions reader;
  reader.direct_reads = options.store.direct_reads;
  reader.environment = options.store.environment;
  return reader;
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_READER_OPTIONS_H_
