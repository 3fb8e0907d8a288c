// Saves of managers whose ranks are threads, up to a thousand: their time
// against that of threads that only meet, their memory, and what the managers
// send each other.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ckptdb/bench/cases.h"
#include "ckptdb/bench/counted_mailboxes.h"
#include "ckptdb/bench/disk.h"
#include "ckptdb/bench/measure.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr uint32_t kSavingWorlds[] = {16, 256, 1024};
constexpr int64_t kElementsOfRank = 16;
// A save is two gatherings and three tellings.
constexpr int kMeetings = 5;
constexpr double kMaxScaledSaveSeconds = 2;
constexpr double kMaxTrafficGrowth = 1.25;
constexpr absl::Duration kPatienceOfRanks = absl::Minutes(5);

// The managers of so many ranks, with a few numbers each, which save again and
// again together.
class SavingRanks {
 public:
  using Join = std::function<std::unique_ptr<Coordinator>(uint32_t rank)>;
  // Called on rank 0 when its save is over.
  using OnSaved = std::function<void()>;

  SavingRanks(std::string path, uint32_t world_size, int saves)
      : pace_(world_size), world_size_(world_size), saves_(saves) {
    options_.path = std::move(path);
    options_.async = false;
    options_.deadline = kPatienceOfRanks;
    options_.schedule.permanent = SaveAtSteps({});
    options_.stage.threads = 1;
    options_.stage.direct_writes = false;
    options_.store.background_sweep = false;
  }

