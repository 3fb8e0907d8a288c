// Restores of a table that ranks divide by the remainder of the id, on another
// number of ranks: rows that are exchanged against every rank reading all pages
// that have rows of its own, and against slices.
#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/bench/cases.h"
#include "ckptdb/bench/disk.h"
#include "ckptdb/bench/store_save.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/tables.h"
#include "ckptdb/schema/bytes/modulo_rank.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr uint32_t kSavers = 4;
constexpr uint32_t kElements = 64;
constexpr uint64_t kExchangedRowBytes =
    sizeof(int64_t) + 2 * kElements * sizeof(float);
constexpr double kMaxExchangeRatio = 1.25;

uint64_t BytesReadByProcess() {
  std::ifstream lines("/proc/self/io");
  std::string word;
  uint64_t bytes = 0;
  while (lines >> word) {
    if (word == "rchar:" && lines >> bytes) return bytes;
  }
  return 0;
}

// A coordinator without a direct all-to-all.
class NoExchange : public Coordinator {
 public:
  explicit NoExchange(std::unique_ptr<Coordinator> ranks)
      : ranks_(std::move(ranks)) {}
  uint32_t rank() const override { return ranks_->rank(); }
  uint32_t world_size() const override { return ranks_->world_size(); }
  absl::Status Barrier(absl::string_view tag,
                       absl::Duration deadline) override {
    return ranks_->Barrier(tag, deadline);
  }
  absl::StatusOr<std::string> Broadcast(absl::string_view tag,
                                        std::string value,
                                        absl::Duration deadline) override {
    return ranks_->Broadcast(tag, std::move(value), deadline);
  }
  absl::StatusOr<std::vector<std::string>> Gather(
      absl::string_view tag, std::string value,
      absl::Duration deadline) override {
    return ranks_->Gather(tag, std::move(value), deadline);
  }
  absl::StatusOr<std::unique_ptr<Coordinator>> Duplicate() override {
    return ranks_->Duplicate();
  }

 private:
  const std::unique_ptr<Coordinator> ranks_;
};

// Ranks that are threads, each with its rows of the table.
class Job {
 public:
  Job(const BenchOptions& options, std::string path, TableSharding sharding,
      uint32_t world_size, bool exchange)
      : group_(world_size), rows_(options.rows) {
    options_.path = std::move(path);
    options_.sharding = std::move(sharding);
    options_.read = ReadOptionsOf(options);
    options_.read.threads =
        std::max<int>(1, options_.read.threads / static_cast<int>(world_size));
    options_.stage = StageOptionsOf(options);
    options_.schedule.permanent = SaveAtSteps({});
    options_.store.background_sweep = false;
    for (uint32_t r = 0; r < world_size; ++r) {
      Rank& rank = ranks_.emplace_back();
      rank.coordinator = group_.Join(r);
      if (exchange) continue;
      rank.coordinator =
          std::make_unique<NoExchange>(std::move(rank.coordinator));
    }
  }

