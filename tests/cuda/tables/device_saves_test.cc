// SPDX-License-Identifier: Apache-2.0
// Saves and restores of tables in device memory, by a manager and by
// themselves, with the stand-in.
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cuda/device_table.h"
#include "manager/checkpoint_manager.h"
#include "manager/coordinator.h"
#include "tests/cuda/tables/device_trainer.h"
#include "tests/support/long_run.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using ::testing::HasSubstr;

using Rows = DeviceTrainer::Rows;

// One process of a training run: a trainer and its manager.
struct Process {
  std::unique_ptr<DeviceTrainer> trainer;
  std::unique_ptr<ModelState> model = std::make_unique<ModelState>();
  std::unique_ptr<CheckpointManager> manager;

  ~Process() {
    manager.reset();
    model.reset();
    trainer.reset();
  }
};

class DeviceSaves : public StandinTest {
 protected:
  void SetUp() override { OpenDevice(Order::kRandom, SmallRing()); }

  ManagerOptions Options(const std::string& name = "store") const {
    return SaveEachStep(dir_.path() + "/" + name);
  }
  std::unique_ptr<Process> Start(const DeviceTrainerOptions& trainer,
                                 const ManagerOptions& options,
                                 TableSharding sharding = {},
                                 std::unique_ptr<Coordinator> ranks = {}) {
    auto process = std::make_unique<Process>();
    process->trainer = std::make_unique<DeviceTrainer>(device_.get(), trainer);
    EXPECT_OK(process->model->AddTable("user", process->trainer->table(),
                                       std::move(sharding)));
    auto manager = ranks == nullptr
                       ? CheckpointManager::Open(options, process->model.get())
                       : CheckpointManager::Open(options, process->model.get(),
                                                 std::move(ranks));
    EXPECT_OK(manager);
    if (manager.ok()) process->manager = *std::move(manager);
    return process;
  }
  // Returns the rows that a new process restores from the newest step.
  Rows Restored(const DeviceTrainerOptions& trainer, int64_t* step) {
    const auto process = Start(trainer, Options("other"));
    const auto report = process->manager->Restore({.path = Options().path});
    EXPECT_OK(report);
    if (!report.ok()) return {};
    *step = report->version.step;
    return process->trainer->Read();
  }

  // Expects that the newest step has the trainer's rows.
  void ExpectRestored(const DeviceTrainerOptions& trainer,
                      const Process& process, int64_t expected_step) {
    int64_t step = 0;
    EXPECT_EQ(Restored(trainer, &step), process.trainer->rows());
    EXPECT_EQ(step, expected_step);
  }

  const TempDir dir_;
};

TEST_F(DeviceSaves, RestoresStepsOfARandomTraining) {
  std::mt19937_64 random(TestSeed());
  constexpr int64_t kSteps = 9;
  int64_t number = 0;
  for (const Order order : {Order::kLazy, Order::kEager, Order::kRandom}) {
    for (const bool with_ids : {true, false}) {
      for (const uint64_t staging_bytes : {64 << 20, 64}) {
        SCOPED_TRACE(absl::StrCat(static_cast<int>(order), with_ids, " ",
                                  staging_bytes));
        OpenDevice(order, SmallRing(staging_bytes));
        DeviceTrainerOptions trainer;
        trainer.with_ids = with_ids;
        trainer.dim = static_cast<uint32_t>(1 + random() % 40);
        trainer.gap_bytes = random() % 9;
        ManagerOptions options = Options(absl::StrCat(++number));
        options.save.audit_deltas = random() % 4 == 0;
        options.save.async = random() % 4 != 0;
        std::map<int64_t, Rows> history;
        {
          const auto process = Start(trainer, options);
          for (int64_t step = 1; step <= kSteps; ++step) {
            ASSERT_OK(process->trainer->Train(step, &random));
            history[step] = process->trainer->rows();
            ASSERT_OK(process->manager->Step());
          }
          ASSERT_OK(process->manager->WaitUntilFinished());
          EXPECT_EQ(process->manager->store()->Steps().size(), kSteps);
        }
        const auto process = Start(trainer, options);
        for (int64_t step = kSteps; step > 0; step -= 4) {
          ASSERT_OK(process->manager->Restore({.step = step}));
          EXPECT_EQ(process->trainer->Read(), history[step]) << step;
        }
      }
    }
  }
}

