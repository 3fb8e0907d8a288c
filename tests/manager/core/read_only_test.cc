// SPDX-License-Identifier: Apache-2.0
// A manager that follows a store while another one trains.
#include <atomic>
#include <filesystem>
#include <future>
#include <iterator>

#include "absl/strings/match.h"
#include "tests/manager/forwarding_coordinator.h"
#include "tests/manager/manager_fixture.h"
#include "tests/manager/run_ranks.h"

namespace ckptdb::testing {
namespace {

class ReadOnlyTest : public ManagerTest {
 protected:
  // The trainer has saved steps 2 and 4.
  void SetUp() override {
    ManagerTest::SetUp();
    Start();
    Train(4);
  }
  void Train(int64_t step) { TrainAndWait(step); }

  ManagerOptions ReadOnlyOptions() const {
    ManagerOptions options;
    options.path = options_.path;
    options.read_only = true;
    options.follow.poll_every = absl::Milliseconds(5);
    return options;
  }
  void Follow(const ManagerOptions& options) {
    follower_.reset();
    copy_ = std::make_unique<TestModel>();
    ASSERT_OK_AND_ASSIGN(follower_,
                         CheckpointManager::Open(options, &copy_->state));
  }
  void Follow() { Follow(ReadOnlyOptions()); }
  // Waits for a step, which must be `step`.
  RestoreReport WaitFor(int64_t step) {
    const auto report = follower_->WaitForStep(absl::Minutes(1));
    EXPECT_OK(report);
    if (!report.ok()) return {};
    EXPECT_EQ(report->version.step, step);
    EXPECT_EQ(follower_->global_step(), step);
    return *report;
  }
  RestoreReport Follows(int64_t step) {
    RestoreReport report = WaitFor(step);
    ExpectHolds(step);
    return report;
  }
  void ExpectHolds(int64_t step) { ExpectTrained(*copy_, step); }
  // Returns all files of the store except leases, with their bytes.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(options_.path)) {
      const std::string path = entry.path().string();
      if (absl::StrContains(path, "/leases/")) continue;
      std::string& bytes = files[path];
      if (!entry.is_regular_file()) continue;
      std::ifstream file(path, std::ios::binary);
      bytes.assign(std::istreambuf_iterator<char>(file), {});
    }
    return files;
  }

  std::unique_ptr<TestModel> copy_;
  std::unique_ptr<CheckpointManager> follower_;
};

TEST_F(ReadOnlyTest, OpenIsNotFound_WithoutAStore) {
  ManagerOptions options = ReadOnlyOptions();
  options.path = dir_.path() + "/none";
  TestModel model;
  EXPECT_THAT(CheckpointManager::Open(options, &model.state),
              NotFound(options.path));
  EXPECT_FALSE(std::filesystem::exists(options.path));
}

TEST_F(ReadOnlyTest, OpenRejectsAZeroPollInterval) {
  ManagerOptions options = ReadOnlyOptions();
  options.follow.poll_every = absl::ZeroDuration();
  TestModel model;
  EXPECT_THAT(CheckpointManager::Open(options, &model.state),
              InvalidArgument("poll_every is 0; it must be above 0"));
}

TEST_F(ReadOnlyTest, SavesNothingWhateverTheOptions) {
  ManagerOptions options = ReadOnlyOptions();
  options.schedule.permanent = SaveEveryNSteps(1);
  options.retention.keep = LatestN(1);
  options.observers.statistics_path = dir_.path() + "/statistics";
  options.observers.on_saved = [](const SaveReport&) { ADD_FAILURE(); };
  const auto before = Files();
  Follow(options);
  EXPECT_EQ(follower_->store(), nullptr);
  EXPECT_NE(follower_->reader(), nullptr);
  ASSERT_OK(follower_->Restore());
  ExpectHolds(4);
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, follower_->Step());
  EXPECT_EQ(outcome.step, 5);
  EXPECT_EQ(outcome.decision.kind, SavePolicy::Kind::kNone);
  EXPECT_EQ(outcome.decision.reason, "not saved: the manager is read-only");
  EXPECT_FALSE(outcome.save.has_value());
  const auto refused = FailedPrecondition(options.path, "is read-only");
  EXPECT_THAT(follower_->StepTo(5),
              InvalidArgument("step 5 is not after step 5"));
  ASSERT_OK(follower_->StartTraining());
  ASSERT_OK(follower_->FinishTraining());
  EXPECT_THAT(follower_->Save().status(), refused);
  EXPECT_THAT(follower_->Explain(4).status(), refused);
  EXPECT_THAT(follower_->Delete(4), refused);
  EXPECT_FALSE(follower_->IsSavingInProgress());
  ASSERT_OK(follower_->CheckForErrors());
  ASSERT_OK(follower_->Close());
  follower_.reset();
  EXPECT_EQ(Files(), before);
  EXPECT_FALSE(std::filesystem::exists(options.observers.statistics_path));
}

