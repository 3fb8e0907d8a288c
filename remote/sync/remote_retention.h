// SPDX-License-Identifier: Apache-2.0
// Applies a retention policy to the steps of a remote; internal to remote/.
#ifndef CKPTDB_REMOTE_SYNC_REMOTE_RETENTION_H_
#define CKPTDB_REMOTE_SYNC_REMOTE_RETENTION_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "manager/policies.h"
#include "remote/object_store.h"
#include "schema/records/remote.h"
#include "schema/types.h"

namespace ckptdb::internal {

// The step records that were read, by the key of their version object, whose
// bytes never change.
using StepRecordCache = std::map<std::string, StepRecord>;

// Returns the step record of an entry. Returns DataLoss, naming the version
// object, if that is missing or damaged.
absl::StatusOr<StepRecord> ReadStepRecord(ObjectStore* remote,
                                          const RemoteEntry& entry);

// Returns the step records of a catalog's steps, by step. Reads the version
// objects of those that the cache lacks, and drops records of other steps from
// it. Returns DataLoss naming an object that is missing or damaged.
absl::StatusOr<std::vector<StepRecord>> ReadStepRecords(
    ObjectStore* remote, const RemoteCatalog& catalog, StepRecordCache* cache);

// Returns the versions that the retention does not keep, as a commit of the
// newest step would decide. Quarantined steps stay.
std::set<Version> VersionsToDrop(const RetentionOptions& retention,
                                 const std::vector<StepRecord>& steps,
                                 int64_t now_micros);

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_REMOTE_RETENTION_H_
