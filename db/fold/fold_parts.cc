#include "ckptdb/db/fold/fold_parts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/db/base/parallel.h"
#include "ckptdb/db/base/paths.h"
#include "ckptdb/db/disk/files.h"
#include "ckptdb/db/disk/rocks_status.h"
#include "ckptdb/db/fold/run_writer.h"
#include "ckptdb/db/read/run_merge.h"
#include "ckptdb/schema/bytes/keys.h"
#include "ckptdb/schema/bytes/limits.h"
#include "ckptdb/schema/bytes/lossy.h"
#include "ckptdb/schema/bytes/page.h"
#include "ckptdb/schema/records/records.h"
#include "ckptdb/schema/status.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {
namespace {

// The size of a part: it bounds what an interruption loses, and how uneven the
// work of workers is.
constexpr uint64_t kPartBytes = uint64_t{128} << 20;
// Bytes of the write buffers of the files of a part.
constexpr uint64_t kBuffersBytes = uint64_t{16} << 20;
constexpr uint64_t kLeastBufferBytes = uint64_t{256} << 10;

// Returns the raw bytes of a row with its id, by which parts are cut and
// progress is counted.
uint64_t RowBytes(const Item& table) {
  uint64_t bytes = sizeof(int64_t);
  for (const Slot& slot : table.slots) bytes += slot.row_bytes();
  return bytes;
}

// Divides a group into ranges of about kPartBytes each.
// Slices are the unit, as ids fall into them evenly. A part that became too
// large by a skew of ids is only slower to redo.
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

// Makes the errors of a run those of the folded one, too.
void AddErrors(const Item& run, Item* folded) {
  if (run.errors.empty()) return;
  folded->errors.resize(folded->slots.size());
  for (size_t i = 0; i < folded->errors.size(); ++i) {
    folded->errors[i] = Larger(folded->errors[i], run.errors[i]);
  }
}

absl::Status Interrupted() {
  return absl::CancelledError(
      "the fold was interrupted; fold the step again to resume it");
}

absl::Status CheckCancelled(const std::function<bool()>& cancelled) {
  if (!cancelled) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(const bool stop,
                          CallGuarded("FoldOptions::cancelled", cancelled));
  return stop ? Interrupted() : absl::OkStatus();
}

// Passes rows on and checks from time to time whether the fold is cancelled.
class CancellableSink : public MergeSink {
 public:
  CancellableSink(const std::function<bool()>& cancelled, RunWriter* writer)
      : cancelled_(cancelled), writer_(writer) {}
  absl::Status Rows(const RowSink::Batch& batch) override {
    // The function is the caller's and may be slow, so it is not called for
    // each batch, which may have one row.
    constexpr uint64_t kRowsBetween = 4096;
    rows_ += batch.ids.size();
    if (rows_ >= kRowsBetween) {
      rows_ = 0;
      CKPTDB_RETURN_IF_ERROR(CheckCancelled(cancelled_));
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
                     const FoldOptions& options)
    : step_(step),
      target_(std::move(target)),
      options_(options),
      env_(rocksdb::NewCompositeEnv(target_.files)) {}

std::string FoldParts::Folder(uint32_t rank) const {
  return absl::StrCat(StagingOf(target_.version.attempt), "/", rank);
}

std::string FoldParts::NotePath(size_t part) const {
  return absl::StrCat(target_.store, "/", StagingOf(target_.version.attempt),
                      "/part-", part, ".note");
}

// Plans the parts of all tables that have a delta run. What is saved whole
// already is borrowed: see Ranks. The plan depends on the step alone, so that a
// fold that is resumed has the same parts.
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
    CKPTDB_RETURN_IF_ERROR(PlanTable(*table));
    tables_.push_back(std::move(table));
  }
  return absl::OkStatus();
}

// A rank keeps the rows of its slices. When the table is not divided by slices,
// the first rank gets all rows.
absl::Status FoldParts::PlanTable(const Table& table) {
  const std::vector<uint32_t>& bounds = step_.record().slice_bounds;
  const bool by_slices = table.runs[0].by_slices();
  const uint32_t ranks = by_slices ? step_.record().world_size : 1;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const SliceRange own =
        by_slices ? SliceRange{bounds[rank], bounds[rank + size_t{1}]}
                  : SliceRange();
    if (own.begin == own.end) continue;
    for (const RunGroup& group : GroupRuns(table.runs, own)) {
      for (RunGroup& range : CutGroup(table.runs, group)) {
        all_bytes_ +=
            EstimateRows(table.runs, range) * RowBytes(*table.runs[0].item);
        parts_.push_back({&table, rank, std::move(range), {}, {}});
      }
    }
  }
  return absl::OkStatus();
}