// Training continues from a restore, and saves deltas.
TEST_F(DeviceSaves, ContinuesWithDeltasAfterARestore) {
  std::mt19937_64 random(TestSeed());
  DeviceTrainerOptions trainer;
  Rows expected;
  {
    const auto process = Start(trainer, Options());
    for (int64_t step = 1; step <= 2; ++step) {
      ASSERT_OK(process->trainer->Train(step, &random));
      ASSERT_OK(process->manager->Step());
    }
    ASSERT_OK(process->manager->WaitUntilFinished());
    expected = process->trainer->rows();
  }
  {
    const auto process = Start(trainer, Options());
    ASSERT_OK(process->manager->Restore({}));
    EXPECT_EQ(process->trainer->Read(), expected);
    process->trainer->Reindex();
    ASSERT_OK(process->trainer->Train(3, &random));
    expected = process->trainer->rows();
    ASSERT_OK(StepAndWait(process->manager.get()));
    const StepRecord record = process->manager->store()->Steps().back();
    EXPECT_EQ(record.version.step, 3);
    EXPECT_EQ(record.parent.step, 2);
  }
  int64_t step = 0;
  EXPECT_EQ(Restored(trainer, &step), expected);
  EXPECT_EQ(step, 3);
}

TEST_F(DeviceSaves, FollowerAppliesChangesFromStepToStep) {
  std::mt19937_64 random(TestSeed());
  for (const bool with_ids : {true, false}) {
    SCOPED_TRACE(with_ids);
    DeviceTrainerOptions trainer;
    trainer.with_ids = with_ids;
    const ManagerOptions options = Options(absl::StrCat(with_ids));
    const auto process = Start(trainer, options);
    std::unique_ptr<Process> follower;
    // Otherwise the changes would be many compared to a first save of no rows.
    ASSERT_OK(process->trainer->Upsert({100, 101, 102}, 1));
    for (int64_t step = 1; step <= 5; ++step) {
      ASSERT_OK(process->trainer->Train(step, &random));
      ASSERT_OK(StepAndWait(process->manager.get()));
      if (follower == nullptr) {
        ManagerOptions read_only;
        read_only.path = options.path;
        read_only.read_only = true;
        follower = Start(trainer, read_only);
      }
      ASSERT_OK_AND_ASSIGN(const auto report,
                           follower->manager->WaitForStep(absl::Minutes(1)));
      EXPECT_EQ(report.version.step, step);
      EXPECT_EQ(report.incremental, step > 1);
      EXPECT_EQ(follower->trainer->Read(), process->trainer->rows());
    }
  }
}

// Each runtime call of a step and of its save fails in turn. The save fails or
// succeeds; the next one contains all changed rows.
TEST_F(DeviceSaves, FailingCallsNeitherCrashNorLoseChanges) {
  std::mt19937_64 random(TestSeed());
  DeviceTrainerOptions trainer;
  ManagerOptions options = Options();
  options.save.tolerated_failures = 1000;
  const auto process = Start(trainer, options);
  ASSERT_OK(process->trainer->Train(1, &random));
  ASSERT_OK(StepAndWait(process->manager.get()));
  int64_t step = 1;
  int64_t failed = 0;
  const uint64_t stride = IsLongRun() ? 1 : 5;
  for (auto call = static_cast<int64_t>(FirstCase(stride) + 1); call <= 60;
       call += static_cast<int64_t>(stride)) {
    SCOPED_TRACE(call);
    ASSERT_OK(process->trainer->Train(++step, &random));
    CudaStandin::FailCall(CudaStandin::calls() + call, cudaErrorUnknown);
    const size_t before = process->manager->store()->Steps().size();
    ASSERT_OK(process->manager->Step());
    process->manager->WaitUntilFinished().IgnoreError();
    CudaStandin::FailCall(0, cudaSuccess);
    if (process->manager->store()->Steps().size() == before) ++failed;
    ASSERT_OK(process->trainer->Train(++step, &random));
    ASSERT_OK(StepAndWait(process->manager.get()));
    ExpectRestored(trainer, *process, step);
  }
  EXPECT_GT(failed, 3);
}

