// SPDX-License-Identifier: Apache-2.0
// What a manager restores, and what happens to later steps.
#include <algorithm>
#include <filesystem>

#include "tests/manager/manager_fixture.h"
#include "tests/support/row_files.h"

namespace ckptdb::testing {
namespace {

TEST_F(ManagerTest, RestoreOfAnEmptyStoreIsNotFound) {
  Start();
  EXPECT_THAT(manager_->Restore(), NotFound("no step"));
  EXPECT_THAT(manager_->Restore({.step = 5}), NotFound("no step 5"));
}

TEST_F(ManagerTest, RestoreOfAnOlderStepAbandonsLaterSteps) {
  Start();
  TrainTo(6);
  Start();
  const RestoreRequest request = {.step = 2};
  ASSERT_OK(manager_->Restore(request));
  EXPECT_EQ(manager_->global_step(), 2);
  TrainAndWait(4);
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  EXPECT_EQ(reports_.back().result.kind, StepRecord::Kind::kDelta);
  ExpectStepHolds(4);
  // Once more in the same process, with a changed model.
  TrainTo(5);
  ASSERT_OK(manager_->Restore(request));
  TrainAndClose(4);
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  ExpectStepHolds(4);
}

// State loaded from another store does not stem from a step of this one.
TEST_F(ManagerTest, RestoreFromAnotherStoreSetsNoParent) {
  Start();
  TrainAndClose(4);
  const std::string other = options_.path;
  options_.path += "_of_another_run";
  Start();
  TrainTo(2);
  ASSERT_OK(manager_->Restore({.path = other}));
  EXPECT_EQ(manager_->global_step(), 2);
  // Step 2 of this store is not the model's state.
  EXPECT_THAT(manager_->FinishTraining(),
              FailedPrecondition("already has step 2"));
  TrainAndWait(4);
  EXPECT_EQ(Record(4).chain.size(), 1U);
}

TEST_F(ManagerTest, BestStepRestoresNothing) {
  Start();
  EXPECT_THAT(manager_->BestStep(),
              FailedPrecondition("ManagerOptions::restore.best is not set"));
  options_.restore.best = KeepPolicy::BestOptions{.metric = "auc"};
  Start();
  EXPECT_THAT(manager_->BestStep(), NotFound("\"auc\""));
  for (const double auc : {0.1, 0.9, 0.1, 0.5}) {
    ASSERT_OK(TrainStep({{"auc", auc}}));
  }
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_EQ(manager_->BestStep().value().version.step, 2);
  EXPECT_EQ(manager_->global_step(), 4);
  TestModel model;
  ManagerOptions reading = options_;
  reading.read_only = true;
  const auto reader = CheckpointManager::Open(reading, &model.state).value();
  // Metrics added later count.
  ASSERT_OK(manager_->store()->AddMetrics(4, {{"auc", 0.95}}));
  EXPECT_EQ(reader->BestStep().value().version.step, 4);
}

TEST_F(ManagerTest, FallsBackFromADamagedStep) {
  Start();
  TrainAndClose(4);
  manager_.reset();
  ASSERT_NO_FATAL_FAILURE(DamageFile(*RowFiles(options_.path).rbegin()));
  Start();
  EXPECT_THAT(manager_->Restore({.step = 4, .fall_back = true}),
              DataLoss("step 4"));
  ASSERT_OK_AND_ASSIGN(const RestoreReport start,
                       manager_->RestoreOrStart({.fall_back = true}));
  ASSERT_FALSE(start.fresh);
  EXPECT_EQ(start.version.step, 2);
  EXPECT_THAT(start.damaged_steps, ElementsAre(4));
  EXPECT_THAT(start.ToString(), HasSubstr("; skipped damaged steps 4"));
  EXPECT_TRUE(Record(4).quarantined);
  TrainTo(4);  // overwritten
  ASSERT_OK(manager_->Close());
  ExpectStepHolds(4);
}

// Returns RocksDB's table files, with their sizes.
std::map<std::filesystem::path, uintmax_t> TablesOf(const std::string& store) {
  std::map<std::filesystem::path, uintmax_t> tables;
  for (const auto& entry : std::filesystem::directory_iterator(store + "/db")) {
    if (entry.path().extension() == ".sst") {
      tables[entry.path()] = entry.file_size();
    }
  }
  return tables;
}

// Opening the store reports a large step's missing file.
TEST_F(ManagerTest, WarnsOfAMissingFileAndFallsBack) {
  options_.schedule.permanent = SaveEveryNSteps(1);
  std::vector<int32_t> weights(size_t{3} << 20);  // too many to be inline
  ModelState model;
  ASSERT_OK(model.AddTensor(
      "w",
      TensorState::Of(weights.data(), {static_cast<int64_t>(weights.size())})));
  std::unique_ptr<CheckpointManager> manager;
  const auto open = [&] {
    ASSERT_OK_AND_ASSIGN(manager, CheckpointManager::Open(options_, &model));
  };
  const auto save = [&](int32_t value) {
    std::fill(weights.begin(), weights.end(), value);
    ASSERT_OK(manager->Step());
    ASSERT_OK(manager->WaitUntilFinished());
  };
  ASSERT_NO_FATAL_FAILURE(open());
  ASSERT_NO_FATAL_FAILURE(save(1));
  const auto before = TablesOf(options_.path);
  ASSERT_NO_FATAL_FAILURE(save(2));
  ASSERT_OK(manager->Close());
  manager.reset();
  std::filesystem::path largest;
  for (const auto& [table, bytes] : TablesOf(options_.path)) {
    if (before.count(table) == 0 && bytes > (uintmax_t{8} << 20)) {
      largest = table;
    }
  }
  ASSERT_TRUE(std::filesystem::remove(largest));
  ASSERT_NO_FATAL_FAILURE(open());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr(largest.filename().string())));
  const RestoreReport report = manager->Restore({.fall_back = true}).value();
  EXPECT_EQ(report.version.step, 1);
  EXPECT_THAT(report.damaged_steps, ElementsAre(2));
  EXPECT_THAT(weights, Each(1));
}

