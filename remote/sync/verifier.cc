// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/verifier.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/cancelled.h"
#include "db/base/parallel.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/catalog_steps.h"
#include "remote/sync/version_object.h"
#include "schema/bytes/keys.h"
#include "schema/records/records.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Compares a version object with its entry.
absl::Status CompareRecords(const RemoteEntry& entry,
                            const RemoteVersion& version) {
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord record,
                          DecodeStepRecord(version.step_record));
  if (record.version != entry.version ||
      LineageDigest(record) != entry.lineage) {
    return absl::DataLossError(
        absl::StrCat("it has the records of ", ToString(record.version),
                     ", or of another copy of the store"));
  }
  const std::string prefix = VersionPrefix(entry.version);
  for (const RemoteFile& file : version.files) {
    if (absl::string_view(file.first_key).substr(0, prefix.size()) == prefix) {
      continue;
    }
    return absl::DataLossError(absl::StrCat(
        "it names data object ", file.number, " of another version"));
  }
  return absl::OkStatus();
}

// Whether a file may have an entry whose key begins with `prefix`.
bool ReachesInto(const RemoteFile& file, const std::string& prefix) {
  return file.last_key >= prefix && file.first_key < PrefixEnd(prefix);
}

// Returns DataLoss if no data object has an item that a step has stored in
// bulk. Of a version that is not a step, only some items are needed.
absl::Status CheckItemsHaveFiles(const RemoteEntry& entry,
                                 const RemoteVersion& version) {
  if (!IsStep(entry)) return absl::OkStatus();
  for (const std::string& bytes : version.rank_records) {
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord::Rank rank,
                            DecodeRankRecord(bytes));
    for (const Item& item : rank.items) {
      if (item.data_version != entry.version || item.stored_bytes == 0 ||
          item.placement != Item::Placement::kBulk) {
        continue;
      }
      const std::string prefix =
          ItemPrefix(entry.version, rank.rank, item.kind, item.name);
      const bool found = std::any_of(
          version.files.begin(), version.files.end(),
          [&](const RemoteFile& file) { return ReachesInto(file, prefix); });
      if (found) continue;
      return absl::DataLossError(absl::StrCat("it names no data object with \"",
                                              item.name, "\" of rank ",
                                              rank.rank));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<VerifyRemoteResult> Verifier::Verify(
    const RemoteCatalog& catalog) {
  const std::vector<const RemoteEntry*> steps = StepsByAge(catalog);
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RemoteEntry> entries,
                          NeededEntries(catalog, steps));
  for (const RemoteEntry* const step : steps) {
    steps_of_[step->version].insert(step->version.step);
    for (const Version& version : step->needs) {
      steps_of_[version].insert(step->version.step);
    }
  }
  for (const RemoteEntry& entry : entries) {
    all_bytes_ += entry.object_bytes + (options_->data ? entry.data_bytes : 0);
  }
  std::vector<DataObject> data;
  CKPTDB_RETURN_IF_ERROR(CheckVersions(entries, &data));
  CKPTDB_RETURN_IF_ERROR(ParallelFor(
      options_->connections, data.size(),
      [&](int, uint64_t i) { return CheckData(data[i]); },
      PollOf(options_->cancelled)));
  const MutexLock lock(&mutex_);
  result_.steps = steps.size();
  result_.objects = entries.size() + data.size();
  std::sort(result_.damage.begin(), result_.damage.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  return result_;
}

absl::Status Verifier::CheckVersions(const std::vector<RemoteEntry>& entries,
                                     std::vector<DataObject>* data) {
  std::vector<RemoteVersion> versions(entries.size());
  const auto check = [&](int, uint64_t i) -> absl::Status {
    const RemoteEntry& entry = entries[i];
    CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_->cancelled));
    auto version = ReadVersionObject(remote_, entry);
    absl::Status status = version.status();
    if (status.ok()) status = CompareRecords(entry, *version);
    if (status.ok()) status = CheckItemsHaveFiles(entry, *version);
    CKPTDB_RETURN_IF_ERROR(Note(VersionObjectKey(NameOfVersionObject(entry)),
                                entry.version, status));
    Report(entry.object_bytes);
    if (version.ok()) versions[i].files = std::move(version->files);
    return absl::OkStatus();
  };
  CKPTDB_RETURN_IF_ERROR(ParallelFor(options_->connections, entries.size(),
                                     check, PollOf(options_->cancelled)));
  for (size_t i = 0; i < entries.size(); ++i) {
    for (RemoteFile& file : versions[i].files) {
      const ObjectName name{entries[i].epoch, entries[i].version, file.number};
      data->push_back(
          {DataObjectKey(name), entries[i].version, std::move(file)});
    }
  }
  return absl::OkStatus();
}

absl::Status Verifier::CheckData(const DataObject& object) {
  CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_->cancelled));
  absl::StatusOr<ObjectInfo> found = remote_->Head(object.key);
  absl::Status status = found.status();
  if (found.ok() && found->size != object.file.bytes) {
    status = absl::DataLossError(absl::StrCat(
        "it has ", found->size, " bytes, expected ", object.file.bytes));
  }
  if (status.ok() && options_->data) status = CheckBytes(object);
  return Note(object.key, object.version, status);
}

absl::Status Verifier::CheckBytes(const DataObject& object) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(
      XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  const std::unique_ptr<char[]> range(new char[kReadBytes]);
  for (uint64_t at = 0; at < object.file.bytes; at += kReadBytes) {
    CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_->cancelled));
    const uint64_t bytes = std::min(kReadBytes, object.file.bytes - at);
    CKPTDB_RETURN_IF_ERROR(
        remote_->Get(object.key, at, absl::MakeSpan(range.get(), bytes)));
    XXH3_64bits_update(state.get(), range.get(), bytes);
    Report(bytes);
  }
  const uint64_t hash = XXH3_64bits_digest(state.get());
  if (hash == object.file.hash) return absl::OkStatus();
  return OtherHash(remote_, object.key, object.file.hash, hash);
}

absl::Status Verifier::Note(const std::string& key, const Version& version,
                            const absl::Status& status) {
  if (status.ok()) return status;
  if (!absl::IsDataLoss(status) && !absl::IsNotFound(status)) return status;
  const std::set<int64_t>& steps = steps_of_.at(version);
  const MutexLock lock(&mutex_);
  result_.damage.push_back({key,
                            absl::IsNotFound(status)
                                ? "it is missing"
                                : std::string(status.message()),
                            {steps.begin(), steps.end()}});
  return absl::OkStatus();
}

void Verifier::Report(uint64_t bytes) {
  const MutexLock lock(&mutex_);
  result_.read_bytes += bytes;
  if (options_->progress) options_->progress(result_.read_bytes, all_bytes_);
}

}  // namespace ckptdb::internal
