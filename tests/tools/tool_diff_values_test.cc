// SPDX-License-Identifier: Apache-2.0
// diff by values: rows, tensors, two stores, exit codes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/reader.h"
#include "tests/tools/held_tables.h"
#include "tests/tools/tool_fixture.h"
#include "tools/number_diff.h"
#include "tools/row_diff.h"

namespace ckptdb::testing {
namespace {

constexpr float kDiffNan = std::numeric_limits<float>::quiet_NaN();

Json TableOf(const Json& diff, const std::string& name) {
  for (const Json& table : diff["tables"]) {
    if (table["name"] == name) return table;
  }
  return {};
}

class ToolDiffValues : public DeltaFixture {};

TEST_F(ToolDiffValues, RowsOfAChain) {
  for (const char* scan : {"", " --full"}) {
    SCOPED_TRACE(scan);
    const std::string more = std::string(" --ids 9 --movers 9") + scan;
    EXPECT_THAT(TableOf(RunJson("diff 100 200" + more), "user")["values"],
                Includes(R"({
        "added_rows": 1, "erased_rows": 1, "changed_rows": 1,
        "added_ids": [50], "erased_ids": [-2], "changed_ids": [1],
        "movers": [{"id": 1, "distance": 200.0}]})"));
    EXPECT_THAT(TableOf(RunJson("diff 200 100" + more), "user")["values"],
                Includes(R"({
        "added_ids": [-2], "erased_ids": [50], "changed_ids": [1]})"));
    // 50 was added and erased in between, and -2 erased and added.
    const Json diff = RunJson("diff 100 400" + more);
    EXPECT_THAT(TableOf(diff, "user")["values"], Includes(R"({
        "added_rows": 0, "erased_rows": 0, "changed_rows": 2,
        "changed_ids": [-2, 1], "movers": [
          {"id": -2, "distance": 400.0}, {"id": 1, "distance": 200.0}]})"));
    // The table was saved in full in between.
    EXPECT_THAT(TableOf(diff, "item"), Includes(R"({
        "change": "changed", "values": {"changed_ids": [2, 3]}})"));
    EXPECT_EQ(TableOf(diff, "types")["change"], "removed");
    // Step 400 wrote row 1 with the same values.
    EXPECT_EQ(TableOf(RunJson("diff 300 400" + more), "user"), Json());
  }
}

TEST_F(ToolDiffValues, LimitsLists) {
  const Json user =
      TableOf(RunJson("diff 100 400 --ids 1 --movers 1"), "user")["values"];
  EXPECT_THAT(user, Includes(R"({"changed_rows": 2, "changed_ids": [-2],
      "movers": [{"id": -2}]})"));
}

TEST_F(ToolDiffValues, AsTables) {
  const ToolResult diff = Run("diff 100 400 --ids 1 --movers 1");
  EXPECT_EQ(diff.code, 0) << diff.err;
  EXPECT_THAT(diff.out,
              ContainsAll("\nTABLE  CHANGE   SLOTS  ADDED  ERASED  CHANGED\n"
                          "item   changed  -          0       0        2\n"
                          "types  removed  -          -       -        -\n"
                          "user   changed  -          0       0        2\n"
                          "\nTABLE +ID  ROW\n"
                          "item +2  changed\n"
                          "item +\\.\\.\\. 1 more  changed\n"
                          "user +-2  changed\n"
                          "user +\\.\\.\\. 1 more  changed\n"
                          "\nTABLE  ID  MOVED BY\n"
                          "item    3        27\n"
                          "user   -2       400\n"));
}

TEST_F(ToolDiffValues, ExitCodesAreThoseOfDiff) {
  EXPECT_EQ(Run("diff 300 400 --exit-code").code, 1);
  EXPECT_EQ(Run("diff 300 300 --exit-code").code, 0);
  EXPECT_EQ(Run("diff 300 300 --exit-code --full").code, 0);
  EXPECT_EQ(Run("diff 300 301 --exit-code").code, 2);
  EXPECT_EQ(Run("diff 300 x --exit-code").code, 2);
  EXPECT_EQ(RunLine("diff --exit-code 300 x", {"-s", path()}).code, 2);
  EXPECT_EQ(Run("diff 300 301").code, 2);
  EXPECT_EQ(Run("diff 300 400").code, 0);
}

// diff(1) compares contents, so a delta that rewrote equal values is no
// difference.
TEST_F(ToolDiffValues, ExitCodeIsZeroForRowsWrittenWithEqualValues) {
  Own();
  std::optional<Version> parent;
  const auto save = [&](int64_t step, const HeldTables::RowList& rows,
                        std::optional<HeldTables::Change> change) {
    HeldTables tables;
    tables.Add("t", {{"v", DType::kF32, 1}}, rows, std::move(change));
    SaveSpec spec;
    spec.step = step;
    spec.parent = parent;
    ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                         store_->Save(spec, *tables.state()));
    parent = saved.version;
  };
  save(1000, {{1, Bytes(3.0F)}, {2, Bytes(4.0F)}}, {});
  save(1001, {{1, Bytes(3.0F)}}, HeldTables::Change{});
  save(1002, {{3, Bytes(5.0F)}}, HeldTables::Change{});
  save(1003, {}, HeldTables::Change{{3}});
  Disown();
  const auto code = [&](const std::string& command) {
    return Run(command + " --exit-code").code;
  };
  EXPECT_EQ(RunJson("diff 1000 1001")["tables"][0]["upserted_rows"], 1);
  for (const std::string full : {"", " --full"}) {
    EXPECT_EQ(code("diff 1000 1001" + full), 0) << full;
    EXPECT_EQ(code("diff 1000 1003" + full), 0) << full;
    EXPECT_EQ(code("diff 1000 1002" + full), 1) << full;
  }
  EXPECT_TRUE(RunJson("diff 1000 1001 --exit-code")["same"].get<bool>());
}

// Saves full steps without parents: no delta runs lead from one to another.
class ToolDiffSteps : public ToolFixture {
 protected:
  void Save(int64_t step, const std::vector<int64_t>& ids,
            const std::vector<float>& values,
            SliceHash hash = SliceHash::kModulo) {
    const RowSource::Arrays rows(ids, {{values.data(), 4}});
    RankState state;
    state.AddTable("t", {{"v", DType::kF32, 1}}, &rows, hash);
    state.AddTensor("w", TensorView::Of(values.data(),
                                        {static_cast<int64_t>(values.size())}));
    Own();
    ASSERT_OK(store_->Save({.step = step}, state).status());
    Disown();
  }
};

TEST_F(ToolDiffSteps, NumbersOfTensors) {
  Save(1000, {1, 2}, {3, 4});
  Save(1001, {1, 2}, {3, 4.5F});
  const Json diff = RunJson("diff 1000 1001 --full");
  const Json numbers = diff["tensors"][0]["numbers"];
  EXPECT_EQ(numbers["differing_elements"], 1);
  EXPECT_EQ(numbers["max_abs"], 0.5);
  EXPECT_NEAR(numbers["relative_l2"].get<double>(), 0.1, 1e-12);
  EXPECT_NEAR(numbers["cosine"].get<double>(),
              27 / (5 * std::sqrt(9 + 4.5 * 4.5)), 1e-12);
  EXPECT_THAT(
      Run("diff 1000 1001 --full").out,
      ContainsAll("MAX ABS  RELATIVE L2     COSINE\n"
                  "w       changed  content  f32\\[2\\]  f32\\[2\\] +0.5 "
                  "+0.1  0\\.998"));
  EXPECT_EQ(RunJson("diff 1000 1001")["tensors"][0]["numbers"], Json());
}

TEST_F(ToolDiffSteps, ToleranceAppliesToRowsAndTensors) {
  Save(1000, {1, 2, 3}, {1, 2, kDiffNan});
  Save(1001, {1, 2, 3}, {1.25F, 2.5F, kDiffNan});
  EXPECT_EQ(Run("diff 1000 1001 --tolerance 0.5 --exit-code").code, 0);
  EXPECT_EQ(Run("diff 1000 1001 --tolerance 0.4 --exit-code").code, 1);
  EXPECT_THAT(
      RunJson("diff 1000 1001 --tolerance 0.3 --ids 9"),
      Includes(R"({"same": false, "tensors": [{"name": "w"}], "tables": [
                  {"values": {"changed_ids": [2]}}]})"));
  // Nothing is within any tolerance of NaN.
  Save(1002, {1, 2, 3}, {1, 2, 3});
  EXPECT_THAT(RunJson("diff 1000 1002 --tolerance 1e30 --movers 1"),
              Includes(R"({"tables": [{"values": {"changed_rows": 1,
                  "movers": [{"id": 3, "distance": "inf"}]}}]})"));
}

