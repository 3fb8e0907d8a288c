// Options of a manager from JSON, for configuration files.
//
//   ManagerOptions options{.path = "checkpoints"};
//   CKPTDB_RETURN_IF_ERROR(ReadManagerConfig(R"({
//     "permanent": {"any": [{"save_every_n_steps": 1000},
//     "save_on_preemption"]}, "ephemeral": {"save_every_n_seconds": 300},
//     "keep": {"any": [{"latest_n": 3}, {"best_n": {"metric": "auc"}}]},
//     "busy": "coalesce"
//   })", &options));
//
// Keys are the names of ManagerOptions, and of what is in its schedule and its
// retention; policies have the names of the functions of manager/policies.h in
// lower case. docs/manager.md has a table of all of them, with types, defaults
// and bounds.
#ifndef CKPTDB_MANAGER_MANAGER_CONFIG_H_
#define CKPTDB_MANAGER_MANAGER_CONFIG_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ckptdb/manager/checkpoint_manager.h"

namespace ckptdb {

// Sets the options that `json` names, and leaves the others. InvalidArgument
// with the place, the value, line and column for what cannot be, and with the
// nearest key for one that there is not; the options are as they were then.
absl::Status ReadManagerConfig(absl::string_view json, ManagerOptions* options);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_MANAGER_CONFIG_H_
