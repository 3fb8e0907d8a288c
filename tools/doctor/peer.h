// SPDX-License-Identifier: Apache-2.0
// Another process, on this or another host, that makes calls on the same folder
// on request.
#ifndef CKPTDB_TOOLS_DOCTOR_PEER_H_
#define CKPTDB_TOOLS_DOCTOR_PEER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/doctor/file_calls.h"

namespace ckptdb::tool {

// The requests of a peer: a word, usually followed by a file name.
//
//   host          -> name of the host
//   clock         -> microseconds since 1970
//   create NAME   -> "made", or "exists": with O_EXCL
//   read NAME     -> Digest of the file's bytes
//   open NAME     -> opens it and reads its first bytes, for `reread`
//   reread        -> the digest of the file that `open` opened, now closed
//   lock NAME     -> "locked", or "refused"
//   unlock        -> closes the file that `lock` locked
//   listed NAME   -> "yes" or "no"
//   time NAME     -> the file's size, and the microseconds to read it
//   end           -> the peer exits
class PeerService {
 public:
  explicit PeerService(FileCalls* files) : files_(files) {}

  absl::StatusOr<std::string> Do(const std::string& request);

 private:
  absl::StatusOr<std::string> Create(const std::string& name);
  absl::StatusOr<std::string> OpenForLater(const std::string& name);
  absl::StatusOr<std::string> Reread();
  absl::StatusOr<std::string> Lock(const std::string& name);
  absl::StatusOr<std::string> IsListed(const std::string& name);
  absl::StatusOr<std::string> Time(const std::string& name);

  FileCalls* const files_;
  OpenFile open_;
  OpenFile locked_;
};

// Returns the number of bytes and their hash.
std::string Digest(absl::string_view bytes);

// Encode a status or an answer as one line, and decode it.
std::string EncodeAnswer(const absl::StatusOr<std::string>& answer);
absl::StatusOr<std::string> DecodeAnswer(const std::string& line);

class Peer {
 public:
  virtual ~Peer() = default;

  // The peer's host.
  virtual const std::string& host() const = 0;
  // Returns the peer's PeerService::Do result. Returns Aborted if the peer does
  // not answer, for example because it has exited.
  virtual absl::StatusOr<std::string> Ask(const std::string& request) = 0;
  // Kills the process with SIGKILL, if it is on this host.
  virtual bool can_be_killed() const { return false; }
  virtual void Kill() {}
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DOCTOR_PEER_H_
