// SPDX-License-Identifier: Apache-2.0
// diff: the differences between two steps.
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "db/state.h"
#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

// Returns the entries of a list by name.
Json ByName(const Json& list) {
  Json entries = Json::object();
  for (const Json& entry : list)
    entries[entry["name"].get<std::string>()] = entry;
  return entries;
}

class ToolDiff : public ToolFixture {
 protected:
  // Saves the "mlp.weight" that step 300 has in two halves, plus `more`, and a
  // blob.
  void SaveWhole(int64_t step, float more, const std::string& blob) {
    std::vector<float> weights(24);
    for (size_t i = 0; i < 24; ++i) {
      weights[i] = 1.5F + static_cast<float>(i % 12);
    }
    weights.back() += more;
    RankState state;
    state.AddTensor("mlp.weight", TensorView::Of(weights.data(), {6, 4}));
    state.AddBlob("reader", blob);
    ASSERT_OK(store_->Save({.step = step}, state).status());
  }
  // Saves a table "user" of the ids below `rows`, with these slots set to zero.
  void SaveTable(int64_t step, int64_t rows, const std::vector<Slot>& slots,
                 SliceHash hash = SliceHash::kModulo) {
    std::vector<int64_t> ids(static_cast<size_t>(rows));
    std::iota(ids.begin(), ids.end(), 0);
    std::vector<std::string> zeros;
    for (const Slot& slot : slots) {
      zeros.emplace_back(ids.size() * slot.row_bytes(), '\0');
    }
    std::vector<RowBlock::SlotValues> values;
    for (size_t i = 0; i < slots.size(); ++i) {
      values.push_back({zeros[i].data(), slots[i].row_bytes()});
    }
    const RowSource::Arrays source(ids, values);
    RankState::Table table;
    table.name = "user";
    table.slots = slots;
    table.rows = &source;
    table.slice_hash = hash;
    RankState state;
    state.AddTable(std::move(table));
    ASSERT_OK(store_->Save({.step = step}, state).status());
  }
};

class ToolDeltaDiff : public DeltaFixture {};

TEST_F(ToolDeltaDiff, CountsChangedRows) {
  const Json diff = RunJson("diff 100 300");
  EXPECT_EQ(diff["store"], path());
  EXPECT_THAT(diff, Includes(R"({
      "from": {"step": 100}, "to": {"step": 300}, "same": false,
      "incremental": true, "not_incremental_reason": null, "tensors_read": 0,
      "tensor_read_bytes": 0, "tables_counted": 1, "metrics": [],
      "tensors": [], "blobs": [], "tables": [{}, {}, {}]})"));
  EXPECT_TRUE(diff["to"]["attempt"].is_number_unsigned());
  const Json tables = ByName(diff["tables"]);
  // Row 1 changed and -2 was inserted again; 50 was inserted in between.
  EXPECT_THAT(tables, Includes(R"({
      "user": {"change": "changed", "upserted_rows": 2, "erased_rows": 1,
               "not_counted_reason": null, "from_rows": 10, "to_rows": null},
      "item": {"change": "unknown", "upserted_rows": null, "to_rows": 4},
      "types": {"change": "removed"}})"));
  EXPECT_THAT(tables["item"]["not_counted_reason"].get<std::string>(),
              AllOf(HasSubstr("step 300"), HasSubstr("saved in full"),
                    HasSubstr(kItemBaseReason)));
}

TEST_F(ToolDeltaDiff, SkipsTablesWithoutChanges) {
  EXPECT_THAT(RunJson("diff 100 200")["tables"], Includes(R"([
      {"name": "types"},
      {"name": "user", "upserted_rows": 2, "erased_rows": 1}])"));
}

TEST_F(ToolDeltaDiff, CountsRowsBackwards) {
  // 1 and -2, and 50.
  EXPECT_THAT(ByName(RunJson("diff 400 100")["tables"]), Includes(R"({
      "user": {"upserted_rows": 2, "erased_rows": 1},
      "types": {"change": "added"}})"));
}

TEST_F(ToolDeltaDiff, AsText) {
  ExpectPrints(
      "diff 100 300",
      AllOf(ContainsAll("^from +step 100 attempt [0-9]+, committed 20",
                        "\nto +step 300 attempt [0-9]+, committed 20",
                        "\nincrements +lead from the first to the second\n",
                        "\nread +no data of tensors and blobs\n",
                        "\nTABLE +CHANGE +SLOTS +ROWS +UPSERTED +ERASED",
                        "\nitem +unknown +- +4 +- +- +table \"item\" cannot",
                        "\ntypes +removed +- +1 to - +- +- +-\n",
                        "\nuser +changed +- +10 to \\? +2 +1  -\n"),
            Not(HasSubstr("METRIC")), Not(HasSubstr("BLOB")),
            Not(HasSubstr("TENSOR"))));
}