// The process ends at each crash point of a save. The next process restores
// either the new step or the previous one, complete.
TEST_F(DeviceSaves, CrashDuringASaveLeavesAWholeStep) {
  std::mt19937_64 random(TestSeed());
  for (const absl::string_view point : kCrashPoints) {
    if (absl::string_view::npos != point.find("sweep")) continue;
    SCOPED_TRACE(point);
    for (const bool with_ids : {true, false}) {
      DeviceTrainerOptions trainer;
      trainer.with_ids = with_ids;
      ManagerOptions options =
          Options(absl::StrCat(std::string(point), with_ids));
      std::map<int64_t, Rows> history;
      bool armed = false;
      const auto end = [&](absl::string_view at) {
        if (armed && at == point) throw std::runtime_error("the process ends");
      };
      options.store.on_point = end;
      {
        const auto process = Start(trainer, options);
        for (int64_t step = 1; step <= 3; ++step) {
          ASSERT_OK(process->trainer->Train(step, &random));
          history[step] = process->trainer->rows();
          armed = step == 3;
          process->manager->Step().status().IgnoreError();
          process->manager->WaitUntilFinished().IgnoreError();
        }
        armed = false;
      }
      const auto process = Start(trainer, options);
      ASSERT_OK_AND_ASSIGN(const auto report, process->manager->Restore({}));
      EXPECT_GE(report.version.step, 2);
      EXPECT_EQ(process->trainer->Read(), history[report.version.step]);
    }
  }
}

// The next save of the same process includes the rows of a failed save.
TEST_F(DeviceSaves, NextSaveIncludesTheRowsOfAFailedSave) {
  std::mt19937_64 random(TestSeed());
  DeviceTrainerOptions trainer;
  ManagerOptions options = Options();
  options.save.tolerated_failures = 10;
  bool fails = false;
  options.store.on_point = [&](absl::string_view at) {
    if (fails && absl::StartsWith(at, "stage:"))
      throw std::runtime_error("no disk");
  };
  const auto process = Start(trainer, options);
  for (int64_t step = 1; step <= 8; ++step) {
    ASSERT_OK(process->trainer->Train(step, &random));
    fails = step % 3 == 2 || step % 3 == 0;
    ASSERT_OK(process->manager->Step());
    process->manager->WaitUntilFinished().IgnoreError();
    if (fails) continue;
    ExpectRestored(trainer, *process, step);
  }
}

TEST_F(DeviceSaves, ChangedCopyFailsOnlyThatSave) {
  std::mt19937_64 random(TestSeed());
  DeviceTrainerOptions trainer;
  ManagerOptions options = Options();
  options.save.tolerated_failures = 1;
  std::vector<absl::Status> saves;
  options.observers.on_saved = [&](const SaveReport& report) {
    saves.push_back(report.status);
  };
  const auto process = Start(trainer, options);
  ASSERT_OK(process->trainer->Train(1, &random));
  ASSERT_OK(StepAndWait(process->manager.get()));
  ASSERT_OK(process->trainer->Upsert({5, 6}, 2));
  // The earlier copies are of the counts and the ids.
  CudaStandin::FlipCopy(3, 1);
  ASSERT_OK(process->manager->Step());
  process->manager->WaitUntilFinished().IgnoreError();
  CudaStandin::FlipCopy(0, 0);
  ASSERT_EQ(saves.size(), 2);
  EXPECT_THAT(saves[1], StatusIs(absl::StatusCode::kDataLoss,
                                 HasSubstr("table \"user\": slot")));
  ASSERT_OK(process->trainer->Upsert({7}, 3));
  ASSERT_OK(StepAndWait(process->manager.get()));
  ExpectRestored(trainer, *process, 3);
}

// Several ranks with one table each.
class DeviceWorlds : public DeviceSaves {
 protected:
  static constexpr int64_t kIds = 600;

