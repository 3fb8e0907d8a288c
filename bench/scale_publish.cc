// SPDX-License-Identifier: Apache-2.0
// The commit of a save of very many ranks that have each staged a few files,
// against as many files linked and synced.
#include <fcntl.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/sst_file_writer.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/cases.h"
#include "bench/disk.h"
#include "bench/measure.h"
#include "db/base/parallel.h"
#include "db/disk/rocks_status.h"
#include "db/rocks/rocks_options.h"
#include "db/stage/segments.h"
#include "db/store.h"
#include "schema/records/staged.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr uint32_t kWorlds[] = {1, 16, 256, 1024};
constexpr uint64_t kFilesPerRank = 4;
// All bytes of a rank are just too many for the write batch, also of one rank.
constexpr uint64_t kLayers = 4;
constexpr uint64_t kLayerElements = 36'000;
constexpr uint64_t kLayerBytes = kLayerElements * sizeof(float);
constexpr uint64_t kRankRows = 16;
constexpr int kStagers = 4;
constexpr double kMaxMillisPerFile = 2;
// The limit for the milliseconds a rank of a commit, against those of 16 ranks.
constexpr double kMaxGrowthPerRank = 1.25;
constexpr int64_t kMaxPublishRepetitions = 3;

// Writes the entries of a staged file into `kFilesPerRank` files instead, as if
// they were large.
absl::Status SplitFile(const std::string& store, StagedRank* staged) {
  internal::StagedRecord& record = staged->record();
  if (record.files.size() != 1) {
    return absl::InternalError(absl::StrCat("rank ", record.rank, " staged ",
                                            record.files.size(), " files"));
  }
  const internal::StagedFile whole = record.files.front();
  const std::string folder = whole.path.substr(0, whole.path.rfind('/'));
  rocksdb::SstFileReader reader(
      internal::FileWriterOptions(rocksdb::Env::Default()));
  CKPTDB_RETURN_IF_ERROR(internal::FromRocks(
      reader.Open(absl::StrCat(store, "/", whole.path)), whole.path));
  const std::unique_ptr<rocksdb::Iterator> entries(
      reader.NewIterator(rocksdb::ReadOptions()));
  entries->SeekToFirst();
  record.files.clear();
  for (uint64_t part = 0; part < kFilesPerRank; ++part) {
    internal::StagedFile file;
    file.path = absl::StrCat(folder, "/part", part, ".sst");
    file.first_entry = part * whole.entries / kFilesPerRank;
    file.entries =
        (part + 1) * whole.entries / kFilesPerRank - file.first_entry;
    const auto writer = internal::NewSegmentWriter(
        {.env = rocksdb::Env::Default(), .direct_writes = false});
    rocksdb::Status status = writer->Open(absl::StrCat(store, "/", file.path));
    for (uint64_t i = 0; i < file.entries && status.ok(); ++i) {
      status = writer->Put(entries->key(), entries->value());
      entries->Next();
    }
    rocksdb::ExternalSstFileInfo info;
    if (status.ok()) status = writer->Finish(&info);
    CKPTDB_RETURN_IF_ERROR(internal::FromRocks(status, file.path));
    file.bytes = info.file_size;
    record.files.push_back(file);
  }
  return Remove(absl::StrCat(store, "/", whole.path));
}

// The state of all ranks: layers that are divided by rows, and a table.
class PublishedRanks {
 public:
  PublishedRanks(std::string path, uint32_t ranks)
      : path_(std::move(path)), ranks_(ranks), values_(kLayerElements) {}

  absl::Status Open() {
    StoreOptions options;
    options.background_sweep = false;
    CKPTDB_ASSIGN_OR_RETURN(store_, Store::Open(path_, options));
    return absl::OkStatus();
  }

  Contestant AsContestant(const std::string& name) {
    Contestant publish;
    publish.name = name;
    publish.prepare = [this] { return StageAll(); };
    publish.run = [this]() -> absl::Status {
      return store_->Publish(attempt_.version, staged_, {}).status();
    };
    return publish;
  }

  uint64_t files() const { return ranks_ * kFilesPerRank; }
  uint64_t bytes() const { return uint64_t{ranks_} * kLayers * kLayerBytes; }

 private:
  // Removes the step before, and stages the next one.
  absl::Status StageAll() {
    if (step_ > 0) CKPTDB_RETURN_IF_ERROR(store_->Delete(step_));
    CKPTDB_RETURN_IF_ERROR(store_->Sweep().status());
    SaveSpec spec;
    spec.step = ++step_;
    spec.world_size = ranks_;
    CKPTDB_ASSIGN_OR_RETURN(attempt_, store_->Begin(spec));
    staged_.assign(ranks_, StagedRank());
    std::fill(values_.begin(), values_.end(), static_cast<float>(step_));
    CKPTDB_RETURN_IF_ERROR(internal::ParallelFor(
        kStagers, ranks_, [this](int /*worker*/, uint64_t rank) {
          return StageRank(static_cast<uint32_t>(rank));
        }));
    return SyncFileSystem(path_);
  }

