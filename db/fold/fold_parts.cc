// SPDX-License-Identifier: Apache-2.0
#include "db/fold/fold_parts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/cancelled.h"
#include "db/base/parallel.h"
#include "db/base/paths.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/fold/run_writer.h"
#include "db/read/run_merge.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/lossy.h"
#include "schema/bytes/page.h"
#include "schema/records/records.h"
#include "schema/records/shards.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

// The size of a part: it bounds the work lost by an interruption, and how
// unevenly workers are loaded.
constexpr uint64_t kPartBytes = uint64_t{128} << 20;
// Tables up to this total size and number share a file: a step may have
// thousands of tables, and each file costs a sync and an open.
constexpr uint64_t kSharedBytes = uint64_t{16} << 20;
constexpr size_t kMostShared = 1024;
// Total size of the write buffers for the files of a part.
constexpr uint64_t kBuffersBytes = uint64_t{16} << 20;
constexpr uint64_t kLeastBufferBytes = uint64_t{256} << 10;

// Returns the raw bytes of a row with its id, the measure for parts and
// progress.
uint64_t RowBytes(const Item& table) {
  uint64_t bytes = sizeof(int64_t);
  for (const Slot& slot : table.slots) bytes += slot.row_bytes();
  return bytes;
}

// Divides a group into ranges of about kPartBytes each.
// Cuts at slices, because ids are evenly spread over them. If skewed ids make a
// part too large, it only takes longer to redo.
std::vector<RunGroup> CutGroup(const std::vector<RankItem>& runs,
                               const RunGroup& group) {
  const uint64_t bytes = EstimateRows(runs, group) * RowBytes(*runs[0].item);
  const uint64_t slices = group.slices.end - group.slices.begin;
  const uint64_t cuts = std::clamp<uint64_t>(bytes / kPartBytes, 1, slices);
  const auto bound = [&](uint64_t i) {
    return static_cast<uint32_t>(group.slices.begin + slices * i / cuts);
  };
  std::vector<RunGroup> ranges;
  for (uint64_t i = 0; i < cuts; ++i) {
    ranges.push_back({{bound(i), bound(i + 1)}, group.runs});
  }
  return ranges;
}

// Raises the folded run's errors to those of a run.
void AddErrors(const Item& run, Item* folded) {
  if (run.errors.empty()) return;
  folded->errors.resize(folded->slots.size());
  for (size_t i = 0; i < folded->errors.size(); ++i) {
    folded->errors[i] = Larger(folded->errors[i], run.errors[i]);
  }
}

std::vector<size_t> AllSlots(const Item& table) {
  std::vector<size_t> slots(table.slots.size());
  std::iota(slots.begin(), slots.end(), size_t{0});
  return slots;
}

absl::Status CheckInterrupted(const std::function<bool()>& cancelled) {
  absl::Status status = CheckCancelled(cancelled);
  if (!absl::IsCancelled(status)) return status;
  return absl::CancelledError(
      "the fold was interrupted; fold the step again to resume it");
}

// Passes rows on, and checks periodically whether the fold is cancelled.
class CancellableSink : public MergeSink {
 public:
  CancellableSink(const std::function<bool()>& cancelled, RunWriter* writer)
      : cancelled_(cancelled), writer_(writer) {}
  absl::Status Rows(const RowSink::Batch& batch) override {
    // The caller's function may be slow, so it is not called for each batch,
    // which may have a single row.
    constexpr uint64_t kRowsBetween = 4096;
    rows_ += batch.ids.size();
    if (rows_ >= kRowsBetween) {
      rows_ = 0;
      CKPTDB_RETURN_IF_ERROR(CheckInterrupted(cancelled_));
    }
    return writer_->Rows(batch);
  }
  absl::Status Erased(absl::Span<const int64_t> ids) override {
    return writer_->Erased(ids);
  }

 private:
  const std::function<bool()>& cancelled_;
  RunWriter* const writer_;
  uint64_t rows_ = 0;
};

}  // namespace