TEST_F(ReadOnlyTest, RestoresAndLoadsOnRequest) {
  ManagerOptions options = ReadOnlyOptions();
  options.restore.best = KeepPolicy::BestOptions{.metric = "auc"};
  ASSERT_OK(manager_->store()->AddMetrics(2, {{"auc", 0.9}}));
  ASSERT_OK(manager_->store()->AddMetrics(4, {{"auc", 0.1}}));
  Follow(options);
  ASSERT_OK(follower_->Restore());
  ExpectHolds(4);
  ASSERT_OK(follower_->Restore({.best = true, .verify = true}));
  ExpectHolds(2);
  Train(6);
  RestoreRequest named = {.step = 6};
  ASSERT_OK(follower_->Restore(named));
  ExpectHolds(6);
  named.step = 5;
  EXPECT_THAT(follower_->Restore(named), FailedPrecondition("no step 5"));

  const LoadRule dense = {.step = 2, .load = {"dense"}};
  LoadRule first = dense;
  first.only_if_empty = true;
  const LoadSummary summary = follower_->Load({dense, first}).value();
  EXPECT_EQ(copy_->weights[0], 2);
  EXPECT_EQ(summary.rules[1].note, "not loaded, because the store has step 6");
}

TEST_F(ReadOnlyTest, FollowsByChanges) {
  Follow();
  EXPECT_FALSE(Follows(4).incremental) << "the model was empty";
  EXPECT_EQ(copy_->users.clears(), 1);
  for (const int64_t step : {6, 8, 12}) {
    Train(step);
    EXPECT_TRUE(Follows(step).incremental);
  }
  EXPECT_EQ(copy_->users.clears(), 1) << "only changes were read";
}

// Calls functions when the rank has received the step to open, and when it then
// meets the others again.
class OpeningRank : public ForwardingCoordinator {
 public:
  OpeningRank(std::unique_ptr<Coordinator> ranks,
              std::function<void()> on_received,
              std::function<void()> on_opened)
      : ForwardingCoordinator(std::move(ranks)),
        on_received_(std::move(on_received)),
        on_opened_(std::move(on_opened)) {}
  absl::StatusOr<std::string> Broadcast(absl::string_view tag,
                                        std::string value,
                                        absl::Duration wait) override {
    auto received =
        ForwardingCoordinator::Broadcast(tag, std::move(value), wait);
    opening_ = tag == "step to restore";
    if (opening_) on_received_();
    return received;
  }
  absl::StatusOr<std::vector<std::string>> Gather(
      absl::string_view tag, std::string value, absl::Duration wait) override {
    if (std::exchange(opening_, false)) on_opened_();
    return ForwardingCoordinator::Gather(tag, std::move(value), wait);
  }

 private:
  const std::function<void()> on_received_;
  const std::function<void()> on_opened_;
  bool opening_ = false;
};

