// SPDX-License-Identifier: Apache-2.0
// One rank of a job under mpirun, for mpi_test.
//
//   mpi_ranks OUT SCENARIO [ARGUMENT...]
//
// It writes its result into OUT/<rank>: "OK", or an error.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "manager/checkpoint_manager.h"
#include "mpi/mpi_coordinator.h"
#include "schema/status.h"
#include "tests/manager/rank_model.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kLong = absl::Minutes(1);
constexpr absl::Duration kShort = absl::Seconds(2);

struct Job {
  std::string out;
  std::string scenario;
  std::vector<std::string> arguments;
  uint32_t rank = 0;
  uint32_t world_size = 1;

  bool is_last() const { return rank + 1 == world_size; }
};

void Wait(std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock<std::mutex> lock(mutex);
  never.wait_for(lock, time);
}

void Write(const Job& job, const absl::Status& status) {
  const std::string name = absl::StrCat(job.out, "/", job.rank);
  std::ofstream(name + ".part")
      << (status.ok() ? "OK" : status.ToString()) << "\n";
  fs::rename(name + ".part", name);
}

// Waits until `count` ranks have written their results.
void WaitForRanks(const Job& job, uint32_t count) {
  for (uint32_t found = 0; found < count;) {
    Wait(std::chrono::milliseconds(20));
    found = 0;
    for (uint32_t rank = 0; rank < job.world_size; ++rank) {
      if (fs::exists(absl::StrCat(job.out, "/", rank))) ++found;
    }
  }
}

absl::StatusOr<std::unique_ptr<CheckpointManager>> OpenManager(
    const Job& job, RankModel* model, absl::Duration deadline) {
  ManagerOptions options;
  options.path = job.arguments.at(0);
  options.save.bounds.max_delta_ratio = 100;
  options.ranks.deadline = deadline;
  options.schedule.permanent = SaveEveryNSteps(2);
  if (job.arguments.size() > 2 && job.arguments[2] == "modulo") {
    model->ShardByModulo(job.rank, job.world_size);
    options.ranks.sharding = TableSharding::ByModulo();
  } else {
    options.ranks.sharding = TableSharding::BySlices();
  }
  options.restore.io_state_resize =
      ManagerOptions::IoStateResize::kRedistribute;
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Coordinator> ranks,
                          MpiCoordinator(MPI_COMM_WORLD, kLong));
  return CheckpointManager::Open(options, &model->state, std::move(ranks));
}

absl::Status TrainTo(int64_t step, const Job& job, RankModel* model,
                     CheckpointManager* manager) {
  while (manager->global_step() < step) {
    model->Train(manager->global_step() + 1, job.rank);
    CKPTDB_RETURN_IF_ERROR(manager->Step().status());
  }
  return manager->WaitUntilFinished();
}

// save STORE STEP [modulo]: continues from the store, and trains up to a step.
absl::Status Save(const Job& job) {
  RankModel model(job.rank, job.world_size);
  CKPTDB_ASSIGN_OR_RETURN(const auto manager, OpenManager(job, &model, kLong));
  CKPTDB_RETURN_IF_ERROR(manager->RestoreOrStart().status());
  CKPTDB_RETURN_IF_ERROR(
      TrainTo(std::stoll(job.arguments.at(1)), job, &model, manager.get()));
  return manager->Close();
}

// restore STORE STEP [modulo]: checks that the newest step is STEP and that it
// matches what was trained.
absl::Status Restore(const Job& job) {
  const int64_t step = std::stoll(job.arguments.at(1));
  RankModel model(job.rank, job.world_size);
  CKPTDB_ASSIGN_OR_RETURN(const auto manager, OpenManager(job, &model, kLong));
  CKPTDB_ASSIGN_OR_RETURN(const RestoreReport report, manager->Restore());
  RankModel expected(job.rank, job.world_size);
  expected.owns = model.owns;
  if (report.version.step != step || !model.IsTrainedLike(&expected, step)) {
    return absl::DataLossError(
        absl::StrCat("step ", report.version.step, " is not what was trained"));
  }
  return manager->Close();
}

// die STORE RANK: kills one rank between two saves.
absl::Status Die(const Job& job) {
  RankModel model(job.rank, job.world_size);
  CKPTDB_ASSIGN_OR_RETURN(const auto manager, OpenManager(job, &model, kShort));
  CKPTDB_RETURN_IF_ERROR(TrainTo(2, job, &model, manager.get()));
  if (job.rank == std::stoul(job.arguments.at(1))) kill(getpid(), SIGKILL);
  Write(job, TrainTo(4, job, &model, manager.get()));
  WaitForRanks(job, job.world_size - 1);
  _exit(0);  // MPI_Finalize would wait for the dead rank
}

