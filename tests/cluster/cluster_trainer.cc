// SPDX-License-Identifier: Apache-2.0
// One rank of a training job under mpirun, on hosts into which faults are
// injected.
//
//   cluster_trainer OUT STORE [NAME=VALUE...]
//
// It restores the newest step of STORE, if there is one, checks that it matches
// what was trained, and trains and saves up to step `steps`. It writes into the
// folder OUT, which should be on a disk without faults:
//
//   <rank>.pid    its process id
//   <rank>.saved  a line for each step that was acknowledged to this rank
//   <rank>.killed when it is about to kill itself
//   <rank>.end    "OK", or its error, when it ends
//
// Values are numbers: see Options below. kill_point is a crash point of
// db/options.h, at which rank kill_rank kills itself in step kill_step or
// later, or "train": between two saves.
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "manager/checkpoint_manager.h"
#include "mpi/mpi_coordinator.h"
#include "schema/status.h"
#include "tests/manager/rank_model.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kSecondsToFinalize = 5;

struct Options {
  int64_t steps = 10;
  int64_t save_every = 2;
  int64_t keep = 3;       // the number of newest steps to keep; 0: all
  int64_t deltas = 1;     // 0: each save is full
  int64_t async = 1;      // 0: the training waits for each save
  int64_t follow = 0;     // 1: one process that reads until step `steps`
  int64_t deadline = 2;   // seconds that ranks wait for one another
  int64_t patience = 60;  // the same in seconds until all ranks have opened
  int64_t pace = 0;       // milliseconds per step
  int64_t kib = 1024;     // size of a tensor that changes in each step
  int64_t kill_rank = -1;
  int64_t kill_step = 0;
};

struct Job {
  std::string out;
  std::string store;
  Options options;
  std::string kill_point;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  std::atomic<int64_t> step = 0;  // trained so far

  std::string File(const std::string& suffix) const {
    return absl::StrCat(out, "/", rank, ".", suffix);
  }
};

// A RankModel with a tensor that is too large for a commit's batch, so that
// every save has data files of every rank.
struct Model : RankModel {
  explicit Model(const Job& job)
      : RankModel(job.rank, job.world_size),
        elements(job.options.kib * 256),
        begin(elements * job.rank / job.world_size),
        large(static_cast<size_t>(elements * (job.rank + 1) / job.world_size -
                                  begin)) {
    TensorState tensor =
        TensorState::Of(large.data(), {static_cast<int64_t>(large.size())});
    tensor.global_shape = {elements};
    tensor.offset = {begin};
    EXPECT_OK(state.AddTensor("large", tensor));
  }

  void Train(int64_t step, uint32_t rank) {
    RankModel::Train(step, rank);
    for (size_t i = 0; i < large.size(); ++i) large[i] = Large(step, i);
  }

  float Large(int64_t step, size_t i) const {
    return static_cast<float>((step * 7919 + begin + int64_t(i)) % 65536);
  }

  bool IsTrained(int64_t step, const Job& job) const {
    for (size_t i = 0; i < large.size(); ++i) {
      if (large[i] != Large(step, i)) return false;
    }
    return RankModel::IsTrained(step, job.rank, job.world_size);
  }

  int64_t elements;  // of the whole tensor
  int64_t begin;
  std::vector<float> large;
};

void Wait(int64_t ms) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock<std::mutex> lock(mutex);
  never.wait_for(lock, std::chrono::milliseconds(ms));
}

void WriteWhole(const std::string& path, const std::string& text) {
  std::ofstream(path + ".part") << text << "\n";
  fs::rename(path + ".part", path);
}

void Reach(const Job& job, absl::string_view point) {
  if (job.rank == job.options.kill_rank && point == job.kill_point &&
      job.step >= job.options.kill_step) {
    WriteWhole(job.File("killed"), std::string(point));
    kill(getpid(), SIGKILL);
  }
}

ManagerOptions OptionsOf(Job* job) {
  const Options& options = job->options;
  ManagerOptions manager;
  manager.path = job->store;
  manager.read_only = options.follow != 0;
  manager.follow.poll_every = absl::Milliseconds(20);
  manager.save.async = options.async != 0;
  manager.save.deltas = options.deltas != 0;
  manager.save.bounds.max_delta_ratio = 100;
  manager.ranks.deadline = absl::Seconds(options.deadline);
  manager.schedule.permanent = SaveEveryNSteps(options.save_every);
  if (options.keep > 0) manager.retention.keep = LatestN(options.keep);
  manager.ranks.sharding = TableSharding::BySlices();
  manager.restore.io_state_resize =
      ManagerOptions::IoStateResize::kRedistribute;
  manager.store.on_point = [job](absl::string_view point) {
    Reach(*job, point);
  };
  manager.observers.on_saved = [job](const SaveReport& report) {
    if (!report.status.ok()) return;
    std::ofstream(job->File("saved"), std::ios::app)
        << report.step << std::endl;
  };
  return manager;
}