// The trainer folds step 8, whose changes the owner has opened already.
TEST_F(ReadOnlyTest, AllRanksReadTheWholeStep_WhenOneCannotOpenTheChanges) {
  ManagerOptions options = ReadOnlyOptions();
  options.ranks.sharding = TableSharding::ByModulo();
  options.restore.io_state_resize = ManagerOptions::IoStateResize::kReset;
  std::promise<void> opened;
  const auto body = [&](uint32_t rank, auto ranks) -> absl::Status {
    int restores = 0;
    const auto received = [&] {
      if (++restores < 2 || rank == 0) return;
      opened.get_future().wait();
      EXPECT_OK(manager_->store()->Delete(6));
      EXPECT_OK(manager_->store()->Fold(8));
    };
    const auto on_opened = [&] {
      if (restores == 2 && rank == 0) opened.set_value();
    };
    TestModel copy;
    copy.owns = [=](int64_t id) { return id % 2 == rank; };
    CKPTDB_ASSIGN_OR_RETURN(
        const auto follower,
        CheckpointManager::Open(options, &copy.state,
                                std::make_unique<OpeningRank>(
                                    std::move(ranks), received, on_opened)));
    CKPTDB_RETURN_IF_ERROR(follower->WaitForStep(absl::Minutes(1)).status());
    if (rank == 0) Train(8);
    CKPTDB_ASSIGN_OR_RETURN(const RestoreReport report,
                            follower->WaitForStep(absl::Minutes(1)));
    EXPECT_EQ(report.version.step, 8);
    EXPECT_FALSE(report.incremental) << rank;
    TestModel expected;
    expected.owns = copy.owns;
    for (int64_t step = 1; step <= 8; ++step) expected.Train(step);
    EXPECT_EQ(copy.users.rows(), expected.users.rows()) << rank;
    return follower->Close();
  };
  EXPECT_THAT(OnRanks(2, body), Each(IsOk()));
}

TEST_F(ReadOnlyTest, ReadsTheWholeStep_WhenTheModelHasChanged) {
  Follow();
  WaitFor(4);
  copy_->Train(5);
  ASSERT_OK(follower_->Step());
  Train(6);
  EXPECT_FALSE(Follows(6).incremental);
  const LoadRule rule = {.step = 2};
  ASSERT_OK(follower_->Load({rule}));
  Train(8);
  EXPECT_FALSE(Follows(8).incremental);
  ASSERT_OK(
      follower_->Restore({.step = 6, .mode = LiveTable::RestoreMode::kMerge}));
  EXPECT_FALSE(Follows(8).incremental);
}

TEST_F(ReadOnlyTest, ReadsTheWholeTable_WhenItWasSavedInFull) {
  options_.save.base_every = 1;
  Start();
  ASSERT_OK(manager_->Restore());
  Follow();
  WaitFor(4);
  Train(6);
  Follows(6);
  EXPECT_EQ(copy_->users.clears(), 2);
}

// A server waits without the lock of its model.
TEST_F(ReadOnlyTest, AwaitStepDoesNotChangeTheModel) {
  Follow();
  WaitFor(4);
  Train(6);
  const Version version = follower_->AwaitStep(absl::Minutes(1)).value();
  EXPECT_EQ(version.step, 6);
  ExpectHolds(4);
  EXPECT_EQ(follower_->global_step(), 4);
  Train(8);
  ASSERT_OK_AND_ASSIGN(const auto report, follower_->ApplyStep());
  EXPECT_EQ(report.version, version) << "the step that was awaited";
  EXPECT_TRUE(report.incremental);
  ExpectHolds(6);
  EXPECT_EQ(follower_->global_step(), 6);
  Follows(8);
}

TEST_F(ReadOnlyTest, ApplyStepOpensTheNewest_WhenNoneWasAwaited) {
  Follow();
  ASSERT_OK(follower_->ApplyStep());
  ExpectHolds(4);
  Train(6);
  ASSERT_OK(follower_->AwaitStep(absl::Minutes(1)));
  // The opened changes no longer apply to the model.
  ASSERT_OK(follower_->Restore({.step = 2}));
  Train(8);
  EXPECT_EQ(follower_->ApplyStep().value().version.step, 8);
  ExpectHolds(8);
  EXPECT_THAT(follower_->AwaitStep(absl::ZeroDuration()),
              DeadlineExceeded("the newest is step 8"));
  Train(10);
  ASSERT_OK(follower_->AwaitStep(absl::Minutes(1)));
  ASSERT_OK(follower_->Close()) << "with a step that was not applied";
}

TEST_F(ReadOnlyTest, OnlyAReadOnlyManagerFollows) {
  for (const absl::Status& status :
       {manager_->AwaitStep(absl::ZeroDuration()).status(),
        manager_->WaitForStep(absl::ZeroDuration()).status(),
        manager_->ApplyStep().status()}) {
    EXPECT_THAT(status, FailedPrecondition("is not read-only"));
  }
  EXPECT_EQ(manager_->reader(), nullptr);
}

