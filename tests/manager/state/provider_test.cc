// SPDX-License-Identifier: Apache-2.0
// Models whose tensors move, or come to exist while the manager is open.
#include <stdexcept>
#include <utility>

#include "schema/status.h"
#include "tests/manager/manager_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ProviderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.path = dir_.path() + "/store";
    options_.schedule.permanent = SaveEveryNSteps(1);
    options_.observers.on_warning = [](const std::string&) {};
    model_.SetProvider([this](const StepReader* step) {
      model_.RemoveTensorsAndObjects();
      return provide_(step);
    });
    Reopen();
  }
  void Reopen() {
    manager_.reset();
    ASSERT_OK_AND_ASSIGN(manager_, CheckpointManager::Open(options_, &model_));
  }
  absl::Status AddWeights() {
    return model_.AddTensor(
        "w", TensorState::Of(weights_.data(),
                             {static_cast<int64_t>(weights_.size())}));
  }
  void TrainStep() {
    ASSERT_OK(manager_->Step());
    ASSERT_OK(manager_->WaitUntilFinished());
  }
  std::vector<float> Stored(int64_t step) {
    std::vector<float> stored(weights_.size());
    const auto reader = manager_->store()->OpenStep(step);
    EXPECT_OK(reader);
    if (reader.ok()) {
      EXPECT_OK((*reader)->ReadTensor("w", stored.data(),
                                      stored.size() * sizeof(float)));
    }
    return stored;
  }

  const TempDir dir_;
  ManagerOptions options_;
  std::vector<float> weights_ = {1, 2};
  std::function<absl::Status(const StepReader*)> provide_ =
      [this](const StepReader*) { return AddWeights(); };
  ModelState model_;
  std::unique_ptr<CheckpointManager> manager_;
};

TEST_F(ProviderTest, MovedTensorIsSavedAndRestoredAtItsNewPlace) {
  ASSERT_NO_FATAL_FAILURE(TrainStep());
  const std::vector<float> old = std::exchange(weights_, {3, 4});
  ASSERT_NO_FATAL_FAILURE(TrainStep());
  EXPECT_THAT(Stored(1), ElementsAre(1, 2));
  EXPECT_THAT(Stored(2), ElementsAre(3, 4));
  weights_ = std::vector<float>(2);
  ASSERT_OK(manager_->Restore({.step = 1}));
  EXPECT_THAT(weights_, ElementsAre(1, 2));
}

// Like the state of an optimizer, which is allocated in its first step.
TEST_F(ProviderTest, TensorOfTheStepIsAddedBeforeItIsRestored) {
  ASSERT_NO_FATAL_FAILURE(TrainStep());
  weights_.clear();
  std::vector<const StepReader*> steps;
  provide_ = [&](const StepReader* step) -> absl::Status {
    steps.push_back(step);
    if (step == nullptr) return AddWeights();
    CKPTDB_ASSIGN_OR_RETURN(const Item item, step->FindTensor("w"));
    weights_.resize(static_cast<size_t>(item.shape[0]));
    return AddWeights();
  };
  Reopen();
  EXPECT_THAT(steps, ElementsAre());
  ASSERT_OK(manager_->Restore());
  EXPECT_THAT(weights_, ElementsAre(1, 2));
  ASSERT_NO_FATAL_FAILURE(TrainStep());
  EXPECT_THAT(steps, ElementsAre(::testing::NotNull(), nullptr));
}

TEST_F(ProviderTest, LoadAsksForTensors) {
  ASSERT_NO_FATAL_FAILURE(TrainStep());
  weights_ = std::vector<float>(2);
  ASSERT_OK(manager_->Load({LoadRule{}}));
  EXPECT_THAT(weights_, ElementsAre(1, 2));
}

TEST_F(ProviderTest, ErrorEndsTheSaveAndTheRestore) {
  ASSERT_NO_FATAL_FAILURE(TrainStep());
  const auto working = provide_;
  provide_ = [](const StepReader*) {
    return absl::UnavailableError("tensors are on their way");
  };
  weights_ = {5, 6};
  EXPECT_THAT(manager_->Restore().status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("tensors are on their way")));
  EXPECT_THAT(weights_, ElementsAre(5, 6));
  EXPECT_THAT(
      manager_->Load({LoadRule{}}).status(),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("on their way")));
  ASSERT_OK(manager_->Step());
  EXPECT_THAT(manager_->WaitUntilFinished(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("save of step 2: tensors are on their way")));
  provide_ = working;
  ASSERT_NO_FATAL_FAILURE(TrainStep());
  EXPECT_THAT(Stored(3), ElementsAre(5, 6));
}

TEST_F(ProviderTest, ExceptionBecomesInternal) {
  provide_ = [](const StepReader*) -> absl::Status {
    throw std::runtime_error("no tensors");
  };
  ASSERT_OK(manager_->Step());
  EXPECT_THAT(manager_->WaitUntilFinished(),
              StatusIs(absl::StatusCode::kInternal,
                       ::testing::AllOf(HasSubstr("provider"),
                                        HasSubstr("no tensors"))));
}

// Neither the trainer nor its provider may add tables to an open manager.
TEST_F(ProviderTest, TablesOfAnOpenManagerCannotBeAdded) {
  TestTable early;
  TestTable late;
  const auto refused = AllOf(HasSubstr("2 tables, but had 1 when"),
                             HasSubstr("before CheckpointManager::Open"));
  manager_.reset();
  ASSERT_OK(model_.AddTable("early", &early));
  Reopen();
  ASSERT_NO_FATAL_FAILURE(TrainStep());
  bool added = false;
  provide_ = [&](const StepReader*) {
    CKPTDB_RETURN_IF_ERROR(AddWeights());
    return std::exchange(added, true) ? absl::OkStatus()
                                      : model_.AddTable("late", &late);
  };
  early.Set(1, 1);
  ASSERT_OK(manager_->Step());
  EXPECT_THAT(manager_->WaitUntilFinished(),
              StatusIs(absl::StatusCode::kFailedPrecondition, refused));
  EXPECT_THAT(manager_->Step(),
              StatusIs(absl::StatusCode::kFailedPrecondition, refused));
  EXPECT_THAT(manager_->Restore(),
              StatusIs(absl::StatusCode::kFailedPrecondition, refused));
  manager_.reset();
  Reopen();
  ASSERT_OK(manager_->Restore({.evolve = EvolvePolicy()}));
  EXPECT_EQ(manager_->global_step(), 1);
  ASSERT_NO_FATAL_FAILURE(TrainStep());
  manager_.reset();  // before the tables
}

TEST_F(ProviderTest, ObjectsAreRemovedWithTheTensors) {
  int64_t epoch = 7;
  ASSERT_OK(AddWeights());
  ASSERT_OK(model_.AddValue("epoch", &epoch));
  model_.RemoveTensorsAndObjects();
  ASSERT_OK(AddWeights());
  ASSERT_OK(model_.AddValue("epoch", &epoch));
  EXPECT_EQ(model_.AddValue("epoch", &epoch).code(),
            absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace ckptdb::testing
