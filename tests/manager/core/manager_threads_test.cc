// SPDX-License-Identifier: Apache-2.0
// Calls of a manager concurrent with those of the training thread, and after
// Close.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <future>
#include <set>
#include <thread>

#include "tests/manager/manager_fixture.h"
#include "tests/manager/run_ranks.h"
#include "tests/support/exit_folder.h"

namespace ckptdb::testing {
namespace {

using ::testing::ExitedWithCode;

void Pause(std::chrono::milliseconds time) {
  std::promise<void> never;
  never.get_future().wait_for(time);
}

class ManagerThreadsTest : public ManagerTest {
 protected:
  // Begins a save of step 1 that stays in progress until the gate opens.
  PendingSave BeginSave() {
    gate_.Close();
    EXPECT_OK(TrainStep());
    absl::StatusOr<PendingSave> save = manager_->Save();
    EXPECT_OK(save);
    return *std::move(save);
  }
  void Cancel(PendingSave save) {
    save.Cancel();
    gate_.Open();
  }
  // Starts waiting on other threads, and returns once they have begun.
  std::vector<std::future<absl::Status>> Wait(int threads) {
    std::vector<std::future<absl::Status>> waiters;
    for (int i = 0; i < threads; ++i) {
      waiters.push_back(std::async(std::launch::async, [this] {
        return manager_->WaitUntilFinished();
      }));
    }
    for (auto& waiter : waiters) {
      EXPECT_EQ(waiter.wait_for(std::chrono::milliseconds(50)),
                std::future_status::timeout);
    }
    return waiters;
  }
  template <typename Function>
  static auto OnAnotherThread(Function&& function) {
    return std::async(std::launch::async, std::forward<Function>(function))
        .get();
  }
};

TEST_F(ManagerThreadsTest, EachWaiterReceivesTheErrorOfAFailedSave) {
  Start();
  PendingSave save = BeginSave();
  auto waiters = Wait(4);
  Cancel(save);
  for (auto& waiter : waiters) EXPECT_THAT(waiter.get(), Cancelled("step 1"));
  // The training receives it, too, once.
  EXPECT_THAT(manager_->Step(), Cancelled("step 1"));
  EXPECT_OK(manager_->CheckForErrors());
  EXPECT_OK(OnAnotherThread([&] { return manager_->WaitUntilFinished(); }));
}

TEST_F(ManagerThreadsTest, OtherThreadsAndTheTrainingWaitForTheSameSave) {
  Start();
  PendingSave save = BeginSave();
  auto waiters = Wait(3);
  auto canceller = std::async(std::launch::async, [&] {
    Pause(std::chrono::milliseconds(20));
    save.Cancel();
    gate_.Open();
  });
  EXPECT_THAT(manager_->WaitUntilFinished(), Cancelled("step 1"));
  for (auto& waiter : waiters) EXPECT_THAT(waiter.get(), Cancelled("step 1"));
  EXPECT_OK(manager_->WaitUntilFinished());
  EXPECT_OK(manager_->Close());
}

TEST_F(ManagerThreadsTest, CheckForErrorsOnAnotherThreadTakesNothing) {
  Start();
  PendingSave save = BeginSave();
  EXPECT_OK(OnAnotherThread([&] { return manager_->CheckForErrors(); }));
  Cancel(save);
  EXPECT_THAT(OnAnotherThread([&] { return save.WaitCommitted().status(); }),
              Cancelled("step 1"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(OnAnotherThread([&] { return manager_->CheckForErrors(); }),
                Cancelled("step 1"));
    EXPECT_THAT(OnAnotherThread([&] { return manager_->WaitUntilFinished(); }),
                Cancelled("step 1"));
  }
  EXPECT_THAT(manager_->Close(), Cancelled("step 1"));
}

TEST_F(ManagerThreadsTest, ToleratedFailureIsNotAnError) {
  options_.save.tolerated_failures = 1;
  options_.observers.on_warning = [](const std::string&) {};
  Start();
  PendingSave save = BeginSave();
  auto waiters = Wait(2);
  Cancel(save);
  for (auto& waiter : waiters) EXPECT_OK(waiter.get());
  EXPECT_OK(manager_->Close());
}

// Each new thread costs memory in the C library.
TEST_F(ManagerThreadsTest, OneThreadRunsAllSaves) {
  std::set<pid_t> threads;
  options_.observers.on_saved = [&](const SaveReport&) {
    threads.insert(gettid());
  };
  Start();
  for (int i = 0; i < 5; ++i) TrainAndWait(manager_->global_step() + 2);
  ASSERT_OK(manager_->Close());
  EXPECT_EQ(threads.size(), 1U);
  EXPECT_FALSE(threads.contains(gettid()));
}

// Step does not return before the end of its save.
TEST_F(ManagerThreadsTest, OtherThreadsWaitForASynchronousSave) {
  options_.save.async = false;
  Start();
  gate_.Close();
  auto training = std::async(std::launch::async, [&] {
    EXPECT_OK(TrainStep());
    return TrainStep().status();
  });
  while (!manager_->IsSavingInProgress()) std::this_thread::yield();
  auto waiters = Wait(2);
  gate_.Open();
  EXPECT_OK(training.get());
  for (auto& waiter : waiters) EXPECT_OK(waiter.get());
  EXPECT_THAT(Steps(), ElementsAre(2));
}

// A save's callbacks are part of it.
TEST_F(ManagerThreadsTest, WaitUntilFinishedWaitsForCallbacks) {
  std::promise<void> in_callback;
  std::promise<void> go;
  options_.observers.on_saved = [&](const SaveReport&) {
    in_callback.set_value();
    go.get_future().wait();
  };
  Start();
  ASSERT_OK(TrainStep());
  ASSERT_OK_AND_ASSIGN(const PendingSave save, manager_->Save());
  in_callback.get_future().wait();
  EXPECT_OK(save.WaitCommitted());
  auto waiters = Wait(2);
  go.set_value();
  for (auto& waiter : waiters) EXPECT_OK(waiter.get());
}

TEST_F(ManagerThreadsTest, CallbackCannotWaitForItsOwnSave) {
  for (const bool async : {true, false}) {
    SCOPED_TRACE(async);
    std::vector<absl::Status> refused;
    options_.path = dir_.path() + (async ? "/async" : "/sync");
    options_.save.async = async;
    options_.observers.on_saved = [&](const SaveReport& report) {
      EXPECT_OK(report.status);
      refused = {manager_->WaitUntilFinished(),
                 manager_->Step().status(),
                 manager_->Save().status(),
                 manager_->Restore().status(),
                 manager_->Load({}).status(),
                 manager_->Delete(1),
                 manager_->StartTraining(),
                 manager_->FinishTraining(),
                 manager_->WaitForStep(absl::Seconds(1)).status(),
                 manager_->Close()};
      // The calls that any thread may make.
      EXPECT_OK(manager_->CheckForErrors());
      EXPECT_FALSE(manager_->IsSavingInProgress());
      EXPECT_EQ(manager_->global_step(), 2);
      EXPECT_OK(manager_->Explain(2));
      EXPECT_OK(manager_->store()->Pin(2));
    };
    Start();
    TrainAndWait(2);
    EXPECT_THAT(refused, SizeIs(10));
    EXPECT_THAT(refused, Each(FailedPrecondition("such as on_saved")));
    options_.observers.on_saved = nullptr;
    ASSERT_OK(manager_->Close());
    EXPECT_THAT(Steps(), ElementsAre(2));
  }
}

// A call's worker threads run the trainer's code, too, and the call waits for
// them.
TEST_F(ManagerThreadsTest, WorkersOfACallCannotCallTheManager) {
  const std::thread::id trainer = std::this_thread::get_id();
  std::mutex mutex;
  std::vector<absl::Status> refused;
  std::atomic<bool> reading = false;  // the tensors, on several threads
  std::atomic<bool> called = false;
  options_.restore.read.threads = 4;
  options_.restore.read.progress = [&](uint64_t, uint64_t) { reading = true; };
  options_.restore.read.cancelled = [&] {
    // This thread leaves a task to another one.
    while (std::this_thread::get_id() == trainer && reading && !called) {
      std::this_thread::yield();
    }
    const std::lock_guard<std::mutex> lock(mutex);
    if (!reading || called) return false;
    refused = {manager_->Save().status(), manager_->WaitUntilFinished(),
               manager_->Close()};
    called = true;
    return false;
  };
  std::vector<float> large(4'000'000);
  Start();
  manager_.reset();
  ASSERT_OK(model_->state.AddTensor(
      "large", TensorState::Of(large.data(), {4'000'000})));
  Reopen();
  TrainAndWait(2);
  EXPECT_EQ(Restored(), 2);
  EXPECT_THAT(refused, SizeIs(3));
  EXPECT_THAT(refused, Each(FailedPrecondition("must not call the manager")));
  ASSERT_OK(manager_->Close());
}

// The policy runs while the manager plans the retention that Explain reports.
TEST_F(ManagerThreadsTest, PolicyCannotAskWhyAStepIsKept) {
  absl::Status refused;
  options_.retention.keep = KeepIf("asks", [&](const StepInfo& step) {
    refused = manager_->Explain(step.step).status();
    return true;
  });
  Start();
  TrainAndWait(4);
  EXPECT_THAT(refused, FailedPrecondition("Explain", "policy"));
  refused = absl::OkStatus();
  EXPECT_OK(manager_->Explain(2));
  EXPECT_THAT(refused, FailedPrecondition("Explain", "policy"));
  ASSERT_OK(manager_->Close());
}

TEST_F(ManagerThreadsTest, ClosedManagerRefusesEveryCall) {
  Start();
  TrainTo(2);
  CheckpointManager* const manager = manager_.get();
  Store* const store = manager->store();
  EvaluationState* const evaluation = manager->evaluation();
  ASSERT_OK(manager->Close());
  EXPECT_OK(manager->Close());
  const std::vector<absl::Status> refused = {
      manager->Step().status(),
      manager->StepTo(9).status(),
      manager->Save().status(),
      manager->StartTraining(),
      manager->FinishTraining(),
      manager->Restore().status(),
      manager->WaitForStep(absl::Seconds(1)).status(),
      manager->Load({}).status(),
      manager->Explain(2).status(),
      manager->BestStep().status(),
      manager->Delete(2),
      manager->CheckForErrors(),
      manager->WaitUntilFinished(),
      store->Latest().status(),
      evaluation->Cleanup(2),
      evaluation->CleanupAll()};
  EXPECT_THAT(refused, Each(FailedPrecondition(options_.path, "is closed")));
  EXPECT_FALSE(manager->IsSavingInProgress());
  EXPECT_EQ(manager->store(), nullptr);
  EXPECT_EQ(manager->reader(), nullptr);
  EXPECT_EQ(manager->global_step(), 2);
}

// By another manager of the same model, and as a Store.
TEST_F(ManagerThreadsTest, StoreCanBeOpenedRightAfterClose) {
  Start();
  TrainAndClose(2);
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(options_.path));
    EXPECT_OK(store->Latest());
  }
  const auto next = CheckpointManager::Open(options_, &model_->state).value();
  ASSERT_OK(next->Restore());
  EXPECT_EQ(next->global_step(), 2);
  manager_.reset();
  ASSERT_OK(next->Step());
  ASSERT_OK(next->Save());
  EXPECT_OK(next->Close());
}

TEST_F(ManagerThreadsTest, CloseFails_WhileTheStoreHasAReader) {
  Start();
  TrainAndWait(2);
  ASSERT_OK_AND_ASSIGN(auto step, manager_->store()->OpenStep(2));
  EXPECT_THAT(manager_->Close(), FailedPrecondition("StepReader"));
  TrainTo(4);
  step.reset();
  EXPECT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
}

TEST_F(ManagerThreadsTest, CloseWakesWaiters) {
  Start();
  PendingSave save = BeginSave();
  auto waiters = Wait(2);
  Cancel(save);
  EXPECT_THAT(manager_->Close(), Cancelled("step 1"));
  for (auto& waiter : waiters) EXPECT_THAT(waiter.get(), Cancelled("step 1"));
  EXPECT_OK(manager_->Close());
}

// One rank closes long before the others; none waits for it.
TEST_F(ManagerThreadsTest, RanksCloseIndependently) {
  options_.ranks.deadline = absl::Seconds(30);
  options_.store.on_point = nullptr;
  const auto begin = std::chrono::steady_clock::now();
  RunModels(3, options_,
            [](uint32_t rank, CheckpointManager* manager, TestModel* model) {
              for (int64_t step = 1; step <= 2; ++step) {
                model->Train(step);
                ASSERT_OK(manager->Step());
              }
              // The owner closes in between.
              Pause(std::chrono::milliseconds(std::array{100, 0, 200}[rank]));
              EXPECT_OK(manager->Close());
              EXPECT_OK(manager->Close());
            });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_OK(Store::Open(options_.path).value()->FindStep(2));
}

// Exits of processes, each in a separate process.
std::unique_ptr<CheckpointManager> global_manager;
// Keeps leaked objects reachable for a leak checker.
CheckpointManager* leaked_manager = nullptr;
TestModel* leaked_model = nullptr;

class ManagerExitTest : public ManagerThreadsTest {
 protected:
  void SetUp() override {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    ManagerThreadsTest::SetUp();
    options_.path = ExitFolder(dir_) + "/store";
    options_.store.on_point = nullptr;
    options_.observers.on_saved = nullptr;
    options_.observers.on_warning = nullptr;  // to stderr
    options_.store.background_sweep = true;
  }
  // A save is in progress.
  std::unique_ptr<CheckpointManager> StartSave() {
    Start();
    TrainTo(1);
    EXPECT_OK(manager_->Save());
    leaked_model = model_.release();
    return std::move(manager_);
  }
};

TEST_F(ManagerExitTest, GlobalManager) {
  // The store is already closed, which must not be reported as a failed sweep.
  EXPECT_EXIT(
      {
        global_manager = StartSave();
        std::exit(HasFailure() ? 1 : 0);
      },
      ExitedWithCode(0), Not(HasSubstr("sweep")));
}

TEST_F(ManagerExitTest, ClosedGlobalManager) {
  EXPECT_EXIT(
      {
        global_manager = StartSave();
        const bool closed = global_manager->Close().ok();
        std::exit(closed && !HasFailure() ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

// The save in progress is not lost.
TEST_F(ManagerExitTest, WaitsForTheSaveInProgress) {
  EXPECT_EXIT(
      {
        leaked_manager = StartSave().release();
        std::exit(HasFailure() ? 1 : 0);
      },
      ExitedWithCode(0), "");
  EXPECT_OK(Reader::Open(options_.path).value()->FindStep(1));
}

// A callback that ends the process does not wait for itself.
TEST_F(ManagerExitTest, CallbackMayExit) {
  options_.observers.on_saved = [](const SaveReport&) { std::exit(0); };
  EXPECT_EXIT(
      {
        leaked_manager = StartSave().release();
        Pause(std::chrono::seconds(30));
        std::abort();
      },
      ExitedWithCode(0), "");
}

// exit() then destroys the manager on the thread that saves.
TEST_F(ManagerExitTest, CallbackOfAGlobalManagerMayExit) {
  std::promise<void> assigned;
  options_.observers.on_saved =
      [is_global = assigned.get_future().share()](const SaveReport&) {
        is_global.wait();
        std::exit(0);
      };
  EXPECT_EXIT(
      {
        global_manager = StartSave();
        assigned.set_value();
        Pause(std::chrono::seconds(30));
        std::abort();
      },
      ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ckptdb::testing
