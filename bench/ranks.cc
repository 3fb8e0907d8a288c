// A save of ranks that are processes on one host, against one process that
// saves the same bytes by as many threads in all; and what it would save if one
// of the ranks staged for all.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/bench/cases.h"
#include "ckptdb/bench/disk.h"
#include "ckptdb/bench/measure.h"
#include "ckptdb/bench/payload.h"
#include "ckptdb/bench/rank_process.h"
#include "ckptdb/bench/raw_io.h"
#include "ckptdb/db/base/parallel.h"
#include "ckptdb/db/store.h"
#include "ckptdb/schema/records/staged.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr uint32_t kProcesses = 4;
constexpr int kThreadsInAll = 8;
constexpr double kMaxTimesOneProcess = 1.15;
// Rows of `full` for each of this case, which has them three times in memory.
constexpr uint64_t kRowsDivisor = 4;

class RankSaves {
 public:
  static absl::StatusOr<std::unique_ptr<RankSaves>> Make(
      const Workspace& workspace, uint64_t rows, uint64_t seed) {
    std::unique_ptr<RankSaves> saves(new RankSaves());
    const uint64_t part = std::max<uint64_t>(rows / kProcesses, 1);
    for (uint32_t rank = 0; rank < kProcesses; ++rank) {
      CKPTDB_ASSIGN_OR_RETURN(saves->processes_.emplace_back(),
                              RankProcess::Start(part, seed + rank));
      CKPTDB_ASSIGN_OR_RETURN(saves->parts_.emplace_back(),
                              Table::Make(part, seed + rank));
    }
    CKPTDB_ASSIGN_OR_RETURN(saves->whole_,
                            Table::Make(part * kProcesses, seed + kProcesses));
    StoreOptions options;
    options.background_sweep = false;
    CKPTDB_ASSIGN_OR_RETURN(saves->store_,
                            Store::Open(workspace.Path("store"), options));
    return saves;
  }

  std::vector<Contestant> Contestants() {
    return {As("4 processes", kProcesses, [this] { return ByProcesses(); }),
            As("one process", 1, [this] { return ByOneRank(); }),
            As("one process with 4 tickets", kProcesses,
               [this] { return ByLeader(); })};
  }

  // Copies the bytes of all ranks to memory that processes share, as a rank
  // that staged for others would need them.
  Contestant Copy() {
    Contestant copy;
    copy.name = "copy to shared memory";
    copy.prepare = [this]() -> absl::Status {
      shared_ = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      return shared_ == MAP_FAILED ? ErrnoError("mmap", "shared memory")
                                   : absl::OkStatus();
    };
    copy.run = [this] {
      return internal::ParallelFor(
          kProcesses, kProcesses, [this](int /*worker*/, uint64_t rank) {
            char* to = static_cast<char*>(shared_) + rank * parts_[0]->bytes();
            for (const Memory& memory : parts_[rank]->payload()) {
              std::memcpy(to, memory.data, memory.bytes);
              to += memory.bytes;
            }
            return absl::OkStatus();
          });
    };
    copy.finish = [this] {
      munmap(shared_, bytes());
      return absl::OkStatus();
    };
    return copy;
  }

  uint64_t bytes() const { return whole_->bytes(); }
  // The files of the last save of each contestant.
  double files_of_processes() const { return Count(files_of_processes_); }
  double files_of_one() const { return Count(files_of_one_); }
  double files_of_leader() const { return Count(files_of_leader_); }

 private:
  using Staged = absl::StatusOr<std::vector<StagedRank>>;

  static double Count(uint64_t files) { return static_cast<double>(files); }

  Contestant As(const std::string& name, uint32_t world_size,
                std::function<Staged()> stage_all) {
    Contestant save;
    save.name = name;
    save.prepare = [this]() -> absl::Status {
      if (step_ > 0) CKPTDB_RETURN_IF_ERROR(store_->Delete(step_));
      CKPTDB_RETURN_IF_ERROR(store_->Sweep().status());
      return SyncFileSystem(store_->path());
    };
    save.run = [this, world_size,
                stage = std::move(stage_all)]() -> absl::Status {
      SaveSpec spec;
      spec.step = ++step_;
      spec.world_size = world_size;
      CKPTDB_ASSIGN_OR_RETURN(attempt_, store_->Begin(spec));
      CKPTDB_ASSIGN_OR_RETURN(const std::vector<StagedRank> staged, stage());
      return store_->Publish(attempt_.version, staged, {}).status();
    };
    return save;
  }