// No delta runs lead to it, but digests show that the rows are the same.
TEST_F(ToolDeltaDiff, FoldedStepEqualsTheOriginal) {
  Own();
  ASSERT_OK(store_->Fold(200).status());
  Disown();
  const Json diff = RunJson("diff 200 400");
  EXPECT_EQ(ByName(diff["tables"])["user"]["upserted_rows"], 2);
  EXPECT_EQ(RunJson("diff 200 200")["same"], true);
}

TEST_F(ToolDiff, FindsNoDifferenceBetweenAStepAndItself) {
  // With a metric of NaN.
  EXPECT_EQ(RunJson("diff 100 100")["same"], true);
  EXPECT_THAT(Run("diff latest 300").out, HasSubstr("\nnothing differs\n"));
}

TEST_F(ToolDiff, ComparesFullSteps) {
  const Json diff = RunJson("diff 100 200");
  EXPECT_THAT(diff, Includes(R"({
      "same": false, "incremental": false,
      "tensors": [{"name": "big", "change": "added", "from": null,
                   "to": {"dtype": "f32", "shape": [2359296]}}],
      "tables": [{"change": "changed", "from_rows": 1000, "to_rows": 1200,
                  "upserted_rows": null}]})"));
  EXPECT_THAT(diff["not_incremental_reason"].get<std::string>(),
              HasSubstr("was saved in full"));
  EXPECT_THAT(diff["tables"][0]["not_counted_reason"].get<std::string>(),
              HasSubstr("was saved in full"));
  EXPECT_THAT(ByName(diff["metrics"]), Includes(R"({
      "auc": {"from": 0.75, "to": null}, "loss": {"from": "nan"}})"));
  EXPECT_THAT(
      Run("diff 100 200").out,
      ContainsAll("\nincrements +.*was saved in full\n", "\nauc +0\\.75 +-\n",
                  "\nbig +added +- +- +f32\\[2359296\\]\n",
                  "\nuser +changed +- +1,000 to 1,200 +- +-  no increments\n"));
}

TEST_F(ToolDiff, ComparesShapesAndBlobs) {
  const Json diff = RunJson("diff 100 300");
  EXPECT_THAT(ByName(diff["tensors"]), Includes(R"({
      "mlp.weight": {"differs": ["shape"], "from": {"shape": [3, 4]},
                     "to": {"shape": [6, 4]}},
      "step": {"change": "removed"}})"));
  EXPECT_THAT(diff["blobs"], Includes(R"([
      {"name": "reader", "rank": 0, "change": "removed", "from_raw_bytes": 11,
       "to_raw_bytes": null}])"));
  EXPECT_THAT(Run("diff 100 300").out,
              ContainsAll("\nmlp.weight +changed +shape +f32\\[3, 4\\] "
                          "+f32\\[6, 4\\]\n",
                          "\nreader +0 +removed +11 B +-\n"));
}

TEST_F(ToolDiff, ReadsTensorsThatAreDividedDifferently) {
  Own();
  SaveWhole(400, 0, "one");
  SaveWhole(500, 1, "two");
  EXPECT_THAT(RunJson("diff 300 400"), Includes(R"({
      "tensors": [], "tensors_read": 1, "tensor_read_bytes": 192})"));
  EXPECT_THAT(RunJson("diff 300 500")["tensors"],
              Includes(R"([{"differs": ["content"]}])"));
  EXPECT_THAT(Run("diff 300 500").out,
              ContainsAll("192 B of 1 tensor that is divided",
                          "\nmlp.weight +changed +content "));
  // Compared by digests.
  const Json whole = RunJson("diff 400 500");
  EXPECT_THAT(whole, Includes(R"({
      "tensors_read": 0, "blobs": [{"change": "changed"}]})"));
  EXPECT_EQ(whole["tensors"][0]["differs"], Json{"content"});
}

