// SPDX-License-Identifier: Apache-2.0
// Ships the steps of a store: the owner's side of the protocol; internal to
// remote/.
#ifndef CKPTDB_REMOTE_SYNC_SHIPPER_H_
#define CKPTDB_REMOTE_SYNC_SHIPPER_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/base/mutex.h"
#include "db/transfer/version_source.h"
#include "remote/layout/object_keys.h"
#include "remote/object_store.h"
#include "remote/remote_store.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/continuation.h"
#include "schema/records/records.h"
#include "schema/records/remote.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Pushes of one store, which stays the remote's owner between them. Used by one
// thread.
class Shipper {
 public:
  // Both must outlive this object.
  Shipper(ObjectStore* remote, const PushOptions* options)
      : remote_(remote), options_(options) {}

  // Ships what the source has and the remote lacks. After an error, the next
  // call begins as a new owner.
  absl::StatusOr<PushResult> Push(const VersionSource& source);

  // The bytes of data objects that this push has uploaded, for
  // PushOptions::on_step.
  uint64_t data_bytes() const { return result_.data_bytes; }

 private:
  // The remote before this object becomes its owner.
  struct Work {
    std::optional<RemoteCatalog> base;  // none for a new remote
    bool take_over = false;             // some of it is replaced
    bool nothing = false;               // to ship
  };

  absl::Status Attach();
  absl::StatusOr<Work> FindWork() const;
  absl::Status ShipSteps(const std::vector<StepRecord>& steps);
  absl::Status PutFormat() const;
  StoreAndRemote compared() const { return {*source_, remote_->Name()}; }
  RootRecord RootOver(uint32_t next_attempt) const;
  absl::Status BecomeOwner(const Work& work);
  void DropUnknown(RemoteCatalog* catalog) const;

  absl::Status ShipStep(const StepRecord& record);
  absl::Status BringVersion(const StepRecord& record);
  absl::StatusOr<bool> HasFiles(const RemoteEntry& entry);
  absl::StatusOr<bool> CompareFiles(const std::vector<VersionFile>& own,
                                    const RemoteEntry& entry) const;
  absl::Status UploadVersion(const StepRecord& record);
  absl::StatusOr<std::vector<RemoteFile>> UploadFiles(
      const Version& version, const std::vector<VersionFile>& files);
  absl::Status UploadFile(const ObjectName& name, const VersionFile& file,
                          RemoteFile* uploaded);
  static absl::StatusOr<std::string> WithMetricsOf(const std::string& shipped,
                                                   const std::string& record);
  absl::Status ReviseVersion(const StepRecord& record, RemoteEntry entry,
                             uint64_t record_hash);
  absl::Status PutVersionObject(const RemoteVersion& version,
                                RemoteEntry* entry);

  absl::Status Commit(const StepRecord& record);
  RemoteCatalog WithStep(const StepRecord& record) const;
  absl::Status Rebase(const StepRecord& record);
  absl::Status CheckPending(const RemoteCatalog& newest) const;
  absl::Status DeletedMeanwhile(const Version& version) const;

  absl::Status Hit(absl::string_view point) const;

  ObjectStore* const remote_;
  const PushOptions* const options_;
  const VersionSource* source_ = nullptr;  // of the current push
  bool owned_ = false;                     // catalog_ has this owner
  RemoteCatalog catalog_;                  // the newest one known
  Base base_ = Base::kRead;                // of catalog_
  // Versions with the epochs of their objects, which have at least the data
  // files that the store has.
  std::set<std::pair<Version, uint64_t>> compared_files_;
  // Entries and objects that no catalog names yet.
  std::vector<RemoteEntry> pending_;
  mutable Mutex mutex_;  // of the threads that upload files
  std::vector<std::string> pending_keys_ ABSL_GUARDED_BY(mutex_);
  PushResult result_;
  uint64_t done_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t all_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_SHIPPER_H_
