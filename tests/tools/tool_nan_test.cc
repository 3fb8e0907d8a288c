// SPDX-License-Identifier: Apache-2.0
// nan: tensors and rows that are not finite, and since when.
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

constexpr float kNanValue = std::numeric_limits<float>::quiet_NaN();

// Steps 100, 200, ... of one trainer, each on top of the one before: table
// "user" with rows 1 to 9, of which a step saves the changed ones, and tensor
// "w", which is borrowed if it has not changed.
class ToolNan : public ToolFixture {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> MakeStore() const override {
    StoreOptions options;
    options.background_sweep = false;
    return Store::Open(path(), options);
  }

  // Saves the next step, with these rows changed.
  void Save(const std::map<int64_t, float>& changed, float weight = 1) {
    step_ += 100;
    for (const auto& [id, value] : changed) rows_[id] = value;
    const bool full = !parent_.has_value();
    std::vector<int64_t> ids;
    std::vector<float> values;
    for (const auto& [id, value] : full ? rows_ : changed) {
      ids.push_back(id);
      values.insert(values.end(), {0, value});
    }
    const std::vector<uint32_t> counts(ids.size(), 1);
    const RowSource::Arrays rows(ids, {{values.data(), 8}, {counts.data(), 4}});
    RankState state;
    RankState::Table table = {
        .name = "user",
        .slots = {{"embedding", DType::kF32, 2}, {"freq", DType::kU32, 1}},
        .rows = full ? &rows : nullptr};
    if (!full) table.changes = RankState::Changes{&rows, {}};
    state.AddTable(std::move(table));
    const std::vector<float> weights = {1, weight};
    state.AddTensor("w", TensorView::Of(weights.data(), {2}));
    Own();
    SaveSpec spec;
    spec.step = step_;
    spec.parent = parent_;
    ASSERT_OK_AND_ASSIGN(const SaveResult saved, store_->Save(spec, state));
    parent_ = saved.version;
    Disown();
  }
  void SaveSteps(int count) {
    for (int i = 0; i < count; ++i) Save({{1, static_cast<float>(i)}});
  }

  // Returns the first step of each row that `nan` lists, by id.
  std::map<int64_t, int64_t> FirstSteps(const std::string& command) {
    std::map<int64_t, int64_t> first;
    const Json nan = RunJson(command);
    for (const Json& row : nan["tables"][0]["rows"]) {
      first[row["id"].get<int64_t>()] = row["first_step"]["step"];
    }
    return first;
  }

  int64_t step_ = 0;
  std::optional<Version> parent_;
  std::map<int64_t, float> rows_ = {{1, 0}, {2, 0}, {3, 0}, {9, 0}};
};

TEST_F(ToolNan, NothingToFind) {
  SaveSteps(2);
  ExpectPrints("nan", ContainsRegex("^step 200 attempt 2: NaN or infinite "
                                    "elements in 0 of 1 tensors, 0 of 4 "
                                    "rows\n$"));
}

TEST_F(ToolNan, FindsTheFirstStepOfRows) {
  Save({{9, kNanValue}});                   // 100: the oldest step
  SaveSteps(2);                             // 200, 300
  Save({{2, kNanValue}, {3, INFINITY}});    // 400
  SaveSteps(3);                             // 500 to 700
  Save({{3, -INFINITY}});                   // 800: still infinite
  Save({{2, kNanValue}, {-5, kNanValue}});  // 900
  SaveSteps(1);                             // 1000
  using First = std::map<int64_t, int64_t>;
  EXPECT_EQ(FirstSteps("nan"),
            (First{{-5, 900}, {2, 400}, {3, 400}, {9, 100}}));
  EXPECT_EQ(FirstSteps("nan --limit 2"), (First{{-5, 900}, {2, 400}}));
  EXPECT_EQ(FirstSteps("nan user --step 800"),
            (First{{2, 400}, {3, 400}, {9, 100}}));
  EXPECT_THAT(RunJson("nan"), Includes(R"({"step": 1000, "tables": [{
      "name": "user", "not_finite_rows": 4, "read_rows": 5, "rows": [
        {"id": -5, "nan_elements": 1, "inf_elements": 0, "slots": ["embedding"],
         "first_step_is_oldest": false}, {}, {"inf_elements": 1},
        {"first_step": {"step": 100}, "first_step_is_oldest": true}]}]})"));
  ASSERT_EQ(Run("rm 400 500").code, 0);
  EXPECT_EQ(FirstSteps("nan"),
            (First{{-5, 900}, {2, 600}, {3, 600}, {9, 100}}));
  ASSERT_EQ(Run("fold 800").code, 0);
  EXPECT_EQ(FirstSteps("nan"),
            (First{{-5, 900}, {2, 600}, {3, 600}, {9, 100}}));
}

