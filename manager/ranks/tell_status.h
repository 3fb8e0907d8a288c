// SPDX-License-Identifier: Apache-2.0
// Sends the outcome of a gathering to all ranks; internal to manager/.
#ifndef CKPTDB_MANAGER_RANKS_TELL_STATUS_H_
#define CKPTDB_MANAGER_RANKS_TELL_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "manager/coordinator.h"

namespace ckptdb::internal {

// All ranks call it after a Gather with the same deadline. Returns the owner's
// `status`, or the error of the Coordinator::Tell that sends it.
absl::Status TellStatus(Coordinator* ranks, absl::string_view tag,
                        const absl::Status& status, absl::Duration deadline);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_TELL_STATUS_H_
