// SPDX-License-Identifier: Apache-2.0
// A peer in a separate process on this host.
#ifndef CKPTDB_TOOLS_DOCTOR_PROCESS_PEER_H_
#define CKPTDB_TOOLS_DOCTOR_PROCESS_PEER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tools/doctor/peer.h"

namespace ckptdb::tool {

// Forks, so the calling process must have only one thread. The child exits when
// the peer is destroyed.
absl::StatusOr<std::unique_ptr<Peer>> StartProcessPeer(FileCalls* files);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DOCTOR_PROCESS_PEER_H_
