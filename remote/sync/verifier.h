// SPDX-License-Identifier: Apache-2.0
// Checks the objects of a remote; internal to remote/.
#ifndef CKPTDB_REMOTE_SYNC_VERIFIER_H_
#define CKPTDB_REMOTE_SYNC_VERIFIER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/base/mutex.h"
#include "remote/object_store.h"
#include "remote/remote_store.h"
#include "schema/records/remote.h"
#include "schema/types.h"

namespace ckptdb::internal {

// One check of one catalog. Used by one thread.
class Verifier {
 public:
  Verifier(ObjectStore* remote, const VerifyRemoteOptions* options)
      : remote_(remote), options_(options) {}

  absl::StatusOr<VerifyRemoteResult> Verify(const RemoteCatalog& catalog);

 private:
  struct DataObject {
    std::string key;
    Version version;
    RemoteFile file;
  };

  absl::Status CheckVersions(const std::vector<RemoteEntry>& entries,
                             std::vector<DataObject>* data);
  absl::Status CheckData(const DataObject& object);
  absl::Status CheckBytes(const DataObject& object);
  // Notes what is wrong with an object; returns other errors.
  absl::Status Note(const std::string& key, const Version& version,
                    const absl::Status& status);
  void Report(uint64_t bytes);

  ObjectStore* const remote_;
  const VerifyRemoteOptions* const options_;
  std::map<Version, std::set<int64_t>> steps_of_;
  uint64_t all_bytes_ = 0;
  Mutex mutex_;
  VerifyRemoteResult result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_VERIFIER_H_
