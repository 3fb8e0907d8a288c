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
  EXPECT_THAT(state.extras()[0].load("short"), DataLoss("5 bytes"));
}

}  // namespace
}  // namespace ckptdb::testing
