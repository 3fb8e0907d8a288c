// SPDX-License-Identifier: Apache-2.0
// A model with lossy codecs: audited deltas, a restore after which the training
// continues, and loads into another dtype.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <unordered_map>

#include "manager/map_table.h"
#include "tests/manager/test_options.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

struct LossyRow {
  std::array<float, 16> embedding = {};
  std::array<float, 16> adagrad_sum = {};
};

struct LossyModel {
  LossyModel(Codec table, Codec tensor)
      : users_table(&users,
                    {Field("embedding", &LossyRow::embedding, {.codec = table}),
                     Field("adagrad_sum", &LossyRow::adagrad_sum)}) {
    TensorState mlp = TensorState::Of(weights.data(), {300});
    mlp.codec = tensor;
    EXPECT_OK(state.AddTensor("mlp", mlp));
    EXPECT_OK(state.AddTable("user", &users_table));
  }

  void Train(std::mt19937_64* random) {
    std::normal_distribution<float> normal(0, 0.05f);
    for (int i = 0; i < 40; ++i) {
      const auto id = static_cast<int64_t>((*random)() % 300);
      LossyRow& row = users[id];
      for (float& number : row.embedding) number += normal(*random);
      for (float& number : row.adagrad_sum) number += 1;
      users_table.MarkUpserted({id});
    }
    for (float& weight : weights) weight += normal(*random);
  }

  ModelState state;
  std::vector<float> weights = std::vector<float>(300);
  std::unordered_map<int64_t, LossyRow> users;
  MapTable<std::unordered_map<int64_t, LossyRow>> users_table;
};

class LossyModelTest : public ::testing::Test {
 protected:
  LossyModelTest() : random_(TestSeed()) {
    options_ = TestOptions(dir_.path() + "/store");
    options_.save.audit_deltas = true;
    options_.save.async = false;
  }

  void Start(Codec table, Codec tensor) {
    manager_.reset();
    model_ = std::make_unique<LossyModel>(table, tensor);
    ASSERT_OK_AND_ASSIGN(manager_,
                         CheckpointManager::Open(options_, &model_->state));
  }
  void TrainSteps(int steps) {
    for (int i = 0; i < steps; ++i) {
      model_->Train(&random_);
      ASSERT_OK(manager_->Step().status());
    }
  }
  // Expects that `restored` is close to `trained`, and its optimizer state
  // equal.
  static void ExpectNear(const LossyModel& trained,
                         const LossyModel& restored) {
    ASSERT_EQ(restored.users.size(), trained.users.size());
    for (const auto& [id, row] : trained.users) {
      const LossyRow& other = restored.users.at(id);
      EXPECT_EQ(other.adagrad_sum, row.adagrad_sum);
      const auto [least, greatest] =
          std::minmax_element(row.embedding.begin(), row.embedding.end());
      for (size_t i = 0; i < row.embedding.size(); ++i) {
        EXPECT_NEAR(other.embedding[i], row.embedding[i],
                    (*greatest - *least) / 500);
      }
    }
    for (size_t i = 0; i < trained.weights.size(); ++i) {
      EXPECT_NEAR(restored.weights[i], trained.weights[i],
                  std::abs(trained.weights[i]) / 250);
    }
  }

  TempDir dir_;
  ManagerOptions options_;
  std::mt19937_64 random_;
  std::unique_ptr<LossyModel> model_;
  std::unique_ptr<CheckpointManager> manager_;
};

TEST_F(LossyModelTest, AuditedDeltasAreRestoredWithinTheError) {
  Start(Codec::kInt8, Codec::kBf16);
  TrainSteps(8);
  EXPECT_EQ(manager_->store()->Latest().value().kind, StepRecord::Kind::kDelta);
  ASSERT_OK(manager_->Close());
  const std::unique_ptr<LossyModel> trained = std::move(model_);

  // The codec of the restoring model does not matter.
  Start(Codec::kNone, Codec::kNone);
  ASSERT_OK(manager_->Restore().status());
  ExpectNear(*trained, *model_);
}

TEST_F(LossyModelTest, TrainingContinuesAndTheCodecMayChange) {
  for (const Codec codec :
       {Codec::kInt8, Codec::kBf16, Codec::kNone, Codec::kInt8}) {
    const bool first = model_ == nullptr;
    Start(codec, codec);
    if (!first) {
      ASSERT_OK(manager_->Restore().status());
    }
    TrainSteps(3);
    ASSERT_OK(manager_->Close());
  }
}

TEST_F(LossyModelTest, AuditFindsARowThatDoesNotRoundToTheStoredOne) {
  Start(Codec::kInt8, Codec::kNone);
  TrainSteps(3);
  model_->users.begin()->second.embedding[3] += 1;
  EXPECT_THAT(manager_->Step(),
              FailedPrecondition("in slot \"embedding\" and was not marked"));
}

TEST_F(LossyModelTest, LoadsAsAnotherDtype) {
  Start(Codec::kInt8, Codec::kInt8);
  TrainSteps(2);
  ASSERT_OK(manager_->Close());
  std::vector<float> same(300);
  std::vector<double> wide(300);
  for (const bool cast : {false, true}) {
    ModelState other;
    ASSERT_OK(
        other.AddTensor("mlp", cast ? TensorState::Of(wide.data(), {300})
                                    : TensorState::Of(same.data(), {300})));
    ManagerOptions options;
    options.path = dir_.path() + (cast ? "/cast" : "/same");
    const auto manager = CheckpointManager::Open(options, &other).value();
    const LoadRule rule = {.path = options_.path, .cast = cast};
    ASSERT_OK(manager->Load({rule}).status());
  }
  for (size_t i = 0; i < same.size(); ++i) {
    EXPECT_EQ(wide[i], same[i]);
    EXPECT_NEAR(same[i], model_->weights[i], 0.01);
  }
}

}  // namespace
}  // namespace ckptdb::testing
