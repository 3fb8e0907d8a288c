// SPDX-License-Identifier: Apache-2.0
// Steps whose rows do not fit in a table of fixed size.
#include <array>
#include <optional>
#include <unordered_map>

#include "manager/map_table.h"
#include "manager/tables.h"
#include "tests/manager/raw_table.h"
#include "tests/manager/test_options.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

// A table of fixed size, and other tables and tensors with it, are unchanged if
// one row of the step does not fit.
class FixedSizeTest : public ::testing::Test {
 protected:
  // Saves "item" as step 1, then step 2, which changes its rows `ids`.
  void Save(TableState* items, const std::function<void()>& change = nullptr) {
    ModelState model;
    std::vector<float> weights(3, 1);
    ASSERT_OK(model.AddTensor("a", TensorState::Of(weights.data(), {3})));
    ASSERT_OK(model.AddTable("item", items));
    ASSERT_OK_AND_ASSIGN(const auto manager,
                         CheckpointManager::Open(Options(), &model));
    ASSERT_OK(manager->StepTo(1));
    if (change != nullptr) {
      change();
      ASSERT_OK(manager->StepTo(2));
    }
    ASSERT_OK(manager->Close());
  }
  // Restores into arrays of that many rows, which contain 9 before.
  absl::Status Restore(uint64_t rows,
                       const std::optional<LoadRule>& rule = std::nullopt) {
    weights_.assign(3, 9);
    values_.assign(2 * rows, 9);
    VectorTable items(rows, {Array("a", values_.data(), 2)});
    ModelState model;
    CKPTDB_RETURN_IF_ERROR(
        model.AddTensor("a", TensorState::Of(weights_.data(), {3})));
    CKPTDB_RETURN_IF_ERROR(model.AddTable("item", &items));
    CKPTDB_ASSIGN_OR_RETURN(const auto manager,
                            CheckpointManager::Open(Options(), &model));
    return rule.has_value() ? manager->Load({*rule}).status()
                            : manager->Restore().status();
  }
  void ExpectUnchanged() {
    EXPECT_THAT(weights_, Each(9));
    EXPECT_THAT(values_, Each(9));
  }
  ManagerOptions Options() const {
    ManagerOptions options = TestOptions(dir_.path() + "/store");
    options.save.async = false;
    return options;
  }

  TempDir dir_;
  std::vector<float> weights_;
  std::vector<float> values_;
};

TEST_F(FixedSizeTest, RestoreChangesNothing_WhenTheVectorTableShrank) {
  std::vector<float> saved(2 * 1000, 1);
  VectorTable items(1000, {Array("a", saved.data(), 2)});
  ASSERT_NO_FATAL_FAILURE(Save(&items));
  const auto is_too_small = OutOfRange(
      "table \"item\": row ", "beyond the 999 rows of the VectorTable");
  EXPECT_THAT(Restore(999), is_too_small);
  ExpectUnchanged();
  for (const bool clear : {true, false}) {
    const LoadRule rule = {.hashtable_clear = clear};
    EXPECT_THAT(Restore(999, rule), is_too_small);
    ExpectUnchanged();
  }
  EXPECT_OK(Restore(1000));
  EXPECT_THAT(values_, Each(1));
  EXPECT_OK(Restore(1001));
}

TEST_F(FixedSizeTest, RestoreChangesNothing_WhenARowOfADeltaIsBeyondTheArrays) {
  std::unordered_map<int64_t, std::array<float, 2>> rows = {{1, {1, 1}},
                                                            {3, {1, 1}}};
  MapTable items(&rows, {Field("a")});
  ASSERT_NO_FATAL_FAILURE(Save(&items, [&] {
    rows[70] = {2, 2};
    items.MarkUpserted({70});
  }));
  EXPECT_THAT(Restore(70), OutOfRange("row 70 of the step"));
  ExpectUnchanged();
  EXPECT_OK(Restore(71));
  EXPECT_EQ(values_[141], 2);
}

// Rows erased since do not count.
TEST_F(FixedSizeTest, RestoreSucceeds_WhenRowsBeyondTheArraysWereErased) {
  std::unordered_map<int64_t, std::array<float, 2>> rows = {{1, {1, 1}},
                                                            {70, {1, 1}}};
  MapTable items(&rows, {Field("a")});
  ASSERT_NO_FATAL_FAILURE(Save(&items, [&] {
    rows.erase(70);
    items.MarkErased({70});
  }));
  EXPECT_OK(Restore(2));
  EXPECT_THAT(values_, ElementsAre(0, 0, 1, 1));
}

// A user-defined table with room for a number of rows, whatever their ids.
TEST_F(FixedSizeTest, RestoreChangesNothing_WhenTheTableHasTooFewPlaces) {
  class FewPlaces : public RawTable {
   public:
    FewPlaces() : RawTable({{"a", DType::kF32, 2}}) {}
    std::optional<uint64_t> capacity() const override { return 2; }
  };
  std::unordered_map<int64_t, std::array<float, 2>> rows;
  for (const int64_t id : {-5, 17, 70}) rows[id] = {1, 1};
  MapTable items(&rows, {Field("a")});
  ASSERT_NO_FATAL_FAILURE(Save(&items));
  FewPlaces few;
  few.Set(8, {"12345678"});
  weights_.assign(3, 9);
  ModelState model;
  ASSERT_OK(model.AddTensor("a", TensorState::Of(weights_.data(), {3})));
  ASSERT_OK(model.AddTable("item", &few));
  const auto manager = CheckpointManager::Open(Options(), &model).value();
  EXPECT_THAT(manager->Restore(),
              ResourceExhausted("table \"item\": the step has 3 rows for this "
                                "rank, but the table has room for 2"));
  EXPECT_THAT(weights_, Each(9));
  EXPECT_EQ(few.rows().size(), 1U);
}

}  // namespace
}  // namespace ckptdb::testing