// Returns the item of a base run that has no rows yet.
Item FoldParts::TemplateOf(const Part& part) const {
  Item item = *part.table->runs[0].item;
  item.data_version = target_.version;
  item.placement = Item::Placement::kBulk;
  item.run = Item::Run::kBase;
  item.rows = item.erased_rows = 0;
  item.raw_bytes = item.stored_bytes = 0;
  item.chunk_hashes.clear();
  item.base_reason.clear();
  // The folded run has values of all runs of the chain, so its errors are the
  // largest of them.
  for (const RankItem& run : part.table->runs) AddErrors(*run.item, &item);
  return item;
}

// A note is synced after the files of its part, so it is enough to compare
// their sizes.
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

// Returns nullopt when the part has to be done, for whatever reason.
std::optional<internal::StagedRecord> FoldParts::ReadNote(size_t part) const {
  const absl::StatusOr<std::string> bytes =
      ReadFile(target_.files.get(), NotePath(part), kMaxRecordBytes);
  if (!bytes.ok()) return std::nullopt;
  absl::StatusOr<internal::StagedRecord> staged = DecodeStagedRank(*bytes);
  if (!staged.ok() || staged->uuid != target_.uuid ||
      staged->version != target_.version || staged->rank != parts_[part].rank ||
      !HasFiles(*staged)) {
    return std::nullopt;
  }
  return *std::move(staged);
}

absl::Status FoldParts::Advance(uint64_t bytes) {
  if (!options_.progress) return absl::OkStatus();
  const MutexLock lock(&mutex_);
  // The bytes are estimated, so the sum may come out higher than what was
  // planned.
  const uint64_t done = done_bytes_ = std::min(done_bytes_ + bytes, all_bytes_);
  return CallGuarded("FoldOptions::progress",
                     [&] { options_.progress(done, all_bytes_); });
}

absl::Status FoldParts::MergePart(size_t index, RunWriter* writer) {
  const Part& part = parts_[index];
  std::vector<size_t> slots;
  for (size_t i = 0; i < part.table->runs[0].item->slots.size(); ++i) {
    slots.push_back(i);
  }
  ReadOptions read;
  read.readahead_bytes = options_.readahead_bytes;
  // An empty function: all rows are wanted.
  const std::function<bool(int64_t)> all;
  RunMerge merge(step_, part.table->runs, part.group, slots, read, all);
  CancellableSink sink(options_.cancelled, writer);
  return merge.Run(&sink);
}