absl::Status CheckTrained(const Model& model, int64_t step, const Job& job) {
  if (model.IsTrained(step, job)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("step ", step, " is not what was trained"));
}

absl::Status Train(Job* job) {
  Model model(*job);
  CKPTDB_ASSIGN_OR_RETURN(
      std::unique_ptr<Coordinator> ranks,
      MpiCoordinator(MPI_COMM_WORLD, absl::Seconds(job->options.patience)));
  CKPTDB_RETURN_IF_ERROR(
      ranks->Barrier("begin", absl::Seconds(job->options.patience)));
  CKPTDB_ASSIGN_OR_RETURN(
      const auto manager,
      CheckpointManager::Open(OptionsOf(job), &model.state, std::move(ranks)));
  CKPTDB_ASSIGN_OR_RETURN(const auto start, manager->RestoreOrStart());
  if (!start.fresh) {
    CKPTDB_RETURN_IF_ERROR(CheckTrained(model, start.version.step, *job));
  }
  while (manager->global_step() < job->options.steps) {
    job->step = manager->global_step() + 1;
    model.Train(job->step, job->rank);
    Wait(job->options.pace);
    Reach(*job, "train");
    CKPTDB_RETURN_IF_ERROR(manager->Step().status());
  }
  CKPTDB_RETURN_IF_ERROR(manager->FinishTraining());
  CKPTDB_RETURN_IF_ERROR(manager->Close());
  return CheckTrained(model, job->options.steps, *job);
}

// Follows the steps, and checks each.
absl::Status Follow(Job* job) {
  Model model(*job);
  CKPTDB_ASSIGN_OR_RETURN(
      const auto manager,
      CheckpointManager::Open(OptionsOf(job), &model.state));
  int64_t step = 0;
  while (step < job->options.steps) {
    CKPTDB_ASSIGN_OR_RETURN(
        const auto report,
        manager->WaitForStep(absl::Seconds(job->options.patience)));
    step = report.version.step;
    CKPTDB_RETURN_IF_ERROR(CheckTrained(model, step, *job));
    std::ofstream(job->File("saved"), std::ios::app) << step << std::endl;
  }
  return manager->Close();
}

// Returns an error for an argument that is not NAME=VALUE.
absl::Status ReadArgument(const std::string& argument, Job* job) {
  Options& options = job->options;
  const std::map<std::string, int64_t*> numbers = {
      {"steps", &options.steps},         {"save_every", &options.save_every},
      {"keep", &options.keep},           {"deltas", &options.deltas},
      {"async", &options.async},         {"follow", &options.follow},
      {"deadline", &options.deadline},   {"patience", &options.patience},
      {"pace", &options.pace},           {"kib", &options.kib},
      {"kill_rank", &options.kill_rank}, {"kill_step", &options.kill_step}};
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(argument, absl::MaxSplits('=', 1));
  if (parts.first == "kill_point") {
    job->kill_point = parts.second;
    return absl::OkStatus();
  }
  const auto number = numbers.find(parts.first);
  if (number != numbers.end() &&
      absl::SimpleAtoi(parts.second, number->second)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("invalid argument \"", argument, "\"; see Options in ",
                   "tests/cluster/cluster_trainer.cc"));
}

void BeginMpi(int* argc, char*** argv, Job* job) {
  int provided = 0;
  MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  job->rank = static_cast<uint32_t>(rank);
  job->world_size = static_cast<uint32_t>(size);
}

int Run(int argc, char** argv) {
  Job job;
  job.out = argv[1];
  job.store = argv[2];
  for (int i = 3; i < argc; ++i) {
    const absl::Status read = ReadArgument(argv[i], &job);
    if (!read.ok()) {
      std::cerr << "cluster_trainer: " << read.message() << "\n";
      return 2;
    }
  }
  const bool follows = job.options.follow != 0;
  if (!follows) BeginMpi(&argc, &argv, &job);
  WriteWhole(job.File("pid"), std::to_string(getpid()));
  const absl::Status status = follows ? Follow(&job) : Train(&job);
  WriteWhole(job.File("end"), status.ok() ? "OK" : status.ToString());
  // MPI_Finalize may wait forever for a dead rank.
  if (!status.ok()) _exit(1);
  alarm(kSecondsToFinalize);
  if (!follows) MPI_Finalize();
  return ::testing::Test::HasFailure() ? 1 : 0;
}

}  // namespace
}  // namespace ckptdb::testing

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: cluster_trainer OUT STORE [NAME=VALUE...]\n";
    return 2;
  }
  return ckptdb::testing::Run(argc, argv);
}
