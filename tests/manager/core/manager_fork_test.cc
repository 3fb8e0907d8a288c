// SPDX-License-Identifier: Apache-2.0
// Data loaders fork their trainer: the child's copy of a manager must do
// nothing.
#include <atomic>
#include <future>
#include <thread>

#include "tests/manager/manager_fixture.h"
#include "tests/support/forked.h"

namespace ckptdb::testing {
namespace {

class ManagerForkTest : public ManagerTest {
 protected:
  // Calls what a child may still call, and returns what did not behave.
  std::string WhatIsWrongInChild(const PendingSave& save, Reader* reader) {
    std::string wrong;
    const auto check = [&](const std::string& call, const absl::Status& is) {
      wrong += WhyNotRefused(call, is);
    };
    if (manager_->global_step() != 4) wrong += "global_step\n";
    if (manager_->IsSavingInProgress()) wrong += "IsSavingInProgress\n";
    if (manager_->preempted()) wrong += "preempted\n";
    manager_->SetPreempted();
    check("CheckForErrors", manager_->CheckForErrors());
    check("WaitUntilFinished", manager_->WaitUntilFinished());
    check("Step", manager_->Step().status());
    check("WaitStaged", save.WaitStaged());
    check("WaitCommitted", save.WaitCommitted().status());
    if (save.committed_or_failed()) wrong += "committed_or_failed\n";
    PendingSave(save).Cancel();
    Store* const store = manager_->store();
    if (!store->Steps().empty()) wrong += "Steps\n";
    if (!store->BadFiles().empty()) wrong += "BadFiles\n";
    if (!store->skipped_posts().empty()) wrong += "skipped_posts\n";
    if (!store->unswept().empty()) wrong += "unswept\n";
    check("Latest", store->Latest().status());
    if (!reader->Steps().empty()) wrong += "Reader::Steps\n";
    if (!reader->BadFiles().empty()) wrong += "Reader::BadFiles\n";
    check("Reader::Refresh", reader->Refresh());
    return wrong;
  }
};

TEST_F(ManagerForkTest, ForkedChildIsRefusedDuringASave) {
  Start();
  TrainAndWait(3);
  gate_.Close();
  ASSERT_OK(TrainStep());  // saves step 4
  ExpectInChild([&] {
    std::string wrong;
    const auto check = [&](const std::string& call, const absl::Status& is) {
      wrong += WhyNotRefused(call, is);
    };
    check("Step", manager_->Step().status());
    check("Save", manager_->Save().status());
    check("Restore", manager_->Restore().status());
    check("Load", manager_->Load({}).status());
    check("StartTraining", manager_->StartTraining());
    check("FinishTraining", manager_->FinishTraining());
    check("WaitForStep", manager_->WaitForStep(absl::Seconds(1)).status());
    check("CheckForErrors", manager_->CheckForErrors());
    check("WaitUntilFinished", manager_->WaitUntilFinished());
    check("Explain", manager_->Explain(2).status());
    check("Delete", manager_->Delete(2));
    check("BestStep", manager_->BestStep().status());
    check("Close", manager_->Close());
    check("Cleanup", manager_->evaluation()->Cleanup(2));
    if (manager_->IsSavingInProgress()) wrong += "IsSavingInProgress\n";
    manager_.reset();
    return wrong;
  });
  gate_.Open();
  ASSERT_OK(manager_->WaitUntilFinished());
  TrainAndClose(6);
  ExpectStepHolds(4);
  ExpectStepHolds(6);
}

// A lock that another thread holds at the fork is never released in the child.
TEST_F(ManagerForkTest, ForkedChildNeverWaitsForALock) {
  Start();
  TrainAndWait(3);
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(options_.path));
  gate_.Close();
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, TrainStep());
  ASSERT_TRUE(outcome.save.has_value());
  const PendingSave& save = *outcome.save;
  std::atomic<bool> done = false;
  std::vector<std::thread> others;
  const auto repeat = [&](std::function<void()> call) {
    others.emplace_back([&done, call = std::move(call)] {
      while (!done) call();
    });
  };
  repeat([&] { manager_->store(); });
  repeat([&] { save.committed_or_failed(); });
  repeat([&] { reader->Steps(); });
  // Holds the lock of the records all the time.
  std::promise<void> visiting;
  others.emplace_back([&] {
    manager_->store()->VisitStep(2, [&](const StepRecord&) {
      visiting.set_value();
      while (!done) std::this_thread::yield();
    });
  });
  visiting.get_future().wait();
  constexpr int kForks = 200;
  for (int i = 0; i < kForks && !HasFailure(); ++i) {
    ExpectInChild([&] { return WhatIsWrongInChild(save, reader.get()); });
  }
  done = true;
  for (std::thread& other : others) other.join();
  gate_.Open();
  ASSERT_OK(manager_->WaitUntilFinished());
  TrainAndClose(6);
  ExpectStepHolds(6);
}

}  // namespace
}  // namespace ckptdb::testing
