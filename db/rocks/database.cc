// SPDX-License-Identifier: Apache-2.0
// Reads and changes of an open database.
#include "db/rocks/database.h"

#include <rocksdb/convenience.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/quirks/file_names.h"
#include "db/rocks/database_listener.h"
#include "db/rocks/outside_tables.h"
#include "db/rocks/rocks_options.h"
#include "schema/bytes/keys.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Get and ForEach read records, of which the store has no other copy.
absl::Status RecordError(const rocksdb::Status& status) {
  absl::Status error = FromRocksRead(status, "reading records");
  if (!absl::IsDataLoss(error)) return error;
  return absl::DataLossError(
      absl::StrCat(error.message(),
                   "; steps cannot be opened without their records: restore "
                   "this file from a copy of the store"));
}

}  // namespace

bool Database::HasFileName(absl::string_view name) {
  return IsDatabaseFile(name);
}

bool Database::IsLeftover(absl::string_view name) {
  return IsUnfinishedOptions(name);
}

// Reads one entry with an iterator: an exception in DB::Get would leave a
// reference in the calling thread, whose exit would then end the process (line
// 38 of docs/rocksdb.md). A missing file is damage here, as in FromRocksRead;
// NotFound only means a missing entry.
absl::StatusOr<std::string> Database::Get(Family from,
                                          absl::string_view key) const {
  if (broken_) return status();
  const rocksdb::Slice wanted = ToSlice(key);
  const std::string end = absl::StrCat(key, absl::string_view("\0", 1));
  const rocksdb::Slice bound = ToSlice(end);
  const std::unique_ptr<rocksdb::Iterator> entry =
      NewIterator(PassOptions(&wanted, &bound), from);
  Guarded([&] { entry->Seek(wanted); });
  if (entry->Valid()) return std::string(FromSlice(entry->value()));
  if (entry->status().ok()) return absl::NotFoundError("no such entry");
  return RecordError(entry->status());
}

absl::Status Database::ForEach(
    Family from, absl::string_view prefix,
    const std::function<absl::Status(absl::string_view, absl::string_view)>&
        visit) const {
  const std::string end = PrefixEnd(prefix);
  const rocksdb::Slice first = ToSlice(prefix);
  const rocksdb::Slice bound = ToSlice(end);
  const std::unique_ptr<rocksdb::Iterator> entries =
      NewIterator(PassOptions(&first, end.empty() ? nullptr : &bound), from);
  for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
    CKPTDB_RETURN_IF_ERROR(
        visit(FromSlice(entries->key()), FromSlice(entries->value())));
  }
  return RecordError(entries->status());
}

std::unique_ptr<rocksdb::Iterator> Database::NewIterator(
    const rocksdb::ReadOptions& options, Family of) const {
  if (broken_) {
    return std::unique_ptr<rocksdb::Iterator>(rocksdb::NewErrorIterator(
        rocksdb::Status::MemoryLimit(ToSlice(status().message()))));
  }
  if (of == Family::kBulk && outside_ != nullptr) {
    return Guarded([&] { return outside_->NewIterator(options); });
  }
  return std::unique_ptr<rocksdb::Iterator>(
      Guarded([&] { return rocks_->NewIterator(options, family(of)); }));
}

std::unique_ptr<rocksdb::Iterator> Database::NewIterator(
    const rocksdb::ReadOptions& options, Item::Placement placement) const {
  return NewIterator(options, placement == Item::Placement::kInline
                                  ? Family::kInline
                                  : Family::kBulk);
}

// GetColumnFamilyMetaData would leave a reference in the calling thread, like
// Get.
std::vector<rocksdb::LiveFileMetaData> Database::FilesOf(Family of) const {
  std::vector<rocksdb::LiveFileMetaData> files;
  if (broken_) return files;
  if (of == Family::kBulk && outside_ != nullptr) return outside_->Files();
  Guarded([&] { rocks_->GetLiveFilesMetaData(&files); });
  const std::string name = family(of)->GetName();
  std::erase_if(files, [&](const rocksdb::LiveFileMetaData& file) {
    return file.column_family_name != name;
  });
  return files;
}

// An estimate from the files' indexes. It only decides the readahead, so an
// error counts as 0.
uint64_t Database::ApproximateBytes(Family of, absl::string_view begin,
                                    absl::string_view end) const {
  if (of == Family::kBulk && outside_ != nullptr) {
    return outside_->ApproximateBytes(begin, end);
  }
  const rocksdb::Range range(ToSlice(begin), ToSlice(end));
  uint64_t bytes = 0;
  if (broken_) return bytes;
  const rocksdb::Status status = Guarded([&] {
    return rocks_->GetApproximateSizes(rocksdb::SizeApproximationOptions(),
                                       family(of), &range, 1, &bytes);
  });
  return status.ok() ? bytes : 0;
}

absl::Status Database::failure() const { return listener_->status(); }

absl::Status Database::FailOn(absl::Status status) {
  if (!status.ok()) listener_->Fail(status);
  return status;
}