FoldParts::FoldParts(const StepReader::Impl& step, FoldTarget target,
                     const ReadOptions& options)
    : step_(step),
      target_(std::move(target)),
      options_(options),
      progress_("ReadOptions::progress", options.progress),
      env_(rocksdb::NewCompositeEnv(target_.files)) {}

std::string FoldParts::Folder(uint32_t rank) const {
  return absl::StrCat(StagingOf(target_.version.attempt), "/", rank);
}

// Versions before shared files were introduced had notes of different parts,
// under other names.
std::string FoldParts::NotePath(size_t part) const {
  return absl::StrCat(target_.store, "/", StagingOf(target_.version.attempt),
                      "/fold-", part, ".note");
}

std::string FoldParts::FilePath(size_t part) const {
  return absl::StrCat(target_.store, "/", Folder(parts_[part].rank), "/fold-",
                      part);
}

// Plans the parts of all tables with a delta run. Items that are already in
// full are borrowed: see Ranks. The plan depends only on the step, so that a
// resumed fold has the same parts.
absl::Status FoldParts::Plan() {
  std::set<std::string> names;
  for (const StepRecord::Rank& rank : step_.ranks()) {
    for (const Item& item : rank.items) {
      if (item.kind == Item::Kind::kRows && item.run == Item::Run::kDelta) {
        names.insert(item.name);
      }
    }
  }
  for (const std::string& name : names) {
    auto table = std::make_unique<Table>();
    table->name = name;
    CKPTDB_ASSIGN_OR_RETURN(table->runs, RunsOf(step_, name));
    tables_.push_back(std::move(table));
  }
  for (uint32_t rank = 0; rank < step_.record().world_size; ++rank) {
    for (const auto& table : tables_) PlanTable(*table, rank);
  }
  for (const Part& part : parts_) progress_.AddTotal(part.bytes());
  return absl::OkStatus();
}

uint64_t FoldParts::Part::bytes() const {
  uint64_t bytes = 0;
  for (const Stretch& stretch : stretches) bytes += stretch.bytes;
  return bytes;
}

// A rank keeps the rows of its slices. If the table is not divided by slices,
// the first rank receives all rows.
void FoldParts::PlanTable(const Table& table, uint32_t rank) {
  const std::vector<uint32_t>& bounds = step_.record().slice_bounds;
  const bool by_slices = table.runs[0].by_slices();
  if (!by_slices && rank > 0) return;
  const SliceRange own =
      by_slices ? SliceRange{bounds[rank], bounds[rank + size_t{1}]}
                : SliceRange();
  if (own.begin == own.end) return;
  const uint64_t row_bytes = RowBytes(*table.runs[0].item);
  Stretch whole{&table, GroupRuns(table.runs, own), 0, {}};
  if (whole.groups.empty()) return;
  for (const RunGroup& group : whole.groups) {
    whole.bytes += EstimateRows(table.runs, group) * row_bytes;
  }
  if (whole.bytes <= kSharedBytes) return AddSmall(std::move(whole), rank);
  for (const RunGroup& group : whole.groups) {
    for (RunGroup& range : CutGroup(table.runs, group)) {
      const uint64_t bytes = EstimateRows(table.runs, range) * row_bytes;
      parts_.push_back(
          {rank, false, {{&table, {std::move(range)}, bytes, {}}}, {}});
    }
  }
}

// Small tables share a file only if no large one is between them, because the
// keys of two files must not overlap.
void FoldParts::AddSmall(Stretch stretch, uint32_t rank) {
  const bool fits = !parts_.empty() && parts_.back().shares_file &&
                    parts_.back().rank == rank &&
                    parts_.back().stretches.size() < kMostShared &&
                    parts_.back().bytes() + stretch.bytes <= kSharedBytes;
  if (!fits) parts_.push_back({rank, true, {}, {}});
  parts_.back().stretches.push_back(std::move(stretch));
}

