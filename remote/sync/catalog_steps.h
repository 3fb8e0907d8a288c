// SPDX-License-Identifier: Apache-2.0
// Questions to a catalog, and changes of it; internal to remote/.
#ifndef CKPTDB_REMOTE_SYNC_CATALOG_STEPS_H_
#define CKPTDB_REMOTE_SYNC_CATALOG_STEPS_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "remote/layout/object_keys.h"
#include "schema/records/remote.h"
#include "schema/types.h"

namespace ckptdb::internal {

inline bool IsStep(const RemoteEntry& entry) {
  return entry.use == RemoteEntry::Use::kStep;
}

// Returns the entry of a version, or null. At most one is not dropped; of those
// that are dropped, it is the one of the newest epoch.
const RemoteEntry* FindEntry(const RemoteCatalog& catalog,
                             const Version& version);

// Returns the entry of a step, or null.
const RemoteEntry* FindStepEntry(const RemoteCatalog& catalog, int64_t step);

// Returns the most recently saved step that is not quarantined, or null.
const RemoteEntry* NewestStep(const RemoteCatalog& catalog);

// Returns the steps, the most recently saved ones first.
std::vector<const RemoteEntry*> StepsByAge(const RemoteCatalog& catalog);

// Returns the `keep` most recently saved steps that are not quarantined, and
// the quarantined ones between them, most recent first.
std::vector<const RemoteEntry*> NewestSteps(const RemoteCatalog& catalog,
                                            uint64_t keep);

// Returns the entries that these steps need, with their own, by version.
// Returns DataLoss if one is missing.
absl::StatusOr<std::vector<RemoteEntry>> NeededEntries(
    const RemoteCatalog& catalog, const std::vector<const RemoteEntry*>& steps);

// Adds an entry, or replaces the one of the same version and epoch.
void PutEntry(RemoteEntry entry, RemoteCatalog* catalog);

// Decides anew for each version that is not a step whether a step needs it, or
// whether it is dropped.
void MarkNeeded(RemoteCatalog* catalog);

// Whether a step was saved on top of a state, directly or not.
bool DescendsFrom(const StepRecord& record, const Version& state);

ObjectName NameOfVersionObject(const RemoteEntry& entry);

// The objects that a catalog names.
class NamedObjects {
 public:
  explicit NamedObjects(const RemoteCatalog& catalog);
  bool HasVersionObject(const ObjectName& name) const;
  bool HasData(const ObjectName& name) const;

 private:
  std::set<std::string> version_objects_;
  std::set<std::pair<uint64_t, Version>> data_;
};

// Returns whether a collection has dropped the step, so that it is not shipped
// again.
bool IsForgotten(const RemoteCatalog& catalog, const StepRecord& record);

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_CATALOG_STEPS_H_
