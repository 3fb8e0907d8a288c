// SPDX-License-Identifier: Apache-2.0
#include "db/base/option_checks.h"
#include "db/base/paths.h"
#include "db/state.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/exit_task.h"
#include "db/base/hit_crash_point.h"
#include "db/base/home_process.h"
#include "db/base/parallel.h"
#include "db/base/progress.h"
#include "db/base/staging.h"
#include "db/base/state_items.h"
#include "db/disk/environment.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/disk/store_path.h"
#include "db/options.h"
#include "db/rocks/database.h"
#include "db/rocks/guarded_file_system.h"
#include "db/stage/segments.h"
#include "db/stage/staged_item.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/page.h"
#include "schema/records/records.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb {
namespace {

using internal::StagedItem;

// Blocks and indexes of files take less than 1% of the bytes.
constexpr uint64_t kOverheadDivisor = 100;
constexpr uint64_t kFixedOverhead = uint64_t{1} << 20;

// Stages the part of one rank. Used once.
class RankStager {
 public:
  RankStager(absl::string_view store, const internal::TicketRecord& ticket,
             const StoreOptions& options, const internal::StageCopies& copies)
      : store_(store),
        ticket_(ticket),
        options_(options),
        copies_(copies),
        progress_("StoreOptions::progress", options.progress),
        environment_(options.environment != nullptr
                         ? options.environment
                         : internal::Environment::Default()),
        files_(std::make_shared<internal::GuardedFileSystem>(
            environment_->file_system(),
            internal::FileModes{options.directory_mode, options.file_mode,
                                environment_->on_disk()})) {}

  absl::StatusOr<internal::StagedRecord> Run(const RankState& state) {
    CKPTDB_RETURN_IF_ERROR(internal::CheckThreads("StoreOptions::stage_threads",
                                                  options_.stage_threads));
    CKPTDB_RETURN_IF_ERROR(internal::CheckModes(
        "StoreOptions::", options_.directory_mode, options_.file_mode));
    CKPTDB_RETURN_IF_ERROR(CheckTicket());
    CKPTDB_RETURN_IF_ERROR(CheckHugeTensors(state));
    CKPTDB_ASSIGN_OR_RETURN(items_,
                            internal::PrepareItems(ticket_, state, options_));
    // Borrowed items are determined before codecs are chosen and memory is
    // copied, because they need neither.
    CKPTDB_RETURN_IF_ERROR(ReuseParent());
    for (StagedItem& staged : items_) {
      if (staged.reused) continue;
      for (const auto& stream : staged.streams) {
        CKPTDB_RETURN_IF_ERROR(CheckCancelled());
        CKPTDB_RETURN_IF_ERROR(stream->ChooseCodec());
        progress_.AddTotal(stream->raw_bytes());
      }
    }
    // From here on, no pass reads all of the caller's memory. Entries that are
    // copied need not be read again.
    HoldLast();
    // Uses an upper bound, because codecs make entries smaller.
    const bool in_line = !ticket_.in_files &&
                         EntryBytes() <= InlineShareBytes(ticket_.world_size);
    CKPTDB_RETURN_IF_ERROR(in_line ? MakeEntries() : WriteFiles());
    return Finish(in_line ? Item::Placement::kInline : Item::Placement::kBulk);
  }

 private:
  absl::Status HitCrashPoint(absl::string_view point) const {
    return internal::HitCrashPoint(options_.on_point, "StoreOptions::on_point",
                                   point);
  }

  absl::Status CheckCancelled() const {
    if (!copies_.cancelled || !copies_.cancelled()) return absl::OkStatus();
    return absl::CancelledError(
        absl::StrCat("staging ", ToString(ticket_.version), " was cancelled"));
  }

