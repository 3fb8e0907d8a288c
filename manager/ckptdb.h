// SPDX-License-Identifier: Apache-2.0
// All public headers of ckptdb. Headers in folders named `internal` are
// installed beside them and are not for users.
//
//   #include <ckptdb/ckptdb.h>
//
//   ckptdb::MapTable users(&rows, {ckptdb::Field("embedding", &Row::values)});
//   ckptdb::ModelState model;
//   CKPTDB_RETURN_IF_ERROR(model.AddTable("user", &users));
//   CKPTDB_ASSIGN_OR_RETURN(
//       auto manager,
//       ckptdb::CheckpointManager::Open({.path = "checkpoints"}, &model));
//
// For a training loop: manager/checkpoint_manager.h, manager/manager_options.h,
// manager/results.h, manager/model_state.h, manager/tables.h,
// manager/map_table.h, manager/policies.h, manager/load_rule.h,
// manager/evaluation_state.h and manager/coordinator.h.
// For a store: db/store.h, db/reader.h, db/state.h, db/row_tracker.h and
// db/options.h. Values, records and statuses: schema/types.h, schema/status.h.
#ifndef CKPTDB_MANAGER_CKPTDB_H_
#define CKPTDB_MANAGER_CKPTDB_H_

// IWYU pragma: begin_exports
#include "ckptdb/version.h"
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