  absl::Status Open() {
    return RunAll([&](uint32_t r) -> absl::Status {
      Rank& rank = ranks_[r];
      rank.table = std::make_unique<ColumnTable>(
          std::vector<Slot>{{"embedding", DType::kF32, kElements},
                            {"adagrad_sum", DType::kF32, kElements}});
      rank.model = std::make_unique<ModelState>();
      CKPTDB_RETURN_IF_ERROR(rank.model->AddTable("user", rank.table.get()));
      CKPTDB_ASSIGN_OR_RETURN(
          rank.manager, CheckpointManager::Open(options_, rank.model.get(),
                                                std::move(rank.coordinator)));
      return absl::OkStatus();
    });
  }
  absl::Status Save() {
    return RunAll([&](uint32_t r) -> absl::Status {
      CKPTDB_RETURN_IF_ERROR(Fill(r));
      CKPTDB_RETURN_IF_ERROR(ranks_[r].manager->StepTo(1).status());
      CKPTDB_RETURN_IF_ERROR(ranks_[r].manager->Save().status());
      return ranks_[r].manager->Close();
    });
  }
  absl::Status Restore() {
    return RunAll(
        [&](uint32_t r) { return ranks_[r].manager->Restore().status(); });
  }
  absl::Status CheckRows() const {
    uint64_t rows = 0;
    for (const Rank& rank : ranks_) rows += rank.table->size();
    if (rows == rows_) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(rows, " rows were restored, expected ", rows_));
  }

 private:
  struct Rank {
    std::unique_ptr<Coordinator> coordinator;
    std::unique_ptr<ColumnTable> table;
    std::unique_ptr<ModelState> model;
    std::unique_ptr<CheckpointManager> manager;
  };

  bool Owns(int64_t id, uint32_t rank) const {
    const auto world_size = static_cast<uint32_t>(ranks_.size());
    if (options_.sharding.kind() == Item::Sharding::kByModulo) {
      return ModuloRank(world_size)(id) == rank;
    }
    const std::vector<uint32_t> bounds = EvenSliceBounds(world_size);
    const uint16_t slice = SliceOf(id, SliceHash::kModulo);
    return bounds[rank] <= slice && slice < bounds[rank + size_t{1}];
  }
  absl::Status Fill(uint32_t r) {
    std::vector<int64_t> ids;
    for (uint64_t i = 0; i < rows_; ++i) {
      const auto id = static_cast<int64_t>(MixId(i));
      if (Owns(id, r)) ids.push_back(id);
    }
    ColumnTable& table = *ranks_[r].table;
    std::vector<ColumnTable::Inserted> places;
    CKPTDB_RETURN_IF_ERROR(table.Insert(ids, &places));
    for (const char* const slot : {"embedding", "adagrad_sum"}) {
      CKPTDB_ASSIGN_OR_RETURN(const auto column, table.column<float>(slot));
      for (size_t i = 0; i < ids.size(); ++i) {
        auto bits = static_cast<uint64_t>(ids[i]);
        for (uint32_t e = 0; e < kElements; ++e) {
          bits = MixId(bits);
          column[places[i].row][e] = static_cast<float>(bits);
        }
      }
    }
    return absl::OkStatus();
  }
  absl::Status RunAll(const std::function<absl::Status(uint32_t)>& body) {
    std::vector<absl::Status> statuses(ranks_.size());
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      threads.emplace_back([&, r] { statuses[r] = body(r); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) {
      CKPTDB_RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

  ThreadGroup group_;
  const uint64_t rows_;
  ManagerOptions options_;
  std::vector<Rank> ranks_;
};

// A restore of what kSavers ranks saved on `ranks` ranks.
class ExchangeRestore {
 public:
  ExchangeRestore(const BenchOptions& options, std::string path,
                  TableSharding sharding, uint32_t ranks, bool exchange)
      : options_(options),
        path_(std::move(path)),
        sharding_(std::move(sharding)),
        ranks_(ranks),
        exchange_(exchange) {}

  Contestant As(const std::string& name) {
    Contestant restore;
    restore.name = name;
    restore.prepare = [this] {
      job_.reset();
      job_ =
          std::make_unique<Job>(options_, path_, sharding_, ranks_, exchange_);
      CKPTDB_RETURN_IF_ERROR(job_->Open());
      return MakeCold(path_);
    };
    restore.run = [this] {
      const uint64_t before = BytesReadByProcess();
      absl::Status status = job_->Restore();
      bytes_read_ = BytesReadByProcess() - before;
      return status;
    };
    restore.finish = [this] {
      absl::Status status = job_->CheckRows();
      job_.reset();
      return status;
    };
    return restore;
  }
  double bytes_read() const { return static_cast<double>(bytes_read_); }

 private:
  const BenchOptions options_;
  const std::string path_;
  const TableSharding sharding_;
  const uint32_t ranks_;
  const bool exchange_;
  std::unique_ptr<Job> job_;
  uint64_t bytes_read_ = 0;
};

absl::Status SaveBy(const TableSharding& sharding, const BenchOptions& options,
                    const std::string& path) {
  Job job(options, path, sharding, kSavers, /*exchange=*/true);
  CKPTDB_RETURN_IF_ERROR(job.Open());
  return job.Save();
}

}  // namespace

absl::Status RunExchange(const BenchOptions& options, Report* report) {
  constexpr uint64_t kCopies = 2;
  const uint64_t bytes = options.rows * kExchangedRowBytes;
  CKPTDB_ASSIGN_OR_RETURN(const auto workspace,
                          Workspace::Make(options.dir, kCopies * bytes));
  const std::string modulo = workspace->Path("modulo");
  const std::string slices = workspace->Path("slices");
  CKPTDB_RETURN_IF_ERROR(SaveBy(TableSharding::ByModulo(), options, modulo));
  CKPTDB_RETURN_IF_ERROR(SaveBy(TableSharding::BySlices(), options, slices));
  for (const uint32_t ranks : {3u, 8u}) {
    ExchangeRestore ours(options, modulo, TableSharding::ByModulo(), ranks,
                         /*exchange=*/true);
    ExchangeRestore all(options, modulo, TableSharding::ByModulo(), ranks,
                        /*exchange=*/false);
    ExchangeRestore sliced(options, slices, TableSharding::BySlices(), ranks,
                           /*exchange=*/false);
    const std::vector<Contestant> contestants = {
        ours.As("ours"), all.As("each reads all"), sliced.As("by slices")};
    const std::string name = absl::StrCat("exchange/", kSavers, "_", ranks);
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<Outcome> outcomes,
                            TakeTurns(name, contestants, options.repetitions));
    CaseResult result = Compare(name, bytes, outcomes);
    result.figures = {{"read_bytes", ours.bytes_read()},
                      {"read_bytes_each_reads_all", all.bytes_read()},
                      {"read_bytes_by_slices", sliced.bytes_read()}};
    result.goals = {{"read_bytes_ratio",
                     ours.bytes_read() / static_cast<double>(bytes),
                     kMaxExchangeRatio}};
    report->Add(std::move(result));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