// However its path is spelled, saves continue from the restored step.
TEST_F(ManagerTest, RecognizesItsStoreByAnotherSpelling) {
  namespace fs = std::filesystem;
  const std::string link = dir_.path() + "/link";
  fs::create_directory_symlink(options_.path, link);
  Start();
  TrainTo(2);
  for (const std::string& path : {options_.path + "/", dir_.path() + "/./store",
                                  link, fs::relative(options_.path).string()}) {
    SCOPED_TRACE(path);
    Start();
    const RestoreReport report = manager_->Restore({.path = path}).value();
    EXPECT_EQ(report.store, options_.path);
    TrainAndClose(report.version.step + 2);
    EXPECT_EQ(reports_.back().result.kind, StepRecord::Kind::kDelta);
  }
  ExpectStepHolds(10);
}

// Each successful restore is reported once.
TEST_F(ManagerTest, ReportsRestores) {
  std::vector<RestoreReport> restored;
  options_.observers.on_restored = [&](const RestoreReport& report) {
    restored.push_back(report);
  };
  Start();
  EXPECT_FALSE(manager_->Restore().ok());
  EXPECT_TRUE(restored.empty());
  TrainTo(4);
  ASSERT_OK(manager_->Restore({.step = 2}));
  ASSERT_OK(manager_->Close());
  Start();
  ASSERT_OK(manager_->Restore());
  ASSERT_EQ(restored.size(), 2U);
  EXPECT_EQ(restored[0].version.step, 2);
  EXPECT_EQ(restored[1].version.step, 4);
  EXPECT_EQ(restored[1].store, options_.path);
  EXPECT_EQ(restored[1].loaded.items.size(), 5U);
}

// The parts take no longer than the total; the amount read is the amount
// stored.
TEST_F(ManagerTest, LogsTheCostsOfRestores) {
  options_.observers.statistics_path = dir_.path() + "/statistics";
  Start();
  TrainAndClose(2);
  Start();
  ASSERT_OK_AND_ASSIGN(const RestoreReport report, manager_->Restore());
  EXPECT_EQ(report.loaded_rows, 11U);
  EXPECT_EQ(report.loaded_rows, model_->users.rows().size());
  // Ids and slots of the rows, the tensor, and the bytes of the other items.
  EXPECT_GE(report.loaded_bytes, report.loaded_rows * (8 + 8 + 4) + 6 * 4);
  EXPECT_EQ(report.loaded_bytes, report.loaded.bytes());
  EXPECT_GT(report.open_micros, 0);
  EXPECT_GT(report.check_micros, 0);
  EXPECT_GT(report.load_micros, 0);
  EXPECT_GE(report.total_micros,
            report.open_micros + report.check_micros + report.load_micros);
  std::ifstream log(options_.observers.statistics_path);
  std::string save;
  std::string restore;
  std::getline(log, save);
  ASSERT_TRUE(std::getline(log, restore));
  EXPECT_THAT(restore, StartsWith(R"({"event":"restore","time":")"));
  EXPECT_THAT(restore,
              EndsWith(absl::StrCat(
                  R"(,"step":2,"attempt":1,"store":")", options_.path,
                  R"(","metrics":{},"damaged_steps":[],"incremental":false,)",
                  R"("loaded_bytes":)", report.loaded_bytes,
                  R"(,"loaded_rows":11,"open_micros":)", report.open_micros,
                  R"(,"check_micros":)", report.check_micros,
                  R"(,"load_micros":)", report.load_micros,
                  R"(,"total_micros":)", report.total_micros, "}")));
}

class Sampler : public BlobState {
 public:
  std::string seed;
  absl::Status refuses;

  absl::StatusOr<std::string> Dump() override { return "seed " + seed; }
  absl::Status Load(absl::string_view bytes) override {
    seed = "of " + std::string(bytes);
    return refuses;
  }
};

TEST_F(ManagerTest, ObjectsSaveAndLoadThemselves) {
  const auto start_with = [this](Sampler* sampler) {
    manager_.reset();
    model_ = std::make_unique<TestModel>();
    ASSERT_OK(model_->state.AddObject("sampler", sampler));
    ASSERT_OK_AND_ASSIGN(manager_,
                         CheckpointManager::Open(options_, &model_->state));
  };
  Sampler saved;
  saved.seed = std::string("\0\xff", 2);
  ASSERT_NO_FATAL_FAILURE(start_with(&saved));
  TrainTo(2);
  Sampler loaded;
  ASSERT_NO_FATAL_FAILURE(start_with(&loaded));
  ASSERT_OK(manager_->Restore());
  EXPECT_EQ(loaded.seed, "of seed " + saved.seed);
  EXPECT_EQ(manager_->global_step(), 2);
  // It may refuse another trainer's step, which is never mistaken for an empty
  // store.
  loaded.refuses = absl::NotFoundError("another trainer's");
  EXPECT_THAT(manager_->Restore(),
              FailedPrecondition("\"sampler\": another trainer's"));
}

}  // namespace
}  // namespace ckptdb::testing