// Each rank sends a different value to each rank.
absl::Status ExchangeDirectly(size_t bytes, Coordinator* ranks) {
  const auto value = [&](uint32_t from, uint32_t to) {
    return absl::StrCat(from, " to ", to, std::string(bytes, 'x'));
  };
  if (!ranks->HasDirectAllToAll()) return absl::InternalError("not direct");
  std::vector<std::string> values;
  for (uint32_t to = 0; to < ranks->world_size(); ++to) {
    values.push_back(value(ranks->rank(), to));
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<std::string> received,
                          ranks->AllToAll("each", values, kLong));
  for (uint32_t from = 0; from < received.size(); ++from) {
    if (received[from] != value(from, ranks->rank())) {
      return absl::DataLossError("exchanged");
    }
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::string told,
                          ranks->TellEach("each", std::move(values), kLong));
  if (told != value(kOwnerRank, ranks->rank())) {
    return absl::DataLossError("told each");
  }
  return absl::OkStatus();
}

// exchange: large values in all directions, also in a duplicate.
absl::Status Exchange(const Job& job) {
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Coordinator> ranks,
                          MpiCoordinator(MPI_COMM_WORLD, kLong));
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Coordinator> other,
                          ranks->Duplicate());
  for (const size_t bytes : {size_t{0}, size_t{1000}, size_t{20'000'000}}) {
    const auto value = [&](uint32_t rank) {
      return std::string(bytes, static_cast<char>('a' + rank));
    };
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                            other->Gather("all", value(job.rank), kLong));
    for (uint32_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank] != value(rank)) return absl::DataLossError("gathered");
    }
    CKPTDB_ASSIGN_OR_RETURN(const std::string first,
                            ranks->Broadcast("one", value(job.rank), kLong));
    if (first != value(kOwnerRank)) return absl::DataLossError("broadcast");
    CKPTDB_ASSIGN_OR_RETURN(const std::string told,
                            ranks->Tell("told", value(job.rank), kLong));
    if (told != value(kOwnerRank)) return absl::DataLossError("told");
    CKPTDB_RETURN_IF_ERROR(ExchangeDirectly(bytes, other.get()));
  }
  return ranks->Barrier("end", kLong);
}

// late: the last rank arrives after the deadline.
absl::Status Late(const Job& job) {
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Coordinator> ranks,
                          MpiCoordinator(MPI_COMM_WORLD, kLong));
  if (job.is_last()) WaitForRanks(job, job.world_size - 1);
  Write(job, ranks->Barrier("all", kShort));
  // The next call succeeds with all ranks.
  return ranks->Barrier("after", kLong);
}

// die-exchanging RANK: kills one rank after it has sent some of its values.
absl::Status DieExchanging(const Job& job) {
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Coordinator> ranks,
                          MpiCoordinator(MPI_COMM_WORLD, kLong));
  const std::vector<std::string> values(job.world_size,
                                        std::string(5'000'000, 'x'));
  CKPTDB_RETURN_IF_ERROR(ranks->AllToAll("first", values, kLong).status());
  std::thread killer;
  if (job.rank == std::stoul(job.arguments.at(0))) {
    killer = std::thread([] { kill(getpid(), SIGKILL); });
  }
  absl::Status status;
  while (status.ok()) status = ranks->AllToAll("more", values, kShort).status();
  Write(job, status);
  WaitForRanks(job, job.world_size - 1);
  _exit(0);  // MPI_Finalize would wait for the dead rank
}

// disagree: the last rank makes another call.
absl::Status Disagree(const Job& job) {
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Coordinator> ranks,
                          MpiCoordinator(MPI_COMM_WORLD, kLong));
  Write(job, ranks->Barrier(job.is_last() ? "load" : "save", kLong));
  return ranks->Barrier("after", kLong);
}

// never: the last rank does not create a coordinator.
absl::Status Never(const Job& job) {
  if (job.is_last()) {
    WaitForRanks(job, job.world_size - 1);
  } else {
    Write(job, MpiCoordinator(MPI_COMM_WORLD, kShort).status());
    WaitForRanks(job, job.world_size - 1);
  }
  _exit(0);
}

// refused: MPI provides too low a thread level.
absl::Status Refused(const Job& /*job*/) {
  return MpiCoordinator(MPI_COMM_WORLD, kShort).status();
}

int Run(int argc, char** argv) {
  Job job;
  job.out = argv[1];
  job.scenario = argv[2];
  job.arguments.assign(argv + 3, argv + argc);
  const std::map<std::string, std::function<absl::Status(const Job&)>>
      scenarios = {{"save", Save},
                   {"restore", Restore},
                   {"die", Die},
                   {"exchange", Exchange},
                   {"die-exchanging", DieExchanging},
                   {"late", Late},
                   {"disagree", Disagree},
                   {"never", Never},
                   {"refused", Refused}};
  const bool refused = job.scenario == "refused";
  int provided = 0;
  MPI_Init_thread(&argc, &argv,
                  refused ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE,
                  &provided);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  job.rank = static_cast<uint32_t>(rank);
  job.world_size = static_cast<uint32_t>(size);
  const absl::Status status = scenarios.at(job.scenario)(job);
  if (!status.ok() || !fs::exists(absl::StrCat(job.out, "/", rank))) {
    Write(job, status);
  }
  MPI_Finalize();
  return ::testing::Test::HasFailure() ? 1 : 0;
}

}  // namespace
}  // namespace ckptdb::testing

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: mpi_ranks OUT SCENARIO [ARGUMENT...]\n";
    return 2;
  }
  return ckptdb::testing::Run(argc, argv);
}