  // Checks the ticket before removing or writing anything at the paths it
  // names.
  absl::Status CheckTicket() const {
    if (ticket_.world_size == 0 || ticket_.rank >= ticket_.world_size ||
        ticket_.version.attempt == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("invalid ticket: rank ", ticket_.rank, " of ",
                       ticket_.world_size, " for ", ToString(ticket_.version),
                       "; pass a ticket that Store::Begin returned"));
    }
    // The folder is removed first, so it must be this rank's.
    if (ticket_.staging !=
        absl::StrCat(internal::StagingOf(ticket_.version.attempt), "/",
                     ticket_.rank)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "invalid ticket: rank ", ticket_.rank, " for ",
          ToString(ticket_.version), " has the staging folder \"",
          ticket_.staging, "\"; pass a ticket that Store::Begin returned"));
    }
    CKPTDB_ASSIGN_OR_RETURN(
        const bool begun,
        internal::Exists(files_.get(), internal::ParentFolder(Folder())));
    if (begun) return absl::OkStatus();
    return absl::NotFoundError(
        absl::StrCat("\"", store_, "\" has no attempt in progress for ",
                     ToString(ticket_.version)));
  }

  // Rejects tensors that do not fit on the disk before staging allocates memory
  // for the hash of every chunk: most of them are due to a mistake in a shape.
  absl::Status CheckHugeTensors(const RankState& state) const {
    constexpr uint64_t kHugeBytes = uint64_t{1} << 40;
    for (const internal::StateTensor& tensor : state.tensors()) {
      // PrepareItems reports the error.
      if (static_cast<int>(tensor.view.dtype) >= kDTypes) continue;
      const uint32_t element_bytes = DTypeBytes(tensor.view.dtype);
      const absl::StatusOr<int64_t> elements =
          ElementCount(tensor.view.shape, element_bytes);
      if (!elements.ok()) continue;
      const uint64_t bytes = static_cast<uint64_t>(*elements) * element_bytes;
      if (bytes < kHugeBytes || MayBorrow(tensor.name, bytes)) continue;
      CKPTDB_RETURN_IF_ERROR(internal::Annotate(
          internal::CheckDiskSpace(files_.get(), store_, bytes,
                                   options_.reserve_bytes),
          absl::StrCat("tensor \"", tensor.name, "\" of ", bytes, " bytes")));
    }
    return absl::OkStatus();
  }

  // Returns whether the parent may have the same tensor.
  bool MayBorrow(const std::string& name, uint64_t bytes) const {
    return ticket_.parent != nullptr &&
           std::any_of(ticket_.parent->items.begin(),
                       ticket_.parent->items.end(), [&](const Item& item) {
                         return item.kind == Item::Kind::kTensor &&
                                item.name == name && item.raw_bytes == bytes;
                       });
  }

  std::string Folder() const {
    return absl::StrCat(store_, "/", ticket_.staging);
  }

  // Returns an upper bound of the bytes of all entries with their keys.
  uint64_t EntryBytes() const {
    uint64_t bytes = 0;
    for (const StagedItem& staged : items_) {
      if (staged.reused) continue;
      for (const auto& stream : staged.streams) bytes += stream->batch_bytes();
    }
    return bytes;
  }

  // Borrows the items whose bytes the parent has, unless the caller wants
  // everything written.
  absl::Status ReuseParent() {
    if (ticket_.parent == nullptr || options_.rewrite_unchanged) {
      return absl::OkStatus();
    }
    return internal::ReuseUnchanged(
        *ticket_.parent, options_.stage_threads,
        [this] { return CheckCancelled(); }, &items_);
  }

  // Returns the streams that read the caller's memory, in the order of writing.
  std::vector<internal::Stream*> ReadingStreams() const {
    std::vector<internal::Stream*> streams;
    for (const StagedItem& staged : items_) {
      if (staged.reused) continue;
      for (const auto& stream : staged.streams) {
        if (stream->reads_caller()) streams.push_back(stream.get());
      }
    }
    return streams;
  }

  // Chooses the entries to copy: those that are written last, from the last one
  // backwards, while memory lasts. Entries that are written first need no copy,
  // because they are read soon.
  void HoldLast() {
    if (!copies_.on_read) return;
    std::vector<internal::Stream*> streams = ReadingStreams();
    for (const internal::Stream* stream : streams) {
      entries_to_read_ += stream->entries();
    }
    char* next = copies_.memory;
    uint64_t left = copies_.bytes;
    for (; !streams.empty(); streams.pop_back()) {
      internal::Stream* const stream = streams.back();
      uint64_t first = stream->entries();
      while (first > 0 && stream->BytesFrom(first - 1) <= left) --first;
      if (first < stream->entries()) {
        stream->HoldFrom(first, next);
        for (uint64_t i = first; i < stream->entries(); ++i) {
          held_.push_back({stream, i, i + 1});
        }
        next += stream->BytesFrom(first);
        left -= stream->BytesFrom(first);
      }
      if (first > 0) break;
    }
    copied_bytes_ = copies_.bytes - left;
    if (entries_to_read_ == 0) copies_.on_read(copied_bytes_);
  }

  absl::Status CopyHeld() {
    return internal::ParallelFor(
        options_.stage_threads, held_.size(),
        [this](int, uint64_t i) -> absl::Status {
          CKPTDB_RETURN_IF_ERROR(CheckCancelled());
          CKPTDB_RETURN_IF_ERROR(held_[i].stream->CopyHeld(held_[i].begin));
          NoteRead();
          return absl::OkStatus();
        });
  }

  // Makes the entries of a small save, which go into the commit's batch.
  absl::Status MakeEntries() {
    CKPTDB_RETURN_IF_ERROR(CopyHeld());
    CKPTDB_RETURN_IF_ERROR(HitCrashPoint(point::kStaging));
    PageBuilder page;
    std::string key;
    for (StagedItem& staged : items_) {
      if (staged.reused) continue;
      for (const auto& stream : staged.streams) {
        for (uint64_t i = 0; i < stream->entries(); ++i) {
          CKPTDB_RETURN_IF_ERROR(CheckCancelled());
          CKPTDB_RETURN_IF_ERROR(stream->Make(i, &key, &page));
          CKPTDB_RETURN_IF_ERROR(NoteMade(*stream, i));
          entries_.emplace_back(key, page.entry());
        }
      }
    }
    return absl::OkStatus();
  }

  // Notifies the caller, once, that its memory may change: when the last entry
  // that reads it was made or copied.
  void NoteRead() {
    if (--entries_to_read_ == 0) copies_.on_read(copied_bytes_);
  }
  absl::Status NoteMade(const internal::Stream& stream, uint64_t entry) {
    if (copies_.on_read && stream.reads_caller() && !stream.IsHeld(entry)) {
      NoteRead();
    }
    return progress_.Advance(stream.BytesOf(entry, entry + 1));
  }

  absl::Status WriteFiles() {
    const std::string folder = Folder();
    CKPTDB_RETURN_IF_ERROR(internal::CheckDiskSpace(
        files_.get(), store_,
        EntryBytes() + EntryBytes() / kOverheadDivisor + kFixedOverhead,
        options_.reserve_bytes));
    // A restarted rank stages again into the same folder. Files from its first
    // attempt must not be published.
    CKPTDB_RETURN_IF_ERROR(internal::RemoveTree(files_.get(), folder));
    CKPTDB_RETURN_IF_ERROR(internal::MakeFolders(files_.get(), folder));
    absl::Status status = WriteSegments(folder);
    if (status.ok()) return status;
    // The sweep removes the rest.
    internal::RemoveTree(files_.get(), folder).IgnoreError();
    return ExplainFull(status);
  }

  absl::Status WriteSegments(const std::string& folder) {
    const auto env = rocksdb::NewCompositeEnv(files_);
    internal::SegmentWriterOptions writing;
    writing.env = env.get();
    writing.check = [this] { return CheckCancelled(); };
    writing.on_made = [this](const internal::Stream& stream, uint64_t entry) {
      return NoteMade(stream, entry);
    };
    CKPTDB_ASSIGN_OR_RETURN(writing.direct_writes, DirectWrites(folder));
    const auto segments = internal::CutSegments(items_, options_.stage_threads);
    staged_files_.resize(segments.size());
    // Segments are numbered in key order, so each file records how many entries
    // precede it. Publish detects a missing file by these numbers.
    std::vector<uint64_t> first_entries;
    uint64_t entries = 0;
    for (const internal::Segment& segment : segments) {
      first_entries.push_back(entries);
      for (const auto& piece : segment) entries += piece.end - piece.begin;
    }
    std::atomic<bool> first = true;
    const auto write = [&](uint64_t i) -> absl::Status {
      // Workers reach the point concurrently; only the first one counts.
      if (first.exchange(false)) {
        CKPTDB_RETURN_IF_ERROR(HitCrashPoint(point::kStaging));
      }
      const std::string name =
          absl::StrCat(absl::Dec(i, absl::kZeroPad6), ".sst");
      CKPTDB_ASSIGN_OR_RETURN(
          staged_files_[i],
          internal::WriteSegment(writing, segments[i],
                                 absl::StrCat(folder, "/", name)));
      staged_files_[i].path = absl::StrCat(ticket_.staging, "/", name);
      staged_files_[i].first_entry = first_entries[i];
      return absl::OkStatus();
    };
    return WriteAndCopy(segments, write);
  }

  // Writes what is read from the caller's memory while the rest is copied, and
  // then writes the copies.
  absl::Status WriteAndCopy(
      const std::vector<internal::Segment>& segments,
      const std::function<absl::Status(uint64_t)>& write) {
    const auto write_range = [&](uint64_t begin, uint64_t end) {
      return internal::ParallelFor(
          options_.stage_threads, end - begin,
          [&](int, uint64_t i) { return write(begin + i); });
    };
    const auto held = std::ranges::find_if(segments, internal::HoldsEntries);
    const auto to_read = static_cast<uint64_t>(held - segments.begin());
    const int at_once = held_.empty() ? 1 : 2;
    CKPTDB_RETURN_IF_ERROR(internal::ParallelFor(
        at_once, at_once, [&](int, uint64_t i) -> absl::Status {
          return i == 0 ? write_range(0, to_read) : CopyHeld();
        }));
    return write_range(to_read, segments.size());
  }

  absl::StatusOr<bool> DirectWrites(const std::string& folder) const {
    if (!options_.direct_writes || !environment_->on_disk()) return false;
    return internal::SupportsDirectWrites(files_.get(), folder);
  }

  // Adds sizes to the error of a full disk, which only names a file.
  absl::Status ExplainFull(const absl::Status& status) const {
    if (!absl::IsResourceExhausted(status)) return status;
    const absl::StatusOr<uint64_t> free =
        internal::FreeBytes(files_.get(), store_);
    return internal::Reword(
        status, absl::StatusCode::kResourceExhausted,
        absl::StrCat(status.message(), "; \"", store_, "\" needs ",
                     EntryBytes(), " bytes, and ",
                     free.ok() ? absl::StrCat(*free) : "unknown", " are free"));
  }

  absl::StatusOr<internal::StagedRecord> Finish(Item::Placement placement) {
    StepRecord::Rank record;
    record.version = ticket_.version;
    record.rank = ticket_.rank;
    for (StagedItem& staged : items_) {
      staged.Seal(placement);
      record.items.push_back(std::move(staged.item));
    }
    internal::StagedRecord staged;
    staged.uuid = ticket_.uuid;
    staged.version = ticket_.version;
    staged.rank = ticket_.rank;
    staged.world_size = ticket_.world_size;
    staged.files = std::move(staged_files_);
    staged.inline_entries = std::move(entries_);
    CKPTDB_ASSIGN_OR_RETURN(staged.rank_record, EncodeRankRecord(record));
    CKPTDB_RETURN_IF_ERROR(HitCrashPoint(point::kStaged));
    return staged;
  }

  const std::string store_;
  const internal::TicketRecord& ticket_;
  const StoreOptions& options_;
  const internal::StageCopies& copies_;
  internal::Progress progress_;
  const std::shared_ptr<internal::Environment> environment_;
  const std::shared_ptr<internal::GuardedFileSystem> files_;
  std::vector<StagedItem> items_;
  // Entries that read the caller's memory and were neither copied nor made yet.
  std::atomic<uint64_t> entries_to_read_ = 0;
  uint64_t copied_bytes_ = 0;
  std::vector<internal::Piece> held_;  // the entries to copy, one in each
  std::vector<internal::StagedFile> staged_files_;
  std::vector<std::pair<std::string, std::string>> entries_;
};

}  // namespace

absl::StatusOr<StagedRank> Stage(absl::string_view store_path,
                                 const Ticket& ticket, const RankState& state,
                                 const StoreOptions& options) {
  return internal::StageWithCopies(store_path, ticket, state, options, {});
}

absl::StatusOr<StagedRank> internal::StageWithCopies(
    absl::string_view store_path, const Ticket& ticket, const RankState& state,
    const StoreOptions& options, const internal::StageCopies& copies) {
  return internal::CallGuarded("Stage", [&]() -> absl::StatusOr<StagedRank> {
    CKPTDB_RETURN_IF_ERROR(internal::EnterLibrary("Stage"));
    CKPTDB_ASSIGN_OR_RETURN(
        const std::string resolved,
        internal::ResolveStorePath(store_path, options.environment));
    absl::StatusOr<internal::StagedRecord> staged =
        RankStager(resolved, ticket.record(), options, copies).Run(state);
    // RocksDB has been used in a process that may have opened no store.
    internal::WatchExit();
    CKPTDB_RETURN_IF_ERROR(staged.status());
    return StagedRank(*std::move(staged));
  });
}

}  // namespace ckptdb