  absl::Status Run(const Join& join, const OnSaved& on_saved) {
    std::vector<absl::Status> statuses(world_size_);
    std::vector<std::thread> threads;
    threads.reserve(world_size_);
    for (uint32_t rank = 0; rank < world_size_; ++rank) {
      threads.emplace_back(
          [&, rank] { statuses[rank] = RunRank(rank, join(rank), on_saved); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) CKPTDB_RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

  // The times of rank 0, from when all ranks are there until all are through.
  Outcome save() const { return save_; }
  Outcome meet() const { return meet_; }

 private:
  absl::Status RunRank(uint32_t rank, std::unique_ptr<Coordinator> ranks,
                       const OnSaved& on_saved) {
    std::vector<float> values(kElementsOfRank, static_cast<float>(rank));
    TensorState shard = TensorState::Of(values.data(), {kElementsOfRank});
    shard.global_shape = {kElementsOfRank * world_size_};
    shard.offset = {kElementsOfRank * rank};
    ModelState model;
    CKPTDB_RETURN_IF_ERROR(model.AddTensor("shard", shard));
    CKPTDB_ASSIGN_OR_RETURN(
        const auto manager,
        CheckpointManager::Open(options_, &model, std::move(ranks)));
    const std::unique_ptr<Coordinator> pace = pace_.Join(rank);
    const auto save = [&](int64_t step) -> absl::Status {
      CKPTDB_RETURN_IF_ERROR(manager->StepTo(step).status());
      CKPTDB_RETURN_IF_ERROR(manager->Save().status());
      if (rank == kOwnerRank && on_saved) on_saved();
      return absl::OkStatus();
    };
    const auto meet = [&]() -> absl::Status {
      for (int m = 0; m < kMeetings; ++m) {
        CKPTDB_RETURN_IF_ERROR(pace->Barrier("meet", kPatienceOfRanks));
      }
      return absl::OkStatus();
    };
    for (int i = 0; i < saves_; ++i) {
      for (float& value : values) value += 1;
      CKPTDB_RETURN_IF_ERROR(
          Time(pace.get(), &save_, [&] { return save(i + 1); }));
      CKPTDB_RETURN_IF_ERROR(Time(pace.get(), &meet_, meet));
    }
    return manager->Close();
  }

  absl::Status Time(Coordinator* pace, Outcome* outcome,
                    const std::function<absl::Status()>& body) {
    CKPTDB_RETURN_IF_ERROR(pace->Barrier("begin", kPatienceOfRanks));
    const auto run = [&]() -> absl::Status {
      CKPTDB_RETURN_IF_ERROR(body());
      return pace->Barrier("end", kPatienceOfRanks);
    };
    if (pace->rank() != kOwnerRank) return run();
    CKPTDB_ASSIGN_OR_RETURN(const Sample sample, Measure(run));
    outcome->samples.push_back(sample);
    return absl::OkStatus();
  }

  ThreadGroup pace_;
  const uint32_t world_size_;
  const int saves_;
  ManagerOptions options_;
  Outcome save_{"ours", {}};
  Outcome meet_{"5 barriers", {}};
};

// What rank 0 gets and sends for one save, whatever carries its messages.
absl::StatusOr<CountedMailboxes::Traffic> TrafficOfASave(
    const std::string& path, uint32_t world_size) {
  constexpr int kCountedSaves = 3;
  CountedMailboxes mailboxes(world_size);
  std::vector<CountedMailboxes::Traffic> after;
  SavingRanks ranks(path, world_size, kCountedSaves);
  CKPTDB_RETURN_IF_ERROR(ranks.Run(
      [&](uint32_t rank) { return MessageCoordinator(mailboxes.Join(rank)); },
      [&] { after.push_back(mailboxes.TrafficOf(kOwnerRank)); }));
  constexpr uint64_t kCounted = kCountedSaves - 1;
  return CountedMailboxes::Traffic{
      (after.back().messages - after.front().messages) / kCounted,
      (after.back().bytes - after.front().bytes) / kCounted};
}

absl::StatusOr<CaseResult> MeasureSaves(const BenchOptions& options,
                                        uint32_t world_size) {
  constexpr uint64_t kNeededBytes = uint64_t{1} << 28;
  const std::string name = absl::StrCat("scale/save/", world_size);
  CKPTDB_ASSIGN_OR_RETURN(const auto workspace,
                          Workspace::Make(options.dir, kNeededBytes));
  PeakMemory memory;
  memory.Start();
  ThreadGroup group(world_size);
  // The first save finds no parent, and memory that was not used before.
  SavingRanks ranks(workspace->Path("store"), world_size,
                    options.repetitions + 1);
  CKPTDB_RETURN_IF_ERROR(
      ranks.Run([&](uint32_t rank) { return group.Join(rank); }, nullptr));
  const uint64_t peak_bytes = memory.BytesAboveStart();
  CKPTDB_ASSIGN_OR_RETURN(
      const CountedMailboxes::Traffic traffic,
      TrafficOfASave(workspace->Path("counted"), world_size));
  Outcome save = ranks.save();
  save.samples.erase(save.samples.begin());
  const std::vector<Outcome> outcomes = {save, ranks.meet()};
  CaseResult result =
      Compare(name, world_size * kElementsOfRank * sizeof(float), outcomes);
  const auto each = static_cast<double>(world_size);
  result.figures = {
      {"ranks", each},
      {"ms_per_rank", result.seconds.median * 1e3 / each},
      {"peak_bytes", static_cast<double>(peak_bytes)},
      {"peak_bytes_per_rank", static_cast<double>(peak_bytes) / each},
      {"owner_messages", static_cast<double>(traffic.messages)},
      {"owner_bytes", static_cast<double>(traffic.bytes)},
      {"owner_messages_per_rank", static_cast<double>(traffic.messages) / each},
      {"owner_bytes_per_rank", static_cast<double>(traffic.bytes) / each}};
  result.goals = {{"seconds", result.seconds.median, kMaxScaledSaveSeconds}};
  return result;
}

}  // namespace

absl::Status RunScaleSave(const BenchOptions& options, Report* report) {
  double bytes_of_16 = 0;
  for (const uint32_t world_size : kSavingWorlds) {
    if (world_size > options.max_ranks) break;
    CKPTDB_ASSIGN_OR_RETURN(CaseResult result,
                            MeasureSaves(options, world_size));
    const double bytes_per_rank = result.figures.back().value;
    if (world_size == 16) bytes_of_16 = bytes_per_rank;
    result.goals.push_back({"times_the_bytes_of_16_per_rank",
                            bytes_per_rank / bytes_of_16, kMaxTrafficGrowth});
    report->Add(std::move(result));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
