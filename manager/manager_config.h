// Options of a manager from JSON, for configuration files.
//
//   ManagerOptions options;
//   options.path = "checkpoints";
//   CKPTDB_RETURN_IF_ERROR(ReadManagerConfig(R"({
//     "permanent": {"any": [{"every_steps": 1000}, "preemption"]},
//     "ephemeral": {"every_seconds": 300},
//     "keep": {"any": [{"latest": 3}, {"best": {"metric": "auc"}}]},
//     "busy": "coalesce"
//   })", &options));
//
// Keys are the names of ManagerOptions, and of what is in its schedule and its
// retention; times are seconds:
//
//   path, read_only, saving, permanent, ephemeral, ephemeral_cooldown_steps,
//   keep, keep_ephemeral, removal, best, deltas, audit_deltas, base_every,
//   max_deltas, max_delta_ratio, abandoned, user_metadata, store_metadata,
//   async, arena_bytes, copy_threads, busy, tolerated_failures,
//   retry_after_steps, warn_waiting, first_save, preemption_grace, deadline,
//   poll_every, io_state_resize, sharding, statistics_path, background_sweep,
//   background_fold
//
// permanent, ephemeral: "initial", "preemption", {"every_steps": N},
// {"at_or_after_every_steps": N}, {"steps": [N, ...]}, {"every_seconds": S},
// {"continuous": S}, or of these {"any": [...]}, {"all": [...]}, {"not": ...}.
//
// keep: "all", {"latest": N}, {"latest_of": {"count": N, "policy": ...}},
// {"steps": [N, ...]}, {"every_steps": N},
// {"nearest_to_every_steps": N}, {"every_seconds": S}, {"best": {"metric":
// NAME, "count": N, "better": "max" or "min", "keep_without_metric": true or
// false}},
// {"time_to_live": S}, or any, all and not of these.
//
// Names of enumerators are "wait", "skip", "coalesce", "fail" (busy); "keep",
// "remove" (abandoned); "never", "ephemeral_only", "all_non_permanent"
// (removal); "unless_restored", "always", "never" (first_save); "error",
// "redistribute", "owners", "reset" (io_state_resize); "slices", with even
// bounds, "modulo", "replicated" (sharding).
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
