// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/shipper.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "db/base/cancelled.h"
#include "db/base/hit_crash_point.h"
#include "db/base/parallel.h"
#include "db/base/uuid.h"
#include "remote/layout/object_keys.h"
#include "remote/probe/probe_object_store.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/catalog_steps.h"
#include "remote/sync/version_object.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/page.h"
#include "schema/records/branches.h"
#include "schema/records/records.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr int kFilesAtATime = 4;
// Attempts to put a catalog beside collectors and other owners.
constexpr int kCommitTries = 20;

// The token of an object whose bytes have this hash. A process that repeats a
// put after a failure recognizes its own object by it.
std::string TokenOf(uint64_t hash, uint64_t bytes) {
  return absl::StrFormat("%016x-%d", hash, bytes);
}

// Returns the entry of the same version and epoch, or null.
const RemoteEntry* FindSame(const RemoteCatalog& catalog,
                            const RemoteEntry& entry) {
  const auto found = std::find_if(
      catalog.entries.begin(), catalog.entries.end(),
      [&](const RemoteEntry& other) {
        return other.version == entry.version && other.epoch == entry.epoch;
      });
  return found == catalog.entries.end() ? nullptr : &*found;
}

// Drops the entry with another epoch's objects for the same version, and gives
// its use to the new entry.
void ReplaceOther(RemoteEntry* entry, RemoteCatalog* catalog) {
  for (RemoteEntry& other : catalog->entries) {
    if (other.version != entry->version || other.epoch == entry->epoch ||
        other.use == RemoteEntry::Use::kDropped) {
      continue;
    }
    entry->use = other.use;
    other.use = RemoteEntry::Use::kDropped;
    other.dropped_at_micros = 0;
  }
}

// Fills the fields of a step's entry in a catalog, except its objects.
void FillEntry(const StepRecord& record, RemoteEntry* entry) {
  entry->version = record.version;
  entry->state = StateOf(record);
  entry->owner = OwnerOf(record, entry->state.attempt);
  entry->lineage = LineageDigest(record);
  entry->committed_at_micros = record.committed_at_micros;
  entry->kind = record.kind;
  entry->pinned = record.pinned;
  entry->ephemeral = record.ephemeral;
  entry->quarantined = record.quarantined;
}

}  // namespace

absl::StatusOr<PushResult> Shipper::Push(const VersionSource& source) {
  source_ = &source;
  result_ = PushResult();
  result_.store_uuid = source.root().uuid;
  absl::Status status;
  if (!owned_) status = Attach();
  if (status.ok() && owned_) {
    const auto steps = compared().StepsToShip(catalog_);
    status = steps.ok() ? ShipSteps(*steps) : steps.status();
  }
  if (!status.ok()) {
    // A collector may delete objects that no catalog names. A later push does
    // not use them, because its epoch gives its objects other keys.
    owned_ = false;
    pending_.clear();
    const MutexLock lock(&mutex_);
    pending_keys_.clear();
  }
  CKPTDB_RETURN_IF_ERROR(status);
  result_.catalog = catalog_.number;
  result_.epoch = catalog_.epoch;
  return result_;
}

// Becomes the owner if there is something to ship.
absl::Status Shipper::Attach() {
  for (int i = 0;; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(const Work work, FindWork());
    if (work.nothing) {
      catalog_ = *work.base;
      return absl::OkStatus();
    }
    absl::Status owned = BecomeOwner(work);
    if (absl::IsAborted(owned) && i < kCommitTries) continue;
    CKPTDB_RETURN_IF_ERROR(owned);
    owned_ = true;
    return Hit(point::kShipOwned);
  }
}

absl::Status Shipper::ShipSteps(const std::vector<StepRecord>& steps) {
  {
    const MutexLock lock(&mutex_);
    done_bytes_ = all_bytes_ = 0;
    for (const StepRecord& step : steps) all_bytes_ += step.exclusive_bytes;
  }
  for (const StepRecord& step : steps) {
    CKPTDB_RETURN_IF_ERROR(ShipStep(step));
  }
  return absl::OkStatus();
}

