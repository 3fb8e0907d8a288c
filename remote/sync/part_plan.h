// SPDX-License-Identifier: Apache-2.0
// Decides what a fetch of parts downloads of a version; internal to remote/.
#ifndef CKPTDB_REMOTE_SYNC_PART_PLAN_H_
#define CKPTDB_REMOTE_SYNC_PART_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/transfer/copy_entries.h"
#include "schema/records/records.h"
#include "schema/records/remote.h"
#include "schema/types.h"

namespace ckptdb::internal {

// The streams of one version, and which of them a fetch wants.
class PartPlan {
 public:
  // Wants all of them.
  PartPlan() = default;
  // Wants those of `parts`. Returns DataLoss for records that do not decode.
  static absl::StatusOr<PartPlan> Make(const Version& version,
                                       const RemoteVersion& records,
                                       const StoreParts& parts);

  // How much of a data file is wanted.
  enum class Share { kNone, kSome, kAll };
  Share ShareOf(const RemoteFile& file) const;
  // Returns the wanted ranges of a file, ascending.
  std::vector<KeyRange> RangesOf(const RemoteFile& file) const;
  bool Wants(absl::string_view key) const;

 private:
  struct Stream {
    KeyRange range;  // of what is wanted
    std::string end;
    bool wanted = false;
    bool all = false;  // of the stream is wanted
  };

  void AddItem(uint32_t rank, const Item& item, const StoreParts& parts);
  void AddRows(uint32_t rank, const Item& item, const StoreParts& parts);
  std::vector<const Stream*> Overlapping(const RemoteFile& file) const;

  bool all_ = true;
  std::vector<Stream> streams_;  // by begin
};

// Returns InvalidArgument with the first of `parts` that nothing of the step
// matches, so that a mistyped name is no empty store.
absl::Status CheckPartsExist(const StoreParts& parts,
                             const std::vector<std::string>& rank_records);

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_PART_PLAN_H_
