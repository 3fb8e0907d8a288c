// SPDX-License-Identifier: Apache-2.0
// Peers on other hosts, which receive requests through files in a folder that
// all of them see. Each file is written under a temporary name, synced and
// renamed, and none is written twice, so stale files do no harm.
#ifndef CKPTDB_TOOLS_DOCTOR_HOST_PEER_H_
#define CKPTDB_TOOLS_DOCTOR_HOST_PEER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/doctor/peer.h"

namespace ckptdb::tool {

// How long a process waits for a file from another one.
struct Patience {
  absl::Duration to_join = absl::Minutes(1);
  absl::Duration to_answer = absl::Minutes(1);
  // The time in which the other hosts are asked.
  absl::Duration for_a_turn = absl::Minutes(10);
};

// Waits until `count` other processes have joined. Returns DeadlineExceeded
// with the number that did.
absl::StatusOr<std::vector<std::unique_ptr<Peer>>> WaitForHosts(
    FileCalls* files, size_t count, const Patience& patience);

// Joins, and serves the requests of the leading process until it asks to end.
// Returns Aborted if the folder is removed before.
absl::Status ServeAsHost(FileCalls* files, const Patience& patience);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DOCTOR_HOST_PEER_H_