  Staged ByProcesses() {
    for (uint32_t rank = 0; rank < kProcesses; ++rank) {
      CKPTDB_RETURN_IF_ERROR(processes_[rank]->Send(
          store_->path(), attempt_.tickets[rank], kThreadsInAll / kProcesses));
    }
    std::vector<StagedRank> staged(kProcesses);
    for (uint32_t rank = 0; rank < kProcesses; ++rank) {
      CKPTDB_ASSIGN_OR_RETURN(staged[rank], processes_[rank]->Receive());
    }
    files_of_processes_ = FilesOf(staged);
    return staged;
  }

  Staged ByOneRank() {
    std::vector<StagedRank> staged(1);
    CKPTDB_ASSIGN_OR_RETURN(
        staged[0], StageTable(*whole_, attempt_.tickets[0], kThreadsInAll));
    files_of_one_ = FilesOf(staged);
    return staged;
  }

  // The tickets of all ranks, in one process.
  Staged ByLeader() {
    std::vector<StagedRank> staged(kProcesses);
    CKPTDB_RETURN_IF_ERROR(internal::ParallelFor(
        kProcesses, kProcesses,
        [&](int /*worker*/, uint64_t rank) -> absl::Status {
          CKPTDB_ASSIGN_OR_RETURN(
              staged[rank], StageTable(*parts_[rank], attempt_.tickets[rank],
                                       kThreadsInAll / kProcesses));
          return absl::OkStatus();
        }));
    files_of_leader_ = FilesOf(staged);
    return staged;
  }

  absl::StatusOr<StagedRank> StageTable(const Table& table,
                                        const Ticket& ticket,
                                        int threads) const {
    RankState state;
    table.AddTo(&state, TableSharding::Unchecked());
    StageOptions stage;
    stage.threads = threads;
    stage.rewrite_unchanged = true;
    return Stage(store_->path(), ticket, state, stage);
  }

  static uint64_t FilesOf(const std::vector<StagedRank>& staged) {
    uint64_t files = 0;
    for (const StagedRank& rank : staged) files += rank.record().files.size();
    return files;
  }

  std::vector<std::unique_ptr<RankProcess>> processes_;
  std::vector<std::unique_ptr<Table>> parts_;
  std::unique_ptr<Table> whole_;
  std::unique_ptr<Store> store_;
  Store::Attempt attempt_;
  int64_t step_ = 0;
  void* shared_ = nullptr;
  uint64_t files_of_processes_ = 0;
  uint64_t files_of_one_ = 0;
  uint64_t files_of_leader_ = 0;
};

}  // namespace

absl::Status RunRanks(const BenchOptions& options, Report* report) {
  constexpr uint64_t kCopies = 2;
  const uint64_t rows = std::max<uint64_t>(options.rows / kRowsDivisor, 1);
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * rows * Table::kRowBytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto saves,
                          RankSaves::Make(*workspace, rows, options.seed));
  std::vector<Contestant> contestants = saves->Contestants();
  contestants.push_back(saves->Copy());
  CKPTDB_ASSIGN_OR_RETURN(std::vector<Outcome> outcomes,
                          TakeTurns("ranks", contestants, options.repetitions));
  const double leader = SecondsOf(outcomes[2]).median;
  const double copy = SecondsOf(outcomes[3]).median;
  outcomes.resize(2);
  CaseResult result = Compare("ranks", saves->bytes(), outcomes);
  result.figures = {{"files", saves->files_of_processes()},
                    {"files_of_one_process", saves->files_of_one()},
                    {"leader_seconds", leader},
                    {"leader_files", saves->files_of_leader()},
                    {"shared_memory_seconds", copy}};
  result.goals = {{"times_one_process", result.ratio(), kMaxTimesOneProcess}};
  report->Add(std::move(result));
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
