// SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <limits>

#include "manager/state/registered_state.h"
#include "tests/manager/test_model.h"

namespace ckptdb::testing {
namespace {

TEST(ModelStateTest, RejectsDuplicateNames) {
  TestModel model;
  const auto taken = AlreadyExists("state \"w\" is already registered");
  EXPECT_THAT(
      model.state.AddTensor("w", TensorState::Of(model.weights.data(), {6})),
      taken);
  EXPECT_THAT(model.state.AddTable("w", &model.users), taken);
  EXPECT_THAT(model.state.AddIoState("w", &model.reader), taken);
  EXPECT_THAT(model.state.AddValue("w", &model.epoch), taken);
}

TEST(ModelStateTest, AddsShardsOfOneTensor) {
  float values[8] = {};
  int32_t numbers[8] = {};
  double number = 0;
  ModelState state;
  const auto shard = []<typename T>(T* data, Shape shape, Shape global,
                                    Shape offset) {
    TensorState tensor = TensorState::Of(data, std::move(shape));
    tensor.global_shape = std::move(global);
    tensor.offset = std::move(offset);
    return tensor;
  };
  for (int round = 0; round < 2; ++round) {
    ASSERT_OK(state.AddTensor("w", shard(values, {2, 2}, {6, 2}, {0, 0})));
    ASSERT_OK(state.AddTensor("w", shard(values, {2, 2}, {6, 2}, {4, 0})));
    ASSERT_OK(state.AddTensor("w", shard(values, {0, 2}, {6, 2}, {4, 0})));
    const struct {
      TensorState tensor;
      std::string words;
    } bad[] = {
        {shard(values, {2, 2}, {6, 2}, {4, 0}), "[2, 2] at [4, 0] overlap"},
        {shard(values, {0, 2}, {6, 2}, {4, 0}), "[0, 2] at [4, 0] overlap"},
        {shard(values, {2, 2}, {6, 2}, {1, 0}),
         "its shards of shape [2, 2] at [0, 0] and [2, 2] at [1, 0] overlap"},
        {shard(values, {2, 2}, {6, 2}, {5, 0}), "is not within [6, 2]"},
        {shard(values, {2, 2}, {6, 2}, {2}), "is not within [6, 2]"},
        {shard(values, {2, 2}, {7, 2}, {2, 0}),
         "its shards have global shapes [6, 2] and [7, 2]"},
        {shard(numbers, {2, 2}, {6, 2}, {2, 0}),
         "its shards have dtypes f32 and i32"},
        {shard(static_cast<float*>(nullptr), {2, 2}, {6, 2}, {2, 0}),
         "is null"}};
    for (const auto& each : bad) {
      EXPECT_THAT(state.AddTensor("w", each.tensor),
                  InvalidArgument("state \"w\"", each.words));
    }
    const auto taken = AlreadyExists("state \"w\" is already registered");
    EXPECT_THAT(state.AddTensor("w", TensorState::Of(values, {2, 2})), taken);
    EXPECT_THAT(state.AddValue("w", &number), taken);
    EXPECT_EQ(state.tensors().size(), 3u);
    state.RemoveTensorsAndObjects();
  }
  // A replicated tensor has no shards.
  ASSERT_OK(state.AddTensor("w", TensorState::Of(values, {2, 2})));
  EXPECT_THAT(state.AddTensor("w", shard(values, {2, 2}, {6, 2}, {0, 0})),
              AlreadyExists("\"w\""));
}

TEST(ModelStateTest, RejectsReservedNamesShapesAndCodecs) {
  TestModel model;
  ModelState& state = model.state;
  float weight = 0;
  // A load rule could not distinguish it from the category.
  for (const char* const name :
       {"sparse", "sparse_opt", "dense", "extra", "io_state"}) {
    EXPECT_THAT(state.AddTensor(name, TensorState::Of(&weight, {})),
                InvalidArgument(absl::StrCat("state \"", name,
                                             "\": the name is a category")));
  }
  EXPECT_OK(state.AddTensor("dense2", TensorState::Of(&weight, {})));
  for (const std::string name : {"global_step", "ckptdb.x"}) {
    EXPECT_THAT(state.AddValue(name, &model.epoch),
                InvalidArgument("\"" + name + "\": the name is reserved"));
  }
  EXPECT_THAT(state.AddValue("", &model.epoch), InvalidArgument("name"));
  EXPECT_THAT(state.AddTensor("x", TensorState::Of(&weight, {-1})),
              InvalidArgument("state \"x\": "));
  TensorState number = TensorState::Of(&model.epoch, {1});
  number.codec = Codec::kBf16;
  EXPECT_THAT(state.AddTensor("x", number),
              InvalidArgument("state \"x\": codec bf16"));
  EXPECT_OK(state.AddTensor("x", TensorState::Of<float>(nullptr, {0})));
}

TEST(ModelStateTest, RejectsNull) {
  TestModel model;
  const auto null = InvalidArgument("state \"x\" is null");
  ModelState& state = model.state;
  EXPECT_THAT(state.AddTensor("x", TensorState::Of<float>(nullptr, {1})), null);
  EXPECT_THAT(state.AddTable("x", nullptr), null);
  EXPECT_THAT(state.AddIoState("x", nullptr), null);
  EXPECT_THAT(state.AddObject("x", nullptr), null);
  EXPECT_THAT(state.AddValue("x", static_cast<double*>(nullptr)), null);
  // Refused state was not registered.
  EXPECT_OK(state.AddTable("x", &model.users));
}

TEST(ModelStateTest, ValuesRoundTrip) {
  double value = std::numeric_limits<double>::quiet_NaN();
  ModelState state;
  ASSERT_OK(state.AddValue("v", &value));
  ASSERT_OK_AND_ASSIGN(const std::string bytes, state.extras()[0].save());
  value = 3;
  ASSERT_OK(state.extras()[0].load(bytes));
  EXPECT_TRUE(std::isnan(value));
  EXPECT_THAT(state.extras()[0].load("short"), FailedPrecondition("5 bytes"));
}

}  // namespace
}  // namespace ckptdb::testing