// A serving job may start before the training job.
TEST_F(ReadOnlyTest, OpenWaitsForTheStore_AndWaitForStepForItsFirstStep) {
  ManagerOptions options = ReadOnlyOptions();
  options.path = dir_.path() + "/later";
  options.follow.await_store = absl::Milliseconds(1);
  TestModel model;
  EXPECT_THAT(CheckpointManager::Open(options, &model.state),
              NotFound(options.path, "waited 1ms", "await_store"));
  options.follow.await_store = absl::Minutes(5);
  std::unique_ptr<Store> store;
  std::thread owner([&] { store = Store::Open(options.path).value(); });
  Follow(options);
  owner.join();
  EXPECT_THAT(follower_->Restore(), NotFound(options.path));
  EXPECT_THAT(follower_->WaitForStep(absl::ZeroDuration()),
              DeadlineExceeded("no newer step was saved within 0"));
  store.reset();
  options_.path = options.path;
  Start();
  Train(2);
  Follows(2);
}

TEST_F(ReadOnlyTest, WaitForStepIsDeadlineExceeded_WithoutANewerStep) {
  Follow();
  WaitFor(4);
  EXPECT_THAT(follower_->WaitForStep(absl::Milliseconds(20)),
              DeadlineExceeded(
                  "no newer step was saved within 20ms; the newest is step 4"));
  ExpectHolds(4);
  Train(6);
  EXPECT_TRUE(Follows(6).incremental) << "the model was unchanged";
}

TEST_F(ReadOnlyTest, PreemptionEndsTheWait) {
  Follow();
  WaitFor(4);
  std::thread follower([&] {
    EXPECT_THAT(follower_->WaitForStep(absl::InfiniteDuration()),
                Cancelled("preempted"));
  });
  follower_->SetPreempted();
  follower.join();
  ExpectHolds(4);
}

// Only the owner polls; what it answers ends the call on all ranks.
TEST_F(ReadOnlyTest, CancellationOnTheOwnerEndsTheWaitOfAllRanks) {
  std::atomic<bool> cancel = false;
  RunModels(
      2, ReadOnlyOptions(),
      [&](uint32_t rank, CheckpointManager* manager, TestModel*) {
        ASSERT_OK(manager->WaitForStep(absl::Minutes(1)));
        if (rank == kOwnerRank) cancel = true;
        for (int i = 0; i < 2; ++i) {
          EXPECT_THAT(
              manager->WaitForStep(absl::Minutes(1)),
              Cancelled("rank 0", "cancelled while waiting for a step"));
        }
        cancel = false;
        EXPECT_EQ(manager->global_step(), 4);
        EXPECT_OK(manager->Restore());
        EXPECT_OK(manager->Close());
      },
      [&](uint32_t rank, ManagerOptions* options) {
        options->observers.cancelled = [&cancel, rank] {
          EXPECT_EQ(rank, kOwnerRank);
          return cancel.load();
        };
      });
}

TEST_F(ReadOnlyTest, FollowsWhileStepsAreRetired) {
  options_.retention.keep = LatestN(1);
  Start();
  ASSERT_OK(manager_->Restore());
  Follow();
  WaitFor(4);
  for (const int64_t step : {8, 14}) {
    Train(step);
    ASSERT_OK(manager_->store()->Sweep());
    EXPECT_THAT(Steps(), ElementsAre(step));
    Follows(step);
  }
  // Full steps: the data of the model's step is deleted.
  options_.save.deltas = false;
  Start();
  ASSERT_OK(manager_->Restore());
  Train(18);
  ASSERT_OK(manager_->store()->Sweep());
  Follows(18);
}

// Steps are deleted while they are opened, and others replace them.
TEST_F(ReadOnlyTest, FollowsABusyTrainer) {
  options_.schedule.permanent = SaveEveryNSteps(1);
  options_.retention.keep = LatestN(1);
  options_.store.background_sweep = true;
  options_.store.fold_bounds = {.max_deltas = 3};
  options_.store.background_fold = true;
  Start();
  ASSERT_OK(manager_->Restore());
  ManagerOptions options = ReadOnlyOptions();
  options.follow.poll_every = absl::Microseconds(1);
  Follow(options);
  constexpr int64_t kLast = 60;
  std::thread follower([&] {
    while (follower_->global_step() < kLast && !HasFailure()) {
      const auto report = follower_->WaitForStep(absl::Minutes(1));
      ASSERT_OK(report);
      ExpectHolds(report->version.step);
    }
  });
  Train(kLast);
  follower.join();
}