  absl::Status StageRank(uint32_t rank) {
    RankState state;
    const auto elements = static_cast<int64_t>(values_.size());
    for (uint64_t layer = 0; layer < kLayers; ++layer) {
      TensorView view = TensorView::Of(values_.data(), {elements});
      view.global_shape = {elements * ranks_};
      view.offset = {elements * rank};
      state.AddTensor(absl::StrCat("layer", layer), view);
    }
    std::vector<int64_t> ids;
    for (uint64_t i = 0; i < kRankRows; ++i) {
      ids.push_back(static_cast<int64_t>(rank + i * ranks_));
    }
    const std::vector<float> rows(kRankRows);
    RowSource::Arrays source(
        ids, {{reinterpret_cast<const char*>(rows.data()), sizeof(float)}});
    state.AddTable("user", {{"embedding", DType::kF32, 1}}, &source,
                   SliceHash::kModulo, TableSharding::ByModulo());
    StoreOptions stage;
    stage.stage_threads = 1;
    stage.direct_writes = false;
    CKPTDB_ASSIGN_OR_RETURN(staged_[rank],
                            Stage(path_, attempt_.tickets[rank], state, stage));
    return SplitFile(path_, &staged_[rank]);
  }

  const std::string path_;
  const uint32_t ranks_;
  std::vector<float> values_;
  std::unique_ptr<Store> store_;
  Store::Attempt attempt_;
  std::vector<StagedRank> staged_;
  int64_t step_ = 0;
};

// Links as many files as a commit takes over into another folder, and syncs
// each of them and the folder.
class LinkedFiles {
 public:
  LinkedFiles(std::string from, std::string to, uint64_t files)
      : from_(std::move(from)), to_(std::move(to)), files_(files) {}

  Contestant AsContestant() {
    Contestant link;
    link.name = "link and sync";
    link.prepare = [this]() -> absl::Status {
      CKPTDB_RETURN_IF_ERROR(MakeEmptyFolder(from_));
      CKPTDB_RETURN_IF_ERROR(MakeEmptyFolder(to_));
      const std::string bytes(kLayerBytes, 'x');
      for (uint64_t i = 0; i < files_; ++i) {
        const OpenFile file(absl::StrCat(from_, "/", i), O_WRONLY | O_CREAT);
        CKPTDB_RETURN_IF_ERROR(file.opened());
        CKPTDB_RETURN_IF_ERROR(file.Append(bytes));
      }
      return SyncFileSystem(from_);
    };
    link.run = [this]() -> absl::Status {
      for (uint64_t i = 0; i < files_; ++i) {
        const std::string path = absl::StrCat(to_, "/", i);
        if (::link(absl::StrCat(from_, "/", i).c_str(), path.c_str()) != 0) {
          return ErrnoError("link", path);
        }
        CKPTDB_RETURN_IF_ERROR(OpenFile(path, O_RDWR).Sync());
      }
      return OpenFile(to_, O_RDONLY | O_DIRECTORY).Sync();
    };
    link.finish = [this]() -> absl::Status {
      CKPTDB_RETURN_IF_ERROR(Remove(from_));
      return Remove(to_);
    };
    return link;
  }

 private:
  const std::string from_;
  const std::string to_;
  const uint64_t files_;
};

absl::StatusOr<CaseResult> ComparePublish(const BenchOptions& options,
                                          const std::string& name,
                                          uint32_t ranks) {
  constexpr uint64_t kCopies = 4;
  PublishedRanks sizes("", ranks);
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * sizes.bytes() + (1 << 28)));
  PublishedRanks published(workspace->Path("store"), ranks);
  CKPTDB_RETURN_IF_ERROR(published.Open());
  LinkedFiles linked(workspace->Path("from"), workspace->Path("to"),
                     published.files());
  const std::vector<Contestant> contestants = {published.AsContestant("ours"),
                                               linked.AsContestant()};
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<Outcome> outcomes,
      TakeTurns(name, contestants,
                static_cast<int>(std::min<int64_t>(options.repetitions,
                                                   kMaxPublishRepetitions))));
  CaseResult result = Compare(name, published.bytes(), outcomes);
  const double millis = result.seconds.median * 1e3;
  const auto files = static_cast<double>(published.files());
  result.figures = {{"ranks", static_cast<double>(ranks)},
                    {"files", files},
                    {"ms_per_file", millis / files},
                    {"ms_per_rank", millis / ranks}};
  return result;
}

}  // namespace

absl::Status RunScalePublish(const BenchOptions& options, Report* report) {
  double millis_of_16 = 0;
  for (const uint32_t ranks : kWorlds) {
    if (ranks > options.max_ranks) break;
    CKPTDB_ASSIGN_OR_RETURN(
        CaseResult result,
        ComparePublish(options, absl::StrCat("scale/publish/", ranks), ranks));
    const double per_file = result.figures[2].value;
    const double per_rank = result.figures[3].value;
    if (ranks >= 16)
      result.goals = {{"ms_per_file", per_file, kMaxMillisPerFile}};
    if (ranks == 16) millis_of_16 = per_rank;
    if (ranks > 16) {
      result.goals.push_back({"times_the_ms_of_16_per_rank",
                              per_rank / millis_of_16, kMaxGrowthPerRank});
    }
    report->Add(std::move(result));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