  DeviceTrainerOptions TrainerOf(uint32_t rank, uint32_t world, bool with_ids) {
    DeviceTrainerOptions trainer;
    trainer.with_ids = with_ids;
    trainer.rows = kIds / world;
    if (!with_ids) {
      trainer.table.first_id = rank;
      trainer.table.id_step = world;
    }
    return trainer;
  }
  // Runs all ranks of a world.
  void Run(uint32_t world, bool with_ids, const ManagerOptions& options,
           const std::function<void(uint32_t rank, Process*)>& each) {
    ThreadGroup group(world);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < world; ++rank) {
      threads.emplace_back([&, rank] {
        const auto process = Start(TrainerOf(rank, world, with_ids), options,
                                   TableSharding::ByModulo(), group.Join(rank));
        each(rank, process.get());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(DeviceWorlds, OtherWorldSizesRestoreTheirRows) {
  for (const bool with_ids : {true, false}) {
    SCOPED_TRACE(with_ids);
    const ManagerOptions options = Options(absl::StrCat("world", with_ids));
    std::array<Rows, 3> saved;
    Run(3, with_ids, options, [&](uint32_t rank, Process* process) {
      for (int64_t step = 1; step <= 3; ++step) {
        std::vector<int64_t> ids;
        for (int64_t id = rank; id < kIds; id += 3) {
          if ((id / 3 + step) % 4 == 0) ids.push_back(id);
        }
        EXPECT_OK(process->trainer->Upsert(ids, step));
        if (with_ids && step == 3) {
          EXPECT_OK(process->trainer->Erase({int64_t{rank} + 9}));
        }
        EXPECT_OK(process->manager->Step());
      }
      EXPECT_OK(process->manager->WaitUntilFinished());
      saved[rank] = process->trainer->rows();
    });
    Rows all;
    for (const Rows& rows : saved) all.insert(rows.begin(), rows.end());
    for (const uint32_t world : {1, 2, 4}) {
      SCOPED_TRACE(world);
      std::vector<Rows> restored(world);
      Run(world, with_ids, options, [&](uint32_t rank, Process* process) {
        EXPECT_OK(process->manager->Restore({}));
        restored[rank] = process->trainer->Read();
        for (const auto& [id, row] : restored[rank]) {
          EXPECT_EQ(id % world, rank);
        }
      });
      Rows together;
      for (const Rows& rows : restored) {
        together.insert(rows.begin(), rows.end());
      }
      EXPECT_EQ(together, all);
    }
  }
}

class DeviceRestoreTest : public DeviceTableTest {
 protected:
  LiveTable* Live() { return table_->Live({"embedding", "step"}); }
};

INSTANTIATE_TEST_SUITE_P(Orders, DeviceRestoreTest,
                         ::testing::Values(Order::kLazy, Order::kEager,
                                           Order::kRandom),
                         NameOf);

// Rows of a restore, in batches as a scan delivers them.
class Batches {
 public:
  explicit Batches(const Rows& rows) {
    for (const auto& [id, row] : rows) {
      ids_.push_back(id);
      embedding_.append(reinterpret_cast<const char*>(row.embedding.data()),
                        row.embedding.size() * sizeof(float));
      steps_.append(reinterpret_cast<const char*>(&row.step), sizeof(row.step));
    }
  }
  absl::Status Into(LiveTable* live) const {
    const std::vector<const char*> slots = {embedding_.data(), steps_.data()};
    return live->Consume(0, {ids_, slots});
  }

 private:
  std::vector<int64_t> ids_;
  std::string embedding_;
  std::string steps_;
};

TEST_P(DeviceRestoreTest, RestoreRunsAfterTheTrainersWork) {
  for (const bool with_ids : {true, false}) {
    for (const bool clear : {true, false}) {
      SCOPED_TRACE(absl::StrCat(with_ids, clear));
      Open();
      DeviceTrainerOptions options;
      options.with_ids = with_ids;
      Make(options);
      ASSERT_OK(trainer_->Upsert({1, 2, 3, 4}, 1));
      LiveTable* const live = Live();
      ASSERT_NE(live, nullptr);
      Rows expected = trainer_->rows();
      if (clear) {
        ASSERT_OK(live->Clear());
        for (auto& [id, row] : expected) {
          row = {std::vector<float>(options.dim), 0};
        }
        if (with_ids) expected.clear();
      }
      Rows restored;
      restored[2] = {std::vector<float>(options.dim, 2.5F), 20};
      restored[9] = {std::vector<float>(options.dim, 9.5F), 90};
      ASSERT_OK(Batches(restored).Into(live));
      for (const auto& [id, row] : restored) expected[id] = row;
      ASSERT_OK(live->Erase(0, {3, 200}));
      if (with_ids) {
        expected.erase(3);
      } else {
        expected[3] = expected[200] = {std::vector<float>(options.dim), 0};
      }
      EXPECT_EQ(trainer_->Read(), expected);
    }
  }
}

TEST_P(DeviceRestoreTest, MissingSlotsAreZeroInNewRows) {
  Make();
  ASSERT_OK(trainer_->Upsert({1, 2}, 5));
  ASSERT_OK(trainer_->Erase({2}));
  LiveTable* const live = table_->Live({"step"});
  const std::vector<int64_t> ids = {1, 7};
  const std::vector<int64_t> steps = {50, 70};
  const std::vector<const char*> slots = {
      reinterpret_cast<const char*>(steps.data())};
  ASSERT_OK(live->Consume(0, {ids, slots}));
  const Rows rows = trainer_->Read();
  EXPECT_EQ(rows.at(1).step, 50);
  EXPECT_EQ(rows.at(1).embedding, trainer_->rows().at(1).embedding);
  EXPECT_EQ(rows.at(7).step, 70);
  // Also in the former row 2, which had values.
  EXPECT_EQ(rows.at(7).embedding, std::vector<float>(5));
}

TEST_P(DeviceRestoreTest, RestoreNamesRowsThatDoNotFit) {
  Make({.rows = 3});
  Rows rows;
  for (int64_t id = 10; id < 14; ++id) rows[id] = {std::vector<float>(5), 1};
  EXPECT_THAT(Batches(rows).Into(Live()),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("has 3 rows, and the step has more")));
  rows.clear();
  rows[DeviceTrainer::kFree] = {std::vector<float>(5), 1};
  const auto is_free_id =
      StatusIs(absl::StatusCode::kOutOfRange,
               HasSubstr("the step contains id -1, which is"));
  EXPECT_THAT(Batches(rows).Into(Live()), is_free_id);
  // A restore checks the capacity before it changes anything.
  EXPECT_EQ(table_->capacity(), 3U);
  EXPECT_OK(table_->CheckId(77));
  EXPECT_THAT(table_->CheckId(DeviceTrainer::kFree), is_free_id);
  DeviceTrainerOptions numbers;
  numbers.rows = 3;
  numbers.with_ids = false;
  numbers.table.first_id = 100;
  numbers.table.id_step = 4;
  Open();
  Make(numbers);
  for (const int64_t id : {99, 101, 112}) {
    rows.clear();
    rows[id] = {std::vector<float>(5), 1};
    const auto is_no_row =
        StatusIs(absl::StatusCode::kOutOfRange,
                 HasSubstr(absl::StrCat(
                     "id ", id, " of the step does not belong to the table")));
    EXPECT_THAT(Batches(rows).Into(Live()), is_no_row);
    EXPECT_THAT(table_->CheckId(id), is_no_row);
  }
  rows.clear();
  EXPECT_OK(table_->CheckId(108));
  rows[108] = {std::vector<float>(5, 1.0F), 1};
  ASSERT_OK(Batches(rows).Into(Live()));
  EXPECT_EQ(trainer_->Read().at(108), rows.at(108));
}

TEST_P(DeviceRestoreTest, ChangedUploadIsDataLoss) {
  Make();
  LiveTable* const live = Live();
  Rows rows;
  rows[1] = {std::vector<float>(5, 1.0F), 1};
  ASSERT_OK(Batches(rows).Into(live));
  // The row's number and id come first in the copy, at multiples of 16.
  CudaStandin::FlipCopy(1, 33);
  EXPECT_THAT(Batches(rows).Into(live),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("from id 1 on, changed their bytes")));
}

TEST_P(DeviceRestoreTest, FailingCallsDoNotCrashARestore) {
  int64_t failed = 0;
  for (int64_t call = 1; call <= 50; ++call) {
    SCOPED_TRACE(call);
    Open();
    Make();
    ASSERT_OK(trainer_->Upsert({1, 2}, 1));
    Rows rows;
    rows[2] = {std::vector<float>(5, 2.0F), 1};
    rows[3] = {std::vector<float>(5, 3.0F), 1};
    LiveTable* live = Live();
    CudaStandin::FailCall(CudaStandin::calls() + call, cudaErrorUnknown);
    absl::Status restored = live->Clear();
    if (restored.ok()) restored = Batches(rows).Into(live);
    if (restored.ok()) restored = live->Erase(0, {3});
    CudaStandin::FailCall(0, cudaSuccess);
    rows.erase(3);
    if (restored.ok()) {
      EXPECT_EQ(trainer_->Read(), rows);
      continue;
    }
    ++failed;
    // The next restore succeeds.
    live = Live();
    ASSERT_OK(live->Clear());
    ASSERT_OK(Batches(rows).Into(live));
    EXPECT_EQ(trainer_->Read(), rows);
  }
  EXPECT_GT(failed, 15);
}

}  // namespace
}  // namespace ckptdb::testing