absl::Status Database::status() const {
  const absl::Status first = failure();
  if (first.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "\"", store_,
      "\" is unusable until it is reopened, because of: ", first.ToString()));
}

// FencedFileSystem checks this, too, before each change of a file.
absl::Status Database::CheckOwner() {
  CKPTDB_RETURN_IF_ERROR(status());
  // A follower has no lock, and writes nothing.
  if (lock_ == nullptr) return absl::OkStatus();
  absl::Status owner = lock_->Check();
  if (absl::IsFailedPrecondition(owner)) listener_->Fail(owner);  // for good
  return owner;
}

// After a failed change the database is no longer used: how much of the change
// is on disk is unknown, and a second write to a failed log aborts the process
// (line 32 of docs/rocksdb.md).
template <typename Function>
absl::Status Database::Change(absl::string_view what, Function&& function) {
  return FailOn(FromRocks(Guarded(std::forward<Function>(function)), what));
}

void Database::Break() const {
  broken_ = true;
  listener_->Fail(StatusOfException("a RocksDB call"));
}

absl::Status Database::Write(ChangeBatch* batch, bool sync) {
  CKPTDB_RETURN_IF_ERROR(CheckOwner());
  rocksdb::WriteOptions options;
  options.sync = sync;
  CKPTDB_RETURN_IF_ERROR(HoldCompactions());
  // Each entry of the batch takes the next sequence number, and the sync covers
  // everything before it in the log.
  const uint64_t before = rocks_->GetLatestSequenceNumber();
  CKPTDB_RETURN_IF_ERROR(Change("writing a batch", [&] {
    return rocks_->Write(options, batch->rocks());
  }));
  // Another thread may have written in between. Then this number is too low,
  // which leaves the WATERMARK valid.
  if (sync) synced_sequence_ = before + batch->count();
  return absl::OkStatus();
}

absl::Status Database::SyncLog() {
  CKPTDB_RETURN_IF_ERROR(status());
  return Change("syncing the log",
                [&] { return rocks_->FlushWAL(/*sync=*/true); });
}

absl::Status Database::Flush(const std::vector<Family>& families) {
  CKPTDB_RETURN_IF_ERROR(status());
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  handles.reserve(families.size());
  for (const Family each : families) handles.push_back(family(each));
  return Change("flushing", [&] {
    return rocks_->Flush(rocksdb::FlushOptions(), handles);
  });
}

absl::Status Database::Ingest(const std::vector<std::string>& files) {
  CKPTDB_RETURN_IF_ERROR(CheckOwner());
  rocksdb::IngestExternalFileOptions options;
  // A hard link takes no time and no space. If the file system does not support
  // it, RocksDB copies.
  options.move_files = true;
  options.failed_move_fall_back_to_copy = true;
  // Nothing is rewritten, waited for or read again: stagers synced the files,
  // the files share no keys with the memtables, and reads check them.
  options.write_global_seqno = false;
  options.allow_blocking_flush = false;
  options.verify_checksums_before_ingest = false;
  return Change("ingesting files", [&] {
    return rocks_->IngestExternalFile(family(Family::kBulk), files, options);
  });
}

// See line 42 of docs/rocksdb.md.
absl::Status Database::PrepareIngest(absl::string_view version_prefix) {
  CKPTDB_RETURN_IF_ERROR(CheckOwner());
  const rocksdb::Slice first = ToSlice(version_prefix);
  const std::unique_ptr<rocksdb::Iterator> entries =
      NewIterator(PassOptions(&first, nullptr), Family::kBulk);
  Guarded([&] { entries->Seek(first); });
  if (!IsDamage(entries->status())) return absl::OkStatus();
  std::string next;
  for (const rocksdb::LiveFileMetaData& file : FilesOf(Family::kBulk)) {
    if (file.level == 0 || file.smallestkey < version_prefix) continue;
    if (next.empty() || file.smallestkey < next) next = file.smallestkey;
  }
  const std::string key = next.substr(0, kVersionPrefixBytes);
  if (key == next) return absl::OkStatus();  // there is no damaged one after it
  return PutAtBottom(key);
}

// Compacts the key's table to the lowest level. No files lie below that level,
// so the compaction reads only this table, and not the damaged one.
absl::Status Database::PutAtBottom(const std::string& key) {
  rocksdb::ColumnFamilyHandle* const bulk = family(Family::kBulk);
  ChangeBatch batch;
  CKPTDB_RETURN_IF_ERROR(FromRocks(batch.Put(bulk, key, ""), "putting a key"));
  CKPTDB_RETURN_IF_ERROR(Write(&batch, /*sync=*/true));
  CKPTDB_RETURN_IF_ERROR(Flush({Family::kBulk}));
  std::vector<std::string> files;
  for (const rocksdb::LiveFileMetaData& file : FilesOf(Family::kBulk)) {
    if (file.level == 0 && file.smallestkey == key) files.push_back(file.name);
  }
  rocksdb::CompactionOptions options;
  options.compression = rocksdb::kDisableCompressionOption;  // as the family's
  return Change("moving a key to the lowest level", [&] {
    return rocks_->CompactFiles(options, bulk, files,
                                rocks_->NumberLevels(bulk) - 1);
  });
}

