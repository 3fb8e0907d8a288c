// SPDX-License-Identifier: Apache-2.0
#include "db/transfer/version_records.h"

#include <algorithm>

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "db/disk/rocks_status.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/page.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

absl::Status Contradiction(const Version& version, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("the records of ", ToString(version), " ", what));
}

absl::Status PutEntry(const Database& database, Family family,
                      const std::string& key, absl::string_view value,
                      ChangeBatch* batch) {
  return FromRocks(batch->Put(database.family(family), key, ToSlice(value)),
                   "adding a record");
}

absl::Status DeleteEntry(const Database& database, Family family,
                         absl::string_view key, ChangeBatch* batch) {
  return FromRocks(batch->Delete(database.family(family), ToSlice(key)),
                   "deleting a record");
}

absl::Status DeleteEntries(const Database& database, Family family,
                           const std::string& prefix, ChangeBatch* batch) {
  return database.ForEach(
      family, prefix, [&](absl::string_view key, absl::string_view /*value*/) {
        return DeleteEntry(database, family, key, batch);
      });
}

}  // namespace

absl::StatusOr<StepRecord> CheckedRecord(const Version& version,
                                         const RemoteVersion& records) {
  CKPTDB_ASSIGN_OR_RETURN(StepRecord record,
                          DecodeStepRecord(records.step_record));
  if (record.version != version) {
    return Contradiction(version,
                         absl::StrCat("name ", ToString(record.version)));
  }
  if (records.rank_records.size() != record.world_size) {
    return Contradiction(version,
                         absl::StrCat("have ", records.rank_records.size(),
                                      " ranks, expected ", record.world_size));
  }
  for (uint32_t rank = 0; rank < record.world_size; ++rank) {
    if (HashBytes(records.rank_records[rank]) == record.rank_digests[rank]) {
      continue;
    }
    return Contradiction(version,
                         absl::StrCat("have a wrong hash of rank ", rank));
  }
  for (const auto& [key, value] : records.inline_entries) {
    if (absl::StartsWith(key, VersionPrefix(version))) continue;
    return Contradiction(version, "have an entry of another version");
  }
  for (const auto& [key, value] : records.evaluations) {
    if (absl::StartsWith(key, EvaluationKeyPrefix(version))) continue;
    return Contradiction(version, "have an evaluation of another version");
  }
  return record;
}

absl::Status PutVersion(const Database& database, const StepRecord& record,
                        const RemoteVersion& records, bool is_step,
                        ChangeBatch* batch) {
  const Version& version = record.version;
  const auto put = [&](Family family, const std::string& key,
                       absl::string_view value) {
    return PutEntry(database, family, key, value, batch);
  };
  AttemptRecord attempt;
  attempt.version = version;
  attempt.state = is_step ? AttemptState::kCommitted : AttemptState::kRetired;
  // Not 0, which an owner's commit writes: see ReadLocalStore.
  attempt.begun_at_micros =
      std::max<int64_t>(1, record.committed_at_micros - record.save_micros);
  CKPTDB_ASSIGN_OR_RETURN(const std::string attempt_bytes,
                          EncodeAttemptRecord(attempt));
  CKPTDB_RETURN_IF_ERROR(
      put(Family::kMeta, AttemptKey(version.attempt), attempt_bytes));
  CKPTDB_RETURN_IF_ERROR(
      put(Family::kMeta, is_step ? StepKey(version.step) : RetiredKey(version),
          records.step_record));
  for (uint32_t rank = 0; rank < record.world_size; ++rank) {
    CKPTDB_RETURN_IF_ERROR(
        put(Family::kMeta, RankKey(version, rank), records.rank_records[rank]));
  }
  for (const auto& [key, value] : records.evaluations) {
    CKPTDB_RETURN_IF_ERROR(put(Family::kMeta, key, value));
  }
  for (const auto& [key, value] : records.inline_entries) {
    CKPTDB_RETURN_IF_ERROR(put(Family::kInline, key, value));
  }
  return absl::OkStatus();
}

absl::Status DeleteVersion(const Database& database, const Version& version,
                           bool is_step, ChangeBatch* batch) {
  CKPTDB_RETURN_IF_ERROR(
      DeleteEntry(database, Family::kMeta, AttemptKey(version.attempt), batch));
  CKPTDB_RETURN_IF_ERROR(DeleteEntry(
      database, Family::kMeta,
      is_step ? StepKey(version.step) : RetiredKey(version), batch));
  CKPTDB_RETURN_IF_ERROR(
      DeleteEntries(database, Family::kMeta, RankKeyPrefix(version), batch));
  CKPTDB_RETURN_IF_ERROR(DeleteEntries(database, Family::kMeta,
                                       EvaluationKeyPrefix(version), batch));
  return DeleteEntries(database, Family::kInline, VersionPrefix(version),
                       batch);
}

absl::Status PutRoot(const Database& database, const RootRecord& root,
                     ChangeBatch* batch) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, EncodeRootRecord(root));
  return PutEntry(database, Family::kMeta, RootKey(), bytes, batch);
}

}  // namespace ckptdb::internal