TEST_F(ReadOnlyTest, FollowsBackToAnOlderStep) {
  Train(8);
  Follow();
  WaitFor(8);
  Start();
  ASSERT_OK(manager_->Restore({.step = 4}));
  Train(6);
  Follows(6);
}

TEST_F(ReadOnlyTest, FoldIsNotANewerStep) {
  Follow();
  WaitFor(4);
  ASSERT_TRUE(manager_->store()->Fold(4).value().folded);
  EXPECT_THAT(follower_->WaitForStep(absl::ZeroDuration()),
              DeadlineExceeded("the newest is step 4"));
  Train(6);
  EXPECT_TRUE(Follows(6).incremental);
}

TEST_F(ReadOnlyTest, WorksWithoutAnOwner) {
  manager_.reset();
  const auto before = Files();
  Follow();
  Follows(4);
  EXPECT_EQ(Files(), before);
}

TEST_F(ReadOnlyTest, DamagedStepFailsAndIsNotQuarantined) {
  manager_.reset();
  bool damaged = false;
  for (const auto& [path, bytes] : Files()) {
    // The newest step's values: "line 4" is its io state.
    const size_t at = bytes.find("line 4");
    if (at == std::string::npos || !absl::EndsWith(path, ".sst")) continue;
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put('\x5a');
    damaged = true;
  }
  ASSERT_TRUE(damaged);
  Follow();
  RestoreRequest request = {.fall_back = true};
  EXPECT_THAT(follower_->Restore(request), DataLoss("step 4"));
  EXPECT_EQ(follower_->reader()->Latest().value().version.step, 4);
  request.step = 2;
  ASSERT_OK(follower_->Restore(request));
  ExpectHolds(2);
}

// The calls of the evaluation's loader and meters.
struct Text : BlobState {
  std::string text;
  absl::StatusOr<std::string> Dump() override { return text; }
  absl::Status Load(absl::string_view bytes) override {
    text = std::string(bytes);
    return absl::OkStatus();
  }
};

TEST_F(ReadOnlyTest, LoadsButDoesNotSaveEvaluations) {
  Follow();
  const EvaluationState::Name name = {4, "day_7", "eval/ctr"};
  Text meters;
  Text loader;
  for (CheckpointManager* each : {manager_.get(), follower_.get()}) {
    ASSERT_OK(each->evaluation()->AddGroup("eval/ctr", &meters));
  }
  meters.text = "sums";
  loader.text = "line";
  ASSERT_OK(manager_->evaluation()->Save(name, &loader, 7));
  meters.text = loader.text = "";
  EXPECT_EQ(follower_->evaluation()->Load(name, &loader).value(), 7U);
  EXPECT_EQ(meters.text, "sums");
  EXPECT_EQ(loader.text, "line");
  const auto refused = FailedPrecondition("is open read-only");
  EXPECT_THAT(follower_->evaluation()->Save(name, &loader, 8), refused);
  EXPECT_THAT(follower_->evaluation()->Cleanup(4), refused);
  EXPECT_THAT(follower_->evaluation()->CleanupAll(), refused);
}

TEST_F(ReadOnlyTest, RanksFollowTogether) {
  ManagerOptions options = ReadOnlyOptions();
  options.restore.io_state_resize = ManagerOptions::IoStateResize::kOwners;
  options.ranks.deadline = absl::Minutes(1);
  options.ranks.sharding =
      TableSharding::Replicated();  // each rank has all rows
  std::thread trainer([&] { Train(10); });
  RunModels(2, options,
            [](uint32_t, CheckpointManager* manager, TestModel* model) {
              while (manager->global_step() < 10) {
                ASSERT_OK_AND_ASSIGN(const RestoreReport report,
                                     manager->WaitForStep(absl::Minutes(1)));
                ExpectTrained(*model, report.version.step);
              }
              EXPECT_THAT(manager->WaitForStep(absl::ZeroDuration()),
                          DeadlineExceeded("no newer step"));
            });
  trainer.join();
}

}  // namespace
}  // namespace ckptdb::testing
