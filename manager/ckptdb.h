// All headers of ckptdb:
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
// | header | what |
// |---|---|
// | manager/checkpoint_manager.h | saves and restores of a training loop |
// | manager/model_state.h | what a rank saves and restores, and from where |
// | manager/map_table.h, manager/tables.h | adapters of a trainer's tables |
// | manager/evaluation_state.h | evaluations that go on after a crash |
// | manager/load_rule.h | what a load takes from which step; models that evolve
// | | manager/results.h | what was loaded | | manager/policies.h | when to
// save, and what to keep | | manager/coordinator.h | the communication between
// ranks | | db/store.h | the owner's handle of a store | | db/reader.h |
// reading steps, what differs between two, following a store | | db/state.h |
// the part of a rank in a save, for callers that stage it | | db/row_tracker.h
// | which rows have changed | | db/options.h | options of a store, and of its
// calls | | schema/types.h, schema/status.h | values, records; statuses |
#ifndef CKPTDB_MANAGER_CKPTDB_H_
#define CKPTDB_MANAGER_CKPTDB_H_

// IWYU pragma: begin_exports
#include "ckptdb/db/options.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/db/row_tracker.h"
#include "ckptdb/db/state.h"
#include "ckptdb/db/store.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/evaluation_state.h"
#include "ckptdb/manager/load_rule.h"
#include "ckptdb/manager/map_table.h"
#include "ckptdb/manager/model_state.h"
#include "ckptdb/manager/policies.h"
#include "ckptdb/manager/results.h"
#include "ckptdb/manager/tables.h"
#include "ckptdb/schema/status.h"
#include "ckptdb/schema/types.h"
#include "ckptdb/version.h"
// IWYU pragma: end_exports

#endif  // CKPTDB_MANAGER_CKPTDB_H_