absl::StatusOr<Shipper::Work> Shipper::FindWork() const {
  Work work;
  CKPTDB_ASSIGN_OR_RETURN(work.base, NewestCatalog(remote_));
  CKPTDB_RETURN_IF_ERROR(compared().CheckSameStore(work.base));
  if (!work.base.has_value()) return work;
  absl::Status behind = compared().CheckContinues(*work.base);
  if (!behind.ok() && !options_->take_over) return behind;
  work.take_over = !behind.ok();
  CKPTDB_ASSIGN_OR_RETURN(const auto steps, compared().StepsToShip(*work.base));
  work.nothing = steps.empty() && !work.take_over;
  return work;
}

// The format is the first object that stays in a remote. Its put decides which
// of two stores has the URL.
absl::Status Shipper::PutFormat() const {
  const RemoteFormat format{source_->root().uuid,
                            absl::ToUnixMicros(absl::Now())};
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, EncodeRemoteFormat(format));
  absl::Status put = remote_->PutIfAbsent(kFormatKey, bytes, NewUuid());
  if (!absl::IsAlreadyExists(put)) return put;
  CKPTDB_ASSIGN_OR_RETURN(const ObjectInfo found, remote_->Head(kFormatKey));
  CKPTDB_ASSIGN_OR_RETURN(const std::string earlier,
                          GetObject(remote_, kFormatKey, found.size));
  const absl::StatusOr<RemoteFormat> decoded = DecodeRemoteFormat(earlier);
  CKPTDB_RETURN_IF_ERROR(Annotate(decoded.status(), remote_->Name()));
  if (decoded->uuid == format.uuid) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(remote_->Name(), " has store ", decoded->uuid,
                   ", not store ", format.uuid, "; use another URL"));
}

void Shipper::DropUnknown(RemoteCatalog* catalog) const {
  for (RemoteEntry& entry : catalog->entries) {
    if (!compared().IsKnown(entry)) entry.use = RemoteEntry::Use::kDropped;
  }
  MarkNeeded(catalog);
}

// Returns the store's root with at least `next_attempt`. Attempts in between
// belong to another copy of the store, which this one has replaced.
RootRecord Shipper::RootOver(uint32_t next_attempt) const {
  RootRecord root = source_->root();
  if (root.next_attempt >= next_attempt) return root;
  AddOwner(root.next_attempt, kForeignOwner, &root.owners);
  root.next_attempt = next_attempt;
  return root;
}

absl::Status Shipper::BecomeOwner(const Work& work) {
  CKPTDB_RETURN_IF_ERROR(ProbeObjectStore(*remote_));
  if (!work.base.has_value()) CKPTDB_RETURN_IF_ERROR(PutFormat());
  RemoteCatalog next = work.base.value_or(RemoteCatalog());
  if (work.base.has_value()) ++next.epoch;
  if (work.take_over) DropUnknown(&next);
  next.root = RootOver(next.root.next_attempt);
  std::erase_if(next.forgotten, [&](const Version& version) {
    return source_->FindVersion(version) == nullptr;
  });
  next.owner = NewUuid();
  CKPTDB_RETURN_IF_ERROR(
      AppendCatalog(remote_, work.base.has_value() ? &*work.base : nullptr,
                    Base::kRead, &next));
  catalog_ = std::move(next);
  base_ = Base::kCommitted;
  compared_files_.clear();
  return absl::OkStatus();
}

// A step that cannot be read is left to the next push; others are shipped.
absl::Status Shipper::ShipStep(const StepRecord& record) {
  CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_->cancelled));
  absl::Status brought;
  for (const Version& version : NeedsOf(record)) {
    const StepRecord* const needed = source_->FindVersion(version);
    // The record of an increment may be gone, with its data.
    if (needed == nullptr && version == record.folded_from) continue;
    if (needed == nullptr) {
      brought = absl::DataLossError(
          absl::StrCat("the record of ", ToString(version), " is missing"));
    }
    if (brought.ok()) brought = BringVersion(*needed);
  }
  if (brought.ok()) brought = BringVersion(record);
  if (absl::IsDataLoss(brought)) {
    result_.skipped.emplace_back(record.version.step, brought.message());
    return absl::OkStatus();
  }
  CKPTDB_RETURN_IF_ERROR(brought);
  CKPTDB_RETURN_IF_ERROR(Commit(record));
  result_.shipped.push_back(record.version.step);
  if (options_->on_step) options_->on_step(record.version);
  return Hit(point::kShipCommitted);
}