// Returns the item of a base run without rows.
Item FoldParts::TemplateOf(const Table& table) const {
  Item item = *table.runs[0].item;
  item.data_version = target_.version;
  item.placement = Item::Placement::kBulk;
  item.run = Item::Run::kBase;
  item.rows = item.erased_rows = 0;
  item.raw_bytes = item.stored_bytes = 0;
  item.chunk_hashes.clear();
  item.base_reason.clear();
  // The folded run contains values from all runs of the chain, so its errors
  // are their maximum.
  for (const RankItem& run : table.runs) AddErrors(*run.item, &item);
  return item;
}

// A note is synced after the files of its part, so comparing their sizes
// suffices.
bool FoldParts::HasFiles(const internal::StagedRecord& staged) const {
  return std::all_of(
      staged.files.begin(), staged.files.end(),
      [&](const internal::StagedFile& file) {
        uint64_t bytes = 0;
        return target_.files
                   ->GetFileSize(absl::StrCat(target_.store, "/", file.path),
                                 rocksdb::IOOptions(), &bytes, nullptr)
                   .ok() &&
               bytes == file.bytes;
      });
}

// Takes over a part that an interrupted fold has finished. Returns false if the
// part must be folded, for any reason.
bool FoldParts::ReadNote(size_t index) {
  Part& part = parts_[index];
  const absl::StatusOr<std::string> bytes =
      ReadFile(target_.files.get(), NotePath(index), kMaxRecordBytes);
  if (!bytes.ok()) return false;
  absl::StatusOr<internal::StagedRecord> staged = DecodeStagedRank(*bytes);
  if (!staged.ok() || staged->uuid != target_.uuid ||
      staged->version != target_.version || staged->rank != part.rank ||
      !HasFiles(*staged)) {
    return false;
  }
  absl::StatusOr<StepRecord::Rank> record =
      DecodeRankRecord(staged->rank_record);
  const bool same =
      record.ok() && std::equal(record->items.begin(), record->items.end(),
                                part.stretches.begin(), part.stretches.end(),
                                [](const Item& item, const Stretch& stretch) {
                                  return item.name == stretch.table->name;
                                });
  if (!same) return false;
  for (size_t i = 0; i < part.stretches.size(); ++i) {
    part.stretches[i].item = std::move(record->items[i]);
  }
  part.staged = *std::move(staged);
  return true;
}

// Adds these streams to a stretch's item.
absl::Status FoldParts::MergeStretch(uint32_t rank, bool ids,
                                     absl::Span<const size_t> slots,
                                     RunOutput* output, Stretch* stretch) {
  const Table& table = *stretch->table;
  Item& item = stretch->item;
  RunWriter writer(
      item, ItemPrefix(target_.version, rank, Item::Kind::kRows, table.name),
      ids, slots, output);
  ScanOptions scan;
  scan.read.readahead_bytes = options_.readahead_bytes;
  CancellableSink sink(options_.cancelled, &writer);
  for (const RunGroup& group : stretch->groups) {
    RunMerge merge(step_, table.runs, group, slots, scan);
    CKPTDB_RETURN_IF_ERROR(merge.Run(&sink));
  }
  CKPTDB_RETURN_IF_ERROR(writer.Finish());
  item.rows = writer.rows();
  item.raw_bytes = writer.rows() * RowBytes(item);
  item.stored_bytes += writer.stored_bytes();
  const std::vector<uint64_t> hashes = writer.Hashes();
  item.chunk_hashes.insert(item.chunk_hashes.end(), hashes.begin(),
                           hashes.end());
  return absl::OkStatus();
}

SegmentWriterOptions FoldParts::WritingOptions(size_t files) const {
  SegmentWriterOptions writing;
  writing.env = env_.get();
  writing.direct_writes = target_.direct_writes;
  writing.buffer_bytes = std::max(kLeastBufferBytes, kBuffersBytes / files);
  return writing;
}