TEST_F(ToolDiffSteps, UnknownIsAnErrorWithExitCode) {
  Save(1000, {1, 2}, {3, 4});
  Save(1001, {1, 9}, {3, 4});
  EXPECT_EQ(RunJson("diff 1000 1001")["same"], Json());
  ExpectRun("diff 1000 1001 --exit-code", 2, HasSubstr("unknown"),
            HasSubstr("it is unknown whether the steps differ; compare them "
                      "with --full"));
  EXPECT_EQ(Run("diff 1000 1001 --exit-code --full").code, 1);
}

TEST_F(ToolDiffSteps, StepsOfTwoStores) {
  const std::string other = dir_.path() + "/other:store";
  ASSERT_OK(MakeSampleStore(other).status());
  const std::string at = " " + other + ":";
  EXPECT_THAT(RunJson("diff 100" + at + "100 --full"), Includes(R"({
      "same": true, "incremental": false,
      "not_incremental_reason": "the steps are in two stores"})"));
  EXPECT_EQ(RunJson("diff 100" + at + "100 --full")["to_store"], other);
  EXPECT_EQ(Run("diff 300" + at + "300 --full --exit-code").code, 0);
  EXPECT_EQ(Run("diff" + at + "latest 300 --full --exit-code").code, 0);
  EXPECT_THAT(
      TableOf(RunJson("diff 100" + at + "200 --ids 1"), "user")["values"],
      Includes(R"({"added_rows": 200, "erased_rows": 0})"));
  // The same store by another path.
  EXPECT_EQ(RunJson("diff 100 " + path() + "/../store:100")["tables"],
            Json::array());
  ExpectFails("diff 100 /none:100", 2, HasSubstr("/none"));
  ExpectFails("diff 100 :100", 1, HasSubstr("no store before"));
  ExpectFails("diff 100 " + path() + ":x", 1, HasSubstr("invalid step \"x\""));
}