// Uploads a version, unless the remote has it, and its records if they have
// changed.
absl::Status Shipper::BringVersion(const StepRecord& record) {
  const auto is_it = [&](const RemoteEntry& entry) {
    return entry.version == record.version;
  };
  if (std::any_of(pending_.begin(), pending_.end(), is_it)) {
    return absl::OkStatus();
  }
  const RemoteEntry* const entry = FindEntry(catalog_, record.version);
  if (entry == nullptr || !compared().IsKnown(*entry)) {
    return UploadVersion(record);
  }
  CKPTDB_ASSIGN_OR_RETURN(const bool has_files, HasFiles(*entry));
  if (!has_files) return UploadVersion(record);
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t hash, source_->RecordHash(record));
  if (entry->record_hash == hash) return absl::OkStatus();
  return ReviseVersion(record, *entry, hash);
}

// The remote lacks files that this store contains if the store is an older
// copy, and the version was shipped after its files had been removed elsewhere.
absl::StatusOr<bool> Shipper::HasFiles(const RemoteEntry& entry) {
  const std::pair<Version, uint64_t> objects(entry.version, entry.epoch);
  if (compared_files_.contains(objects)) return true;
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<VersionFile> own,
                          source_->FilesOf(entry.version));
  uint64_t bytes = 0;
  for (const VersionFile& file : own) bytes += file.bytes;
  bool has = own.size() == entry.data_files && bytes == entry.data_bytes;
  if (!has && !source_->IsStep(entry.version)) {
    CKPTDB_ASSIGN_OR_RETURN(has, CompareFiles(own, entry));
  }
  if (has) compared_files_.insert(objects);
  return has;
}

// Compares the files of a version that may be incomplete in the store, too.
absl::StatusOr<bool> Shipper::CompareFiles(const std::vector<VersionFile>& own,
                                           const RemoteEntry& entry) const {
  if (IsStep(entry)) return true;
  const auto version = ReadVersionObject(remote_, entry);
  if (absl::IsNotFound(version.status())) {
    return absl::DataLossError(version.status().message());
  }
  CKPTDB_RETURN_IF_ERROR(version.status());
  const auto common = static_cast<size_t>(
      std::count_if(own.begin(), own.end(), [&](const VersionFile& file) {
        return std::any_of(version->files.begin(), version->files.end(),
                           [&](const RemoteFile& shipped) {
                             return shipped.first_key == file.first_key &&
                                    shipped.last_key == file.last_key &&
                                    shipped.bytes == file.bytes;
                           });
      }));
  if (common == own.size()) return true;
  // An upload replaces the version, also for other steps of the remote.
  if (common == version->files.size()) return false;
  return absl::DataLossError(absl::StrCat(
      remote_->Name(), " and the store have different files of ",
      ToString(entry.version), "; save a step in full to ship the next ones"));
}