// Writes each stream of a large table to a separate file, in rounds of as many
// as may be open at once. Each round reads the ids, which determine the merge.
absl::Status FoldParts::WriteStreams(size_t index, Part* part) {
  Stretch& stretch = part->stretches[0];
  const std::vector<size_t> slots = AllSlots(*stretch.table->runs[0].item);
  const size_t workers = static_cast<size_t>(std::max(options_.threads, 1));
  const size_t most = std::max<size_t>(target_.most_files / workers, 2);
  for (size_t done = 0; done == 0 || done < slots.size();) {
    // The ids are written in the first round.
    const bool ids = done == 0;
    const auto some = absl::MakeConstSpan(slots).subspan(
        done, std::min(slots.size() - done, most - (ids ? 1 : 0)));
    StreamFiles files(WritingOptions(some.size() + 1), FilePath(index));
    CKPTDB_RETURN_IF_ERROR(
        MergeStretch(part->rank, ids, some, &files, &stretch));
    CKPTDB_RETURN_IF_ERROR(files.Finish(&part->staged.files));
    if (slots.empty()) break;
    done += some.size();
  }
  return absl::OkStatus();
}

absl::Status FoldParts::WriteShared(size_t index, Part* part) {
  // Most streams of a small table consist of one page.
  uint64_t pages = 0;
  for (const Stretch& stretch : part->stretches) {
    pages += stretch.table->runs[0].item->slots.size() + 1;
  }
  SegmentWriterOptions writing = WritingOptions(1);
  writing.small_entries = AreSmallEntries(part->bytes(), pages);
  SharedFile file(writing, FilePath(index));
  for (Stretch& stretch : part->stretches) {
    CKPTDB_RETURN_IF_ERROR(CheckInterrupted(options_.cancelled));
    CKPTDB_RETURN_IF_ERROR(MergeStretch(part->rank, /*ids=*/true,
                                        AllSlots(*stretch.table->runs[0].item),
                                        &file, &stretch));
    CKPTDB_RETURN_IF_ERROR(file.EndRun());
  }
  return file.Finish(&part->staged.files);
}

// The part is finished once its note is durable; a resumed fold then skips it.
absl::Status FoldParts::WriteNote(size_t index, Part* part) {
  for (internal::StagedFile& file : part->staged.files) {
    file.path = file.path.substr(target_.store.size() + 1);
  }
  part->staged.uuid = target_.uuid;
  part->staged.version = target_.version;
  part->staged.rank = part->rank;
  part->staged.world_size = step_.record().world_size;
  StepRecord::Rank record{target_.version, part->rank, {}};
  for (const Stretch& stretch : part->stretches) {
    record.items.push_back(stretch.item);
  }
  CKPTDB_ASSIGN_OR_RETURN(part->staged.rank_record, EncodeRankRecord(record));
  CKPTDB_ASSIGN_OR_RETURN(const std::string note,
                          EncodeStagedRank(part->staged));
  return ReplaceFile(target_.files.get(), NotePath(index), note, /*sync=*/true);
}

absl::Status FoldParts::DoPart(size_t index) {
  CKPTDB_RETURN_IF_ERROR(CheckInterrupted(options_.cancelled));
  Part& part = parts_[index];
  for (Stretch& stretch : part.stretches) {
    stretch.item = TemplateOf(*stretch.table);
  }
  CKPTDB_RETURN_IF_ERROR(part.shares_file ? WriteShared(index, &part)
                                          : WriteStreams(index, &part));
  CKPTDB_RETURN_IF_ERROR(WriteNote(index, &part));
  return progress_.Advance(part.bytes());
}

// Sets *open to the unfinished parts, and creates their folders.
absl::Status FoldParts::PrepareParts(std::vector<size_t>* open) {
  std::set<uint32_t> made;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (ReadNote(i)) {
      ++resumed_;
      CKPTDB_RETURN_IF_ERROR(progress_.Advance(parts_[i].bytes()));
      continue;
    }
    open->push_back(i);
    if (!made.insert(parts_[i].rank).second) continue;
    CKPTDB_RETURN_IF_ERROR(
        MakeFolders(target_.files.get(),
                    absl::StrCat(target_.store, "/", Folder(parts_[i].rank))));
  }
  return absl::OkStatus();
}

