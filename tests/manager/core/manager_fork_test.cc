// SPDX-License-Identifier: Apache-2.0
// Data loaders fork their trainer: the child's copy of a manager must do
// nothing.
#include "tests/manager/manager_fixture.h"
#include "tests/support/forked.h"

namespace ckptdb::testing {
namespace {

class ManagerForkTest : public ManagerTest {};

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

}  // namespace
}  // namespace ckptdb::testing