absl::Status Shipper::UploadFile(const ObjectName& name,
                                 const VersionFile& file,
                                 RemoteFile* uploaded) {
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t hash,
                          source_->HashOf(file, options_->cancelled));
  const std::string key = DataObjectKey(name);
  CKPTDB_RETURN_IF_ERROR(
      remote_->PutFileIfAbsent(key, file.path, TokenOf(hash, file.bytes)));
  *uploaded = {name.number, file.bytes, hash, file.first_key, file.last_key};
  const MutexLock lock(&mutex_);
  pending_keys_.push_back(key);
  done_bytes_ += file.bytes;
  ++result_.data_files;
  result_.data_bytes += file.bytes;
  if (options_->progress) {
    options_->progress(done_bytes_, std::max(done_bytes_, all_bytes_));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RemoteFile>> Shipper::UploadFiles(
    const Version& version, const std::vector<VersionFile>& files) {
  std::vector<RemoteFile> uploaded(files.size());
  CKPTDB_RETURN_IF_ERROR(ParallelFor(
      kFilesAtATime, files.size(),
      [&](int, uint64_t i) {
        const ObjectName name{catalog_.epoch, version,
                              static_cast<uint32_t>(i)};
        return UploadFile(name, files[i], &uploaded[i]);
      },
      PollOf(options_->cancelled)));
  return uploaded;
}

absl::Status Shipper::UploadVersion(const StepRecord& record) {
  CKPTDB_ASSIGN_OR_RETURN(VersionContent content, source_->Read(record));
  CKPTDB_ASSIGN_OR_RETURN(content.records.files,
                          UploadFiles(record.version, content.files));
  CKPTDB_RETURN_IF_ERROR(Hit(point::kShipData));
  RemoteEntry entry;
  FillEntry(record, &entry);
  entry.epoch = catalog_.epoch;
  entry.use = RemoteEntry::Use::kNeeded;
  for (const Version& version : NeedsOf(record)) {
    if (source_->FindVersion(version) != nullptr) {
      entry.needs.push_back(version);
    }
  }
  for (const RemoteFile& file : content.records.files) {
    entry.data_bytes += file.bytes;
    ++entry.data_files;
  }
  CKPTDB_ASSIGN_OR_RETURN(entry.record_hash, source_->RecordHash(record));
  CKPTDB_RETURN_IF_ERROR(PutVersionObject(content.records, &entry));
  compared_files_.emplace(entry.version, entry.epoch);
  pending_.push_back(std::move(entry));
  return Hit(point::kShipVersion);
}

// An owner that was fenced may have put a revision that no catalog names, so
// the next number may be in use.
absl::Status Shipper::PutVersionObject(const RemoteVersion& version,
                                       RemoteEntry* entry) {
  constexpr int kRevisionTries = 100;
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                          EncodeRemoteVersion(version));
  entry->object_bytes = bytes.size();
  entry->object_hash = HashBytes(bytes);
  absl::Status put;
  for (int i = 0; i < kRevisionTries; ++i, ++entry->revision) {
    const std::string key = VersionObjectKey(NameOfVersionObject(*entry));
    put = remote_->PutIfAbsent(key, bytes, NewUuid());
    if (put.ok()) {
      const MutexLock lock(&mutex_);
      pending_keys_.push_back(key);
    }
    if (!absl::IsAlreadyExists(put)) return put;
  }
  return put;
}

// Metrics are never removed from a step. So those that the remote has alone, as
// after the store was restored from an older copy, stay.
absl::StatusOr<std::string> Shipper::WithMetricsOf(const std::string& shipped,
                                                   const std::string& record) {
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord before, DecodeStepRecord(shipped));
  CKPTDB_ASSIGN_OR_RETURN(StepRecord merged, DecodeStepRecord(record));
  merged.metrics.insert(before.metrics.begin(), before.metrics.end());
  return merged.metrics.size() > kMaxMetrics ? record
                                             : EncodeStepRecord(merged);
}

// The data stays: only the records are replaced.
absl::Status Shipper::ReviseVersion(const StepRecord& record, RemoteEntry entry,
                                    uint64_t record_hash) {
  absl::StatusOr<RemoteVersion> version = ReadVersionObject(remote_, entry);
  if (absl::IsNotFound(version.status())) {
    return absl::DataLossError(version.status().message());
  }
  CKPTDB_RETURN_IF_ERROR(version.status());
  CKPTDB_ASSIGN_OR_RETURN(const RemoteVersion now,
                          source_->ReadRecords(record));
  CKPTDB_ASSIGN_OR_RETURN(version->step_record,
                          WithMetricsOf(version->step_record, now.step_record));
  version->evaluations = now.evaluations;
  FillEntry(record, &entry);
  entry.record_hash = record_hash;
  ++entry.revision;
  CKPTDB_RETURN_IF_ERROR(PutVersionObject(*version, &entry));
  pending_.push_back(std::move(entry));
  return Hit(point::kShipVersion);
}

// The newest catalog, in which this step has its version.
RemoteCatalog Shipper::WithStep(const StepRecord& record) const {
  RemoteCatalog next = catalog_;
  next.root = RootOver(
      std::max(catalog_.root.next_attempt, record.version.attempt + 1));
  for (RemoteEntry entry : pending_) {
    // A commit whose outcome was unknown may have put the entry.
    const RemoteEntry* const committed = FindSame(next, entry);
    if (committed != nullptr) {
      entry.use = committed->use;
    } else {
      ReplaceOther(&entry, &next);
    }
    if (committed == nullptr || committed->revision < entry.revision) {
      PutEntry(std::move(entry), &next);
    }
  }
  const RemoteEntry* const own = FindEntry(next, record.version);
  for (RemoteEntry& entry : next.entries) {
    if (&entry == own) {
      entry.use = RemoteEntry::Use::kStep;
      entry.dropped_at_micros = 0;  // by an owner before a take-over
    } else if (IsStep(entry) && entry.version.step == record.version.step) {
      entry.use = RemoteEntry::Use::kNeeded;
    }
  }
  MarkNeeded(&next);
  return next;
}

