// SPDX-License-Identifier: Apache-2.0
// Checks whether a service can hold a store's steps, and names the remedies.
//
//   CKPTDB_ASSIGN_OR_RETURN(const auto checks, CheckRemote("s3://models/ctr"));
//   for (const RemoteCheck& check : checks) {
//     std::cout << check.name << ": " << check.observed << "\n";
//   }
#ifndef CKPTDB_REMOTE_CHECK_REMOTE_H_
#define CKPTDB_REMOTE_CHECK_REMOTE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "remote/object_store.h"

namespace ckptdb {

struct RemoteCheck {
  enum class Result {
    kOk,
    kMissing,  // a remote works without it; `remedy` says at what cost
    kUnsafe,   // a push or a fetch fails, or steps may be lost
  };
  std::string name;  // such as "conditional_put"
  Result result = Result::kOk;
  std::string observed;
  std::string remedy;  // empty for kOk
};

struct CheckRemoteOptions {
  RemoteOptions remote = {.deadline = absl::Seconds(15)};
  // Size of the object that is put and read to measure the speed. 0: none.
  uint64_t speed_bytes = uint64_t{1} << 20;
};

// Checks credentials, which are never returned, the service, the bucket or the
// folder, the calls of ObjectStore, the service's clock, its speed, and what
// the remote contains. Puts objects below "probe/" and deletes them, even when
// cancelled. Skips checks whose failure an earlier one explains.
//
// Returns InvalidArgument for a URL that is not valid, NotFound for a folder
// that does not exist, Unimplemented for s3:// without libcurl, and Cancelled.
absl::StatusOr<std::vector<RemoteCheck>> CheckRemote(
    absl::string_view url, const CheckRemoteOptions& options = {});

}  // namespace ckptdb

#endif  // CKPTDB_REMOTE_CHECK_REMOTE_H_
