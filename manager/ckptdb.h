// SPDX-License-Identifier: Apache-2.0
// All public headers of ckptdb; those in folders named `internal` are not for
// users.
//
//   #include <ckptdb/ckptdb.h>
//
// Training loops start with manager/checkpoint_manager.h,
// manager/model_state.h and manager/tables.h; users of the store alone
// start with db/store.h, db/state.h and db/reader.h.
#ifndef CKPTDB_MANAGER_CKPTDB_H_
#define CKPTDB_MANAGER_CKPTDB_H_

// IWYU pragma: begin_exports
#include "ckptdb/version.h"
#include "db/backup.h"
#include "db/options.h"
#include "db/reader.h"
#include "db/row_tracker.h"
#include "db/state.h"
#include "db/store.h"
#include "manager/checkpoint_manager.h"
#include "manager/coordinator.h"
#include "manager/evaluation_state.h"
#include "manager/load_rule.h"
#include "manager/manager_options.h"
#include "manager/map_table.h"
#include "manager/model_state.h"
#include "manager/policies.h"
#include "manager/results.h"
#include "manager/tables.h"
#include "schema/status.h"
#include "schema/types.h"
// IWYU pragma: end_exports

#endif  // CKPTDB_MANAGER_CKPTDB_H_