TEST_F(ToolNan, FindsTheFirstStepOfTensors) {
  SaveSteps(3);
  Save({}, kNanValue);  // 400
  Save({}, kNanValue);  // 500: borrows
  Save({}, INFINITY);   // 600
  EXPECT_THAT(RunJson("nan w"), Includes(R"({
      "tensors_read": 1, "tables": [], "tensors": [{
        "name": "w", "nan_elements": 0, "inf_elements": 1, "shape": [2],
        "first_step": {"step": 400}, "first_step_is_oldest": false}]})"));
  EXPECT_THAT(RunJson("nan --step 300"), Includes(R"({"tensors": []})"));
  EXPECT_THAT(RunJson("nan --no-first-step"),
              Includes(R"({"tensors": [{"first_step": null}]})"));
}

TEST_F(ToolNan, AsTables) {
  Save({{2, kNanValue}});
  Save({{3, INFINITY}, {9, kNanValue}}, INFINITY);
  EXPECT_THAT(
      Run("nan --limit 2").out,
      ContainsRegex(
          "^step 200 attempt 2: NaN or infinite elements in 1 of 1 tensors, 3 "
          "of 4 rows\n\n"
          "TENSOR  NAN  INF  ELEMENTS  FIRST STEP  COMMITTED \\(UTC\\)\n"
          "w         0    1         2         200  20[-0-9: ]+\n\n"
          "TABLE          ID  NAN  INF  SLOTS         FIRST STEP  COMM[^\n]+\n"
          "user            2    1    0  embedding  100 or before  20[-0-9: ]+\n"
          "user            3    0    1  embedding            200  20[-0-9: ]+\n"
          "user   ... 1 more\n$"));
  EXPECT_THAT(Run("nan --no-first-step").out,
              HasSubstr("\nuser    2    1    0  embedding\n"));
}

TEST_F(ToolNan, IgnoresOtherBranches) {
  SaveSteps(2);
  const std::optional<Version> before = parent_;
  Save({{2, kNanValue}});  // 300, which the trainer gives up
  ASSERT_EQ(Run("rm 300").code, 0);
  parent_ = before;
  rows_[2] = 0;
  SaveSteps(1);            // 400
  Save({{2, kNanValue}});  // 500
  EXPECT_EQ(FirstSteps("nan"), (std::map<int64_t, int64_t>{{2, 500}}));
}

class ToolNanTypes : public DeltaFixture {};

TEST_F(ToolNanTypes, ReadsEveryFloat) {
  EXPECT_THAT(RunJson("nan types --step 100"), Includes(R"({"tables": [{
      "rows": [{"id": 7, "nan_elements": 2, "inf_elements": 3,
                "slots": ["f64", "f32", "bf16", "f8e4m3", "f8e5m2"]}]}]})"));
}

class BigToolNan : public BigDeltaFixture {};

TEST_F(BigToolNan, ReportsDamage) {
  DamageLargestFile();
  ExpectFails("nan --step 100", 3, HasSubstr("step 100"));
}

}  // namespace
}  // namespace ckptdb::testing
