// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/remote_retention.h"

#include <algorithm>
#include <utility>

#include "manager/policy/retention.h"
#include "manager/policy/step_info.h"
#include "remote/layout/object_keys.h"
#include "remote/sync/catalog_steps.h"
#include "remote/sync/version_object.h"
#include "schema/bytes/annotate.h"
#include "schema/records/branches.h"
#include "schema/records/records.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns the most recently saved step that is not quarantined, or null.
const StepRecord* NewestRecord(const std::vector<StepRecord>& steps) {
  const StepRecord* newest = nullptr;
  for (const StepRecord& step : steps) {
    if (step.quarantined) continue;
    if (newest == nullptr || StateOf(*newest).attempt < StateOf(step).attempt) {
      newest = &step;
    }
  }
  return newest;
}

}  // namespace

absl::StatusOr<StepRecord> ReadStepRecord(ObjectStore* remote,
                                          const RemoteEntry& entry) {
  absl::StatusOr<RemoteVersion> version = ReadVersionObject(remote, entry);
  if (absl::IsNotFound(version.status())) {
    return absl::DataLossError(version.status().message());
  }
  CKPTDB_RETURN_IF_ERROR(version.status());
  absl::StatusOr<StepRecord> record = DecodeStepRecord(version->step_record);
  CKPTDB_RETURN_IF_ERROR(
      Annotate(record.status(), VersionObjectKey(NameOfVersionObject(entry))));
  return record;
}

absl::StatusOr<std::vector<StepRecord>> ReadStepRecords(
    ObjectStore* remote, const RemoteCatalog& catalog, StepRecordCache* cache) {
  StepRecordCache current;
  std::vector<StepRecord> steps;
  for (const RemoteEntry& entry : catalog.entries) {
    if (!IsStep(entry)) continue;
    const std::string key = VersionObjectKey(NameOfVersionObject(entry));
    const auto known = cache->find(key);
    if (known == cache->end()) {
      CKPTDB_ASSIGN_OR_RETURN(current[key], ReadStepRecord(remote, entry));
    } else {
      current[key] = known->second;
    }
    steps.push_back(current[key]);
  }
  *cache = std::move(current);
  return steps;
}

std::set<Version> VersionsToDrop(const RetentionOptions& retention,
                                 const std::vector<StepRecord>& steps,
                                 int64_t now_micros) {
  std::set<Version> dropped;
  const StepRecord* const newest = NewestRecord(steps);
  if (newest == nullptr) return dropped;
  RetentionState state;
  state.newest = newest->version.step;
  state.now_micros = now_micros;
  std::map<int64_t, Version> versions;
  for (const StepRecord& step : steps) {
    if (step.quarantined) continue;
    const int64_t number = step.version.step;
    state.steps.push_back(StepInfoOf(step));
    versions[number] = step.version;
    if (step.pinned) state.held[number] = "pinned";
    if (number > state.newest ||
        (number < state.newest &&
         !IsOnLineage(step.branches.back(), newest->branches))) {
      state.others.insert(number);
    }
  }
  for (const RetentionDecision& decision : PlanRemoval(retention, state)) {
    dropped.insert(versions.at(decision.step));
  }
  return dropped;
}

}  // namespace ckptdb::internal