absl::Status FoldParts::DoPart(size_t index) {
  CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_.cancelled));
  Part& part = parts_[index];
  const uint64_t bytes = EstimateRows(part.table->runs, part.group) *
                         RowBytes(*part.table->runs[0].item);
  part.item = TemplateOf(part);
  SegmentWriterOptions writing;
  writing.env = env_.get();
  writing.direct_writes = target_.direct_writes;
  writing.buffer_bytes =
      // All files of a part are open at once, and a table may have 256 slots.
      std::max(kLeastBufferBytes, kBuffersBytes / (part.item.slots.size() + 1));
  const std::string folder =
      absl::StrCat(target_.store, "/", Folder(part.rank));
  RunWriter writer(
      writing, part.item,
      ItemPrefix(target_.version, part.rank, Item::Kind::kRows, part.item.name),
      absl::StrCat(folder, "/part-", index));
  CKPTDB_RETURN_IF_ERROR(MergePart(index, &writer));
  CKPTDB_ASSIGN_OR_RETURN(part.staged.files, writer.Finish());
  for (internal::StagedFile& file : part.staged.files) {
    file.path = file.path.substr(target_.store.size() + 1);
  }
  part.item.rows = writer.rows();
  part.item.raw_bytes = writer.rows() * RowBytes(part.item);
  part.item.stored_bytes = writer.stored_bytes();
  part.item.chunk_hashes = writer.Hashes();
  part.staged.uuid = target_.uuid;
  part.staged.version = target_.version;
  part.staged.rank = part.rank;
  part.staged.world_size = step_.record().world_size;
  CKPTDB_ASSIGN_OR_RETURN(
      part.staged.rank_record,
      EncodeRankRecord({target_.version, part.rank, {part.item}}));
  CKPTDB_ASSIGN_OR_RETURN(const std::string note,
                          EncodeStagedRank(part.staged));
  // The part is done once its note is durable: a fold that is resumed then
  // skips it.
  CKPTDB_RETURN_IF_ERROR(ReplaceFile(target_.files.get(), NotePath(index), note,
                                     /*sync=*/true));
  return Advance(bytes);
}

absl::Status FoldParts::Run() {
  CKPTDB_RETURN_IF_ERROR(Plan());
  std::vector<size_t> open;
  for (size_t i = 0; i < parts_.size(); ++i) {
    std::optional<internal::StagedRecord> staged = ReadNote(i);
    absl::StatusOr<StepRecord::Rank> record =
        staged.has_value() ? DecodeRankRecord(staged->rank_record)
                           : absl::NotFoundError("");
    if (!record.ok() || record->items.size() != 1) {
      open.push_back(i);
      CKPTDB_RETURN_IF_ERROR(MakeFolders(
          target_.files.get(),
          absl::StrCat(target_.store, "/", Folder(parts_[i].rank))));
      continue;
    }
    parts_[i].staged = *std::move(staged);
    parts_[i].item = std::move(record->items[0]);
    // A part that is done keeps its files; its folder was made with the first
    // of them.
    ++resumed_;
    CKPTDB_RETURN_IF_ERROR(Advance(parts_[i].item.raw_bytes));
  }
  return ParallelFor(options_.threads, open.size(),
                     [&](int, uint64_t i) { return DoPart(open[i]); });
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

// Joins the parts of a rank into one run: stream by stream, and in each part by
// part.
Item FoldParts::ItemOf(const Table& table, uint32_t rank) const {
  Item item;
  std::vector<std::string> streams;
  for (const Part& part : parts_) {
    if (part.table != &table || part.rank != rank) continue;
    if (streams.empty()) {
      item = TemplateOf(part);
      streams.resize(item.slots.size() + 1);
    }
    item.rows += part.item.rows;
    item.raw_bytes += part.item.raw_bytes;
    item.stored_bytes += part.item.stored_bytes;
    const std::vector<uint64_t>& hashes = part.item.chunk_hashes;
    // Every stream of a part has as many pages, so the hashes of each are one
    // stretch.
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
  std::vector<StepRecord::Rank> ranks;
  for (const StepRecord::Rank& old : step_.ranks()) {
    StepRecord::Rank& rank = ranks.emplace_back();
    rank.version = target_.version;
    rank.rank = old.rank;
    for (const Item& item : old.items) {
      // Tensors, blobs and tables that are in base runs stay where they are,
      // and become references of the folded step.
      if (item.kind != Item::Kind::kRows || item.run == Item::Run::kBase) {
        rank.items.push_back(item);
      }
    }
    for (const auto& table : tables_) {
      Item item = ItemOf(*table, old.rank);
      if (!item.name.empty()) rank.items.push_back(std::move(item));
    }
    // A rank record has its items sorted by kind and name.
    std::sort(rank.items.begin(), rank.items.end(),
              [](const Item& a, const Item& b) {
                return std::tie(a.kind, a.name) < std::tie(b.kind, b.name);
              });
  }
  return ranks;
}

}  // namespace ckptdb::internal