absl::Status Shipper::Commit(const StepRecord& record) {
  absl::Status status;
  for (int i = 0; i < kCommitTries; ++i) {
    RemoteCatalog next = WithStep(record);
    status = AppendCatalog(remote_, &catalog_, base_, &next);
    if (status.ok()) {
      catalog_ = std::move(next);
      base_ = Base::kCommitted;
      pending_.clear();
      const MutexLock lock(&mutex_);
      pending_keys_.clear();
      return absl::OkStatus();
    }
    if (!absl::IsAborted(status)) return status;
    CKPTDB_RETURN_IF_ERROR(Rebase(record));
  }
  return status;
}

// Another process put a catalog: a collector, or a newer owner.
absl::Status Shipper::Rebase(const StepRecord& record) {
  CKPTDB_ASSIGN_OR_RETURN(const auto newest, NewestCatalog(remote_));
  if (!newest.has_value()) {
    return absl::DataLossError(
        absl::StrCat(remote_->Name(), " has lost its catalogs"));
  }
  if (newest->owner != catalog_.owner) {
    return absl::AbortedError(absl::StrCat(
        "another process ships to ", remote_->Name(), " since ",
        absl::FormatTime(absl::FromUnixMicros(newest->written_at_micros),
                         absl::UTCTimeZone()),
        " (epoch ", newest->epoch, "; this one had ", catalog_.epoch,
        "), so step ", record.version.step, " was not shipped"));
  }
  CKPTDB_RETURN_IF_ERROR(CheckPending(*newest));
  catalog_ = *newest;
  base_ = Base::kRead;
  if (IsForgotten(catalog_, record)) {
    return absl::AbortedError(absl::StrCat("step ", record.version.step,
                                           " was dropped from ",
                                           remote_->Name(), " meanwhile"));
  }
  const RemoteCatalog next = WithStep(record);
  std::vector<Version> needed = NeedsOf(record);
  needed.push_back(record.version);
  for (const Version& version : needed) {
    const bool known = source_->FindVersion(version) != nullptr;
    if (!known || FindEntry(next, version) != nullptr) continue;
    return DeletedMeanwhile(version);
  }
  return absl::OkStatus();
}

absl::Status Shipper::DeletedMeanwhile(const Version& version) const {
  return absl::AbortedError(absl::StrCat(ToString(version),
                                         " was deleted from ", remote_->Name(),
                                         " meanwhile; push again"));
}

// A collector may delete an object that no catalog names and that is older than
// its horizon. So if this process stalled for longer than the grace, its
// uploads are abandoned.
absl::Status Shipper::CheckPending(const RemoteCatalog& newest) const {
  for (const RemoteEntry& entry : pending_) {
    // A revision has the data objects of the entry that it replaces.
    if (entry.revision > 0 && FindSame(newest, entry) == nullptr) {
      return DeletedMeanwhile(entry.version);
    }
  }
  if (newest.horizon_micros == catalog_.horizon_micros) {
    return absl::OkStatus();
  }
  const absl::Time horizon = absl::FromUnixMicros(newest.horizon_micros);
  const MutexLock lock(&mutex_);
  for (const std::string& key : pending_keys_) {
    const absl::StatusOr<ObjectInfo> found = remote_->Head(key);
    if (!absl::IsNotFound(found.status())) {
      CKPTDB_RETURN_IF_ERROR(found.status());
      if (found->modified >= horizon) continue;
    }
    return absl::AbortedError(
        absl::StrCat(remote_->Name(), "/", key,
                     " was uploaded so long ago that \"gc\" may have deleted "
                     "it; push again"));
  }
  return absl::OkStatus();
}

absl::Status Shipper::Hit(absl::string_view point) const {
  return HitCrashPoint(options_->on_point, "PushOptions::on_point", point);
}

}  // namespace ckptdb::internal