// Scans in parts give the result of one part, also with other slice hashes.
TEST_F(ToolDiffSteps, PartsAddUp) {
  std::vector<int64_t> ids(20000);
  std::vector<float> values(20000);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int64_t>(i * 37) - 5000;
    values[i] = static_cast<float>(i);
  }
  Save(1000, ids, values);
  for (size_t i = 0; i < ids.size(); i += 10) values[i] += 1;
  for (size_t i = 5; i < ids.size(); i += 10) ids[i] += 1'000'000;
  Save(1001, ids, values);
  Save(1002, ids, values, SliceHash::kMix);
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
  ASSERT_OK_AND_ASSIGN(const auto from, reader->OpenStep(1000));
  for (const int64_t step : {1001, 1002}) {
    ASSERT_OK_AND_ASSIGN(const auto to, reader->OpenStep(step));
    for (const uint64_t bytes : {uint64_t{1} << 30, uint64_t{100'000}}) {
      tool::RowDiffOptions options;
      options.max_ids = 3;
      options.part_bytes = bytes;
      ASSERT_OK_AND_ASSIGN(const tool::RowDiff diff,
                           DiffRowsByScan(*from, *to, "t", options));
      EXPECT_EQ(diff.added, 2000u);
      EXPECT_EQ(diff.erased, 2000u);
      EXPECT_EQ(diff.changed, 2000u);
      EXPECT_THAT(diff.erased_ids, ElementsAre(-5000 + 5 * 37, -5000 + 15 * 37,
                                               -5000 + 25 * 37));
      EXPECT_THAT(diff.changed_ids,
                  ElementsAre(-5000, -5000 + 370, -5000 + 740));
    }
  }
}

class BigToolDiffValues : public BigDeltaFixture {};

TEST_F(BigToolDiffValues, ReportsDamage) {
  DamageLargestFile();
  ExpectFails("diff 50 100 --full", 3, HasSubstr("step 100"));
}

TEST(NumberComparerTest, ComparesAnyDType) {
  tool::NumberComparer comparer;
  const std::vector<int64_t> a = {INT64_MAX, 5};
  const std::vector<int64_t> b = {INT64_MAX - 1, 5};
  const auto at = [](const auto& array) {
    return reinterpret_cast<const char*>(array.data());
  };
  const tool::NumberDiff integers =
      comparer.Compare(DType::kI64, at(a), DType::kI64, at(b), 2);
  EXPECT_EQ(integers.differing, 1u);
  EXPECT_EQ(integers.max_abs, 1);
  const std::vector<float> f = {1, INFINITY, kDiffNan, -INFINITY};
  const std::vector<double> d = {1.5, INFINITY, kDiffNan, INFINITY};
  const tool::NumberDiff floats =
      comparer.Compare(DType::kF32, at(f), DType::kF64, at(d), 4);
  EXPECT_EQ(floats.differing, 2u);
  EXPECT_EQ(floats.max_abs, INFINITY);
  EXPECT_EQ(comparer.Compare(DType::kF32, at(f), DType::kF64, at(d), 3).max_abs,
            0.5);
  EXPECT_EQ(tool::NumberDiff().cosine(), 1);
  EXPECT_EQ(tool::NumberDiff().relative_l2(), 0);
}

}  // namespace
}  // namespace ckptdb::testing
