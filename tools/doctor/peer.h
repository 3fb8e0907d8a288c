// Another process that makes calls on the same folder when it is asked, on this
// host or on another one.
#ifndef CKPTDB_TOOLS_DOCTOR_PEER_H_
#define CKPTDB_TOOLS_DOCTOR_PEER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/tools/doctor/file_calls.h"

namespace ckptdb::tool {

// What a peer does. A request is a word, and the name of a file for most:
//
//   host          -> name of the host
//   clock         -> microseconds since 1970
//   create NAME   -> "made", or "exists": with O_EXCL
//   read NAME     -> what Digest returns of the file's bytes
//   open NAME     -> opens it and reads its first bytes, for `reread`
//   reread        -> the digest of the file that `open` opened, now closed
//   lock NAME     -> "locked", or "refused"
//   unlock        -> closes the file that `lock` locked
//   listed NAME   -> "yes" or "no"
//   time NAME     -> bytes and microseconds of reading it
//   end           -> the peer is done
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

// Returns the number of bytes and a hash of them.
std::string Digest(absl::string_view bytes);

// A status or an answer as one line, and back.
std::string EncodeAnswer(const absl::StatusOr<std::string>& answer);
absl::StatusOr<std::string> DecodeAnswer(const std::string& line);

class Peer {
 public:
  virtual ~Peer() = default;

  // The host that it is on.
  virtual const std::string& host() const = 0;
  // Returns what PeerService::Do returns there. An error that is no answer,
  // such as that the peer has gone, is Aborted.
  virtual absl::StatusOr<std::string> Ask(const std::string& request) = 0;
  // Ends the process with SIGKILL, where it can be ended from here.
  virtual bool can_be_killed() const { return false; }
  virtual void Kill() {}
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DOCTOR_PEER_H_