// Larger than one piece, cut in two in one step and in one part in the others.
TEST_F(ToolDiff, ReadsLargeTensorsInPieces) {
  Own();
  constexpr int64_t kHalf = int64_t{5} << 19;
  std::vector<float> values(2 * kHalf);
  std::iota(values.begin(), values.end(), 0.0F);
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save,
                       store_->Begin({.step = 400, .world_size = 2}));
  std::vector<StagedRank> staged;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const int64_t begin = rank * kHalf;
    RankState state;
    state.AddTensor("large", {DType::kF32,
                              {1, kHalf},
                              values.data() + begin,
                              {1, 2 * kHalf},
                              {0, begin}});
    ASSERT_OK_AND_ASSIGN(StagedRank half,
                         Stage(store_->path(), save.tickets[rank], state));
    staged.push_back(std::move(half));
  }
  ASSERT_OK(store_->Publish(save.version, staged).status());
  const auto save_whole = [&](int64_t step) {
    RankState state;
    state.AddTensor("large", TensorView::Of(values.data(), {1, 2 * kHalf}));
    ASSERT_OK(store_->Save({.step = step}, state).status());
  };
  save_whole(500);
  const Json same = RunJson("diff 400 500");
  EXPECT_EQ(same["same"], true);
  EXPECT_EQ(same["tensor_read_bytes"], 2 * 2 * kHalf * 4);
  values.back() = 0;
  save_whole(600);
  EXPECT_THAT(RunJson("diff 400 600")["tensors"],
              Includes(R"([{"differs": ["content"]}])"));
  Disown();
  DamageLargestFile();
  const ToolResult first = Run("diff 400 500");
  const ToolResult second = Run("diff 400 600");
  const ToolResult& damaged = first.code == 0 ? second : first;
  EXPECT_EQ(damaged.code, 3);
  EXPECT_EQ(damaged.out, "");
  EXPECT_THAT(damaged.err,
              AllOf(StartsWith("ckptdb: diff: "), HasSubstr("large")));
}

TEST_F(ToolDiff, NamesSlotsThatDiffer) {
  Own();
  const Slot key = {"key", DType::kU8, 4};
  const Slot sum = {"sum", DType::kF32, 1};
  SaveTable(400, 7, {key, {"embedding", DType::kF32, 8}, sum});
  SaveTable(500, 7,
            {key, {"embedding", DType::kF16, 8}, {"n", DType::kU32, 1}});
  const Json table = RunJson("diff 400 500")["tables"][0];
  EXPECT_EQ(table["change"], "changed");
  const Json slots = ByName(table["slots"]);
  EXPECT_EQ(slots.size(), 3u);
  EXPECT_THAT(slots, Includes(R"({
      "embedding": {"change": "changed", "from": {"dtype": "f32"},
                    "to": {"dtype": "f16", "elements": 8}},
      "sum": {"change": "removed"}, "n": {"change": "added", "from": null}})"));
  EXPECT_THAT(Run("diff 400 500").out,
              HasSubstr("embedding f32x8 to f16x8, sum removed, n added"));
}

TEST_F(ToolDiff, ComparesFullTablesByDigest) {
  Own();
  const Slot key = {"key", DType::kU8, 4};
  const Slot sum = {"sum", DType::kF32, 1};
  SaveTable(400, 7, {key, sum});
  SaveTable(500, 7, {key, sum});
  SaveTable(600, 7, {sum, key});
  SaveTable(700, 7, {sum, key}, SliceHash::kMix);
  EXPECT_EQ(RunJson("diff 400 500")["same"], true);
  EXPECT_THAT(RunJson("diff 500 600")["tables"][0]["slots"],
              Includes(R"([{"change": "moved"}, {}])"));
  EXPECT_THAT(RunJson("diff 600 700")["tables"][0],
              Includes(R"({"change": "changed", "slice_hash_differs": true})"));
  EXPECT_THAT(Run("diff 600 700").out, HasSubstr("slice hash differs"));
}

TEST_F(ToolDiff, ReadsALiveStore) {
  Own();
  EXPECT_EQ(RunJson("diff 100 latest")["to"]["step"], 300);
  ASSERT_OK(store_->Delete(300));
  EXPECT_EQ(RunJson("diff 100 latest")["to"]["step"], 200);
  EXPECT_EQ(Run("diff 100 300").code, 2);
  ASSERT_OK(SaveStep300(store_.get()));
  EXPECT_EQ(RunJson("diff 300 100")["same"], false);
}

TEST_F(ToolDiff, RejectsMissingAndInvalidSteps) {
  ExpectFails("diff 100 150", 2, HasSubstr("step 150"));
  ExpectFails("diff 150 100", 2, HasSubstr("step 150"));
  ExpectFails("diff 100", 1, HasSubstr("B"));
  ExpectFails("diff 100 x7", 1, HasSubstr("\"x7\""));
}

TEST_F(ToolDiff, ComparesTensorsByDigestWithoutReading) {
  DamageLargestFile();  // contains the tensor "big" of step 200
  ASSERT_EQ(Run("verify 200").code, 3);
  EXPECT_EQ(Run("diff 100 200").code, 0);
  EXPECT_EQ(RunJson("diff 200 200")["same"], true);
}

}  // namespace
}  // namespace ckptdb::testing