absl::Status FoldParts::Run() {
  CKPTDB_RETURN_IF_ERROR(Plan());
  std::vector<size_t> open;
  CKPTDB_RETURN_IF_ERROR(PrepareParts(&open));
  absl::Status status = ParallelFor(
      options_.threads, open.size(),
      [&](int, uint64_t i) { return DoPart(open[i]); },
      [&] { return CheckInterrupted(options_.cancelled); });
  if (status.ok()) return status;
  for (const size_t part : open) RemoveUnfinished(part);
  return status;
}

// Removes the files of a part without a valid note, which a resumed fold writes
// again. A file that cannot be removed is left to the sweep.
void FoldParts::RemoveUnfinished(size_t index) {
  if (ReadNote(index)) return;
  const std::string folder =
      absl::StrCat(target_.store, "/", Folder(parts_[index].rank));
  const auto names = ListFolder(target_.files.get(), folder);
  if (!names.ok()) return;
  const std::string part = absl::StrCat("fold-", index);
  for (const std::string& name : *names) {
    // See SharedFile and StreamFiles.
    if (!absl::StartsWith(name, part + ".") &&
        !absl::StartsWith(name, part + "-")) {
      continue;
    }
    RemoveFile(target_.files.get(), absl::StrCat(folder, "/", name))
        .IgnoreError();
  }
}

std::vector<std::string> FoldParts::Files() const {
  std::vector<std::string> files;
  for (const Part& part : parts_) {
    for (const internal::StagedFile& file : part.staged.files) {
      files.push_back(absl::StrCat(target_.store, "/", file.path));
    }
  }
  return files;
}

// Joins the stretches of a rank's table into one run: stream by stream, and
// within a stream stretch by stretch.
Item FoldParts::ItemOf(const std::vector<const Stretch*>& stretches) const {
  Item item = TemplateOf(*stretches[0]->table);
  std::vector<std::string> streams(item.slots.size() + 1);
  for (const Stretch* const stretch : stretches) {
    item.rows += stretch->item.rows;
    item.raw_bytes += stretch->item.raw_bytes;
    item.stored_bytes += stretch->item.stored_bytes;
    const std::vector<uint64_t>& hashes = stretch->item.chunk_hashes;
    // All streams of a stretch have the same number of pages, so the hashes of
    // each are adjacent.
    const size_t pages = hashes.size() / streams.size();
    for (size_t i = 0; i < streams.size(); ++i) {
      streams[i].append(
          reinterpret_cast<const char*>(hashes.data() + i * pages),
          pages * sizeof(uint64_t));
    }
  }
  std::string all;
  for (const std::string& stream : streams) all += stream;
  item.digest = HashBytes(all);
  return item;
}

std::vector<StepRecord::Rank> FoldParts::Ranks() const {
  std::map<uint32_t, std::map<std::string, std::vector<const Stretch*>>> folded;
  for (const Part& part : parts_) {
    for (const Stretch& stretch : part.stretches) {
      folded[part.rank][stretch.table->name].push_back(&stretch);
    }
  }
  std::vector<StepRecord::Rank> ranks;
  for (const StepRecord::Rank& old : step_.ranks()) {
    StepRecord::Rank& rank = ranks.emplace_back();
    rank.version = target_.version;
    rank.rank = old.rank;
    for (const Item& item : old.items) {
      // Tensors, blobs and tables in base runs stay in place, and become
      // references of the folded step.
      if (item.kind != Item::Kind::kRows || item.run == Item::Run::kBase) {
        rank.items.push_back(item);
      }
    }
    for (const auto& [name, stretches] : folded[old.rank]) {
      rank.items.push_back(ItemOf(stretches));
    }
    std::sort(rank.items.begin(), rank.items.end(), ItemLess);
  }
  return ranks;
}

}  // namespace ckptdb::internal