bool Database::HasLeftovers(const std::string& begin,
                            const std::string& end) const {
  const auto files = FilesOf(Family::kBulk);
  return std::any_of(
      files.begin(), files.end(), [&](const rocksdb::LiveFileMetaData& file) {
        return file.smallestkey < end && file.largestkey >= begin;
      });
}

absl::Status Database::DeleteFiles(const KeyRanges& ranges) {
  CKPTDB_RETURN_IF_ERROR(CheckOwner());
  if (ranges.empty()) return absl::OkStatus();
  // All slices are created before a pointer to one is taken, because a growing
  // vector moves them.
  std::vector<rocksdb::Slice> bounds;
  for (const auto& [begin, end] : ranges) {
    bounds.push_back(ToSlice(begin));
    bounds.push_back(ToSlice(end));
  }
  std::vector<rocksdb::RangePtr> pointers;
  for (size_t i = 0; i < bounds.size(); i += 2) {
    pointers.emplace_back(&bounds[i], &bounds[i + 1]);
  }
  return Change("deleting files", [&] {
    return rocksdb::DeleteFilesInRanges(rocks_.get(), family(Family::kBulk),
                                        pointers.data(), pointers.size(),
                                        /*include_end=*/false);
  });
}

// Removes the entries that DeleteFiles has left of versions that are entirely
// garbage. Only an earlier failure leaves any, so the compaction, which
// rewrites files, is rare.
absl::Status Database::DeleteLeftovers(const KeyRanges& ranges) {
  for (const auto& [begin, end] : ranges) {
    if (!HasLeftovers(begin, end)) continue;
    CKPTDB_RETURN_IF_ERROR(status());
    ChangeBatch batch;
    CKPTDB_RETURN_IF_ERROR(FromRocks(
        batch.DeleteRange(family(Family::kBulk), ToSlice(begin), ToSlice(end)),
        "deleting a range"));
    CKPTDB_RETURN_IF_ERROR(Change("deleting a range", [&] {
      return rocks_->Write(rocksdb::WriteOptions(), batch.rocks());
    }));
    CKPTDB_RETURN_IF_ERROR(Compact(Family::kBulk, begin, end));
  }
  return absl::OkStatus();
}

absl::Status Database::Compact(Family of, absl::string_view begin,
                               absl::string_view end) {
  CKPTDB_RETURN_IF_ERROR(status());
  rocksdb::CompactRangeOptions options;
  // Deleted entries occupy space until the bottommost level is rewritten, too.
  options.bottommost_level_compaction =
      rocksdb::BottommostLevelCompaction::kForceOptimized;
  const rocksdb::Slice first = ToSlice(begin);
  const rocksdb::Slice last = ToSlice(end);
  const rocksdb::Status status = Guarded(
      [&] { return rocks_->CompactRange(options, family(of), &first, &last); });
  // Damaged data only ends this compaction: its input stays, and steps that do
  // not need the file can be saved and read. Damaged records make the database
  // unusable.
  if (HoldsData(family(of)->GetName()) && IsDamage(status)) {
    return FromRocksRead(status, "compacting");
  }
  // The database is unchanged, unless writing the MANIFEST failed, which the
  // listener knows.
  if (status.IsNoSpace()) return FromRocks(status, "compacting");
  return FailOn(FromRocks(status, "compacting"));
}

absl::Status Database::SetCompactions(Family of, bool on) {
  return Change(on ? "resuming compactions" : "holding compactions", [&] {
    return rocks_->SetOptions(
        family(of), {{"disable_auto_compactions", on ? "false" : "true"}});
  });
}

// RocksDB retries a compaction that was given up each second, and blocks writes
// until it succeeds if there are many files.
absl::Status Database::HoldCompactions() {
  if (!listener_->TakeGivenUp()) return absl::OkStatus();
  compactions_held_ = true;
  CKPTDB_RETURN_IF_ERROR(SetCompactions(Family::kMeta, false));
  return SetCompactions(Family::kInline, false);
}

absl::Status Database::ResumeCompactions() {
  if (!compactions_held_) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(files_.get(), store_));
  // A compaction keeps its input until its result is written, so there must be
  // room for both families twice.
  if (free / 2 < TableBytes(Family::kInline) + TableBytes(Family::kMeta)) {
    return absl::OkStatus();
  }
  compactions_held_ = false;
  CKPTDB_RETURN_IF_ERROR(SetCompactions(Family::kMeta, true));
  // Small saves that met damage would meet it again.
  if (listener_->met_damage()) return absl::OkStatus();
  return SetCompactions(Family::kInline, true);
}

uint64_t Database::TableBytes(Family of) const {
  uint64_t bytes = 0;
  for (const rocksdb::LiveFileMetaData& file : FilesOf(of)) bytes += file.size;
  return bytes;
}

}  // namespace ckptdb::internal
