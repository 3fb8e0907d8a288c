// SPDX-License-Identifier: Apache-2.0
// The errors of a step that does not match the registered model. They are never
// NotFound, which a training loop would interpret as an empty store, and start
// afresh.
#include "manager/load/load_fit.h"

#include "tests/manager/manager_fixture.h"

namespace ckptdb::testing {
namespace {

// Saves step 2 of a TestModel, and restores it into different models.
class LoadFitTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    Start();
    TrainAndClose(2);
    manager_.reset();
  }
  absl::Status RestoreInto(ModelState* model) {
    CKPTDB_ASSIGN_OR_RETURN(const auto manager,
                            CheckpointManager::Open(options_, model));
    return manager->Restore().status();
  }
};

TEST_F(LoadFitTest, ErrorNamesRenamedItemsAndTheNearestNames) {
  std::vector<float> weights(6, 7);
  TestTable members;
  TestIo reader;
  int64_t epoch = 0;
  ModelState model;
  ASSERT_OK(model.AddTensor("w2", TensorState::Of(weights.data(), {2, 3})));
  ASSERT_OK(model.AddTable("users", &members));
  ASSERT_OK(model.AddIoState("reader", &reader));
  ASSERT_OK(model.AddValue("epoch", &epoch));
  EXPECT_THAT(
      RestoreInto(&model),
      FailedPrecondition(
          "step 2 does not fit the model; missing in the step: dense \"w2\" "
          "(did you mean dense \"w\"?), sparse \"users\" (did you mean sparse "
          "\"user\"?); in the step, but not registered: dense \"w\", extra "
          "\"note\", sparse \"user\"; "));
  EXPECT_EQ(weights[0], 7) << "nothing is changed";
}

TEST_F(LoadFitTest, ErrorNamesMissingItemsAndOtherShapesTogether) {
  std::vector<float> weights(8, 77);
  float more = 0;
  int64_t later = 0;
  TestIo reader;
  ModelState model;
  ASSERT_OK(model.AddTensor("w", TensorState::Of(weights.data(), {2, 4})));
  ASSERT_OK(model.AddTensor("bias", TensorState::Of(&more, {1})));
  ASSERT_OK(model.AddValue("later", &later));
  ASSERT_OK(model.AddIoState("other reader", &reader));
  EXPECT_THAT(
      RestoreInto(&model),
      FailedPrecondition(
          "missing in the step: extra \"later\" (did you mean extra "
          "\"note\"?), dense \"bias\", io_state \"other reader\" (did you "
          "mean io_state \"reader\"?); ",
          "not as registered: dense \"w\": expected f32 [2, 4], got f32 [2, "
          "3]; "));
  EXPECT_THAT(weights, Each(77)) << "nothing is changed";
}

// An io state that reopens its input.
class LostInput : public BlobState {
 public:
  absl::StatusOr<std::string> Dump() override { return std::string("at 7"); }
  absl::Status Load(absl::string_view /*bytes*/) override {
    return absl::NotFoundError("no file /data/part-0");
  }
};

TEST_F(LoadFitTest, NotFoundFromTrainersCodeBecomesFailedPrecondition) {
  LostInput reader;
  ModelState model;
  ASSERT_OK(model.AddIoState("reader", &reader));
  EXPECT_THAT(RestoreInto(&model), FailedPrecondition("no file /data/part-0"));
  TestTable users;
  users.FailLoads(absl::NotFoundError("no shard"));
  ModelState tables;
  ASSERT_OK(tables.AddTable("user", &users));
  EXPECT_THAT(RestoreInto(&tables), FailedPrecondition("no shard"));
}

TEST_F(LoadFitTest, ErrorNamesTwentyItemsAndCountsTheRest) {
  std::vector<float> values(50);
  ModelState model;
  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(
        model.AddTensor(absl::StrCat("t", i),
                        TensorState::Of(&values[static_cast<size_t>(i)], {1})));
  }
  EXPECT_THAT(RestoreInto(&model),
              FailedPrecondition("dense \"t19\", and 30 more; ",
                                 Not(HasSubstr("\"t20\""))));
}

}  // namespace
}  // namespace ckptdb::testing
