// A peer in a process of its own on this host.
#ifndef CKPTDB_TOOLS_DOCTOR_PROCESS_PEER_H_
#define CKPTDB_TOOLS_DOCTOR_PROCESS_PEER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ckptdb/tools/doctor/peer.h"

namespace ckptdb::tool {

// Forks: to be called by a process of one thread. The process ends with the
// peer.
absl::StatusOr<std::unique_ptr<Peer>> StartProcessPeer(FileCalls* files);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DOCTOR_PROCESS_PEER_H_
