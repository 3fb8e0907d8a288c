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

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

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
  const Json diff = RunJson({"diff", "100", "300"});
  EXPECT_EQ(diff["store"], path());
  EXPECT_EQ(diff["from"]["step"], 100);
  EXPECT_EQ(diff["to"]["step"], 300);
  EXPECT_TRUE(diff["to"]["attempt"].is_number_unsigned());
  EXPECT_EQ(diff["same"], false);
  EXPECT_EQ(diff["incremental"], true);
  EXPECT_EQ(diff["not_incremental_reason"], Json());
  EXPECT_EQ(diff["tensors_read"], 0);
  EXPECT_EQ(diff["tensor_read_bytes"], 0);
  EXPECT_EQ(diff["tables_counted"], 1);
  EXPECT_THAT(diff["metrics"], IsEmpty());
  EXPECT_THAT(diff["tensors"], IsEmpty());
  EXPECT_THAT(diff["blobs"], IsEmpty());
  ASSERT_EQ(diff["tables"].size(), 3u);
  const Json tables = ByName(diff["tables"]);
  EXPECT_EQ(tables["user"]["change"], "changed");
  EXPECT_EQ(tables["user"]["upserted_rows"], 2);  // 1, and -2 inserted again
  EXPECT_EQ(tables["user"]["erased_rows"], 1);    // 50, inserted in between
  EXPECT_EQ(tables["user"]["not_counted_reason"], Json());
  EXPECT_EQ(tables["user"]["from_rows"], 10);
  EXPECT_EQ(tables["user"]["to_rows"], Json());
  EXPECT_EQ(tables["item"]["change"], "unknown");
  EXPECT_EQ(tables["item"]["upserted_rows"], Json());
  EXPECT_EQ(tables["item"]["to_rows"], 4);
  EXPECT_THAT(tables["item"]["not_counted_reason"].get<std::string>(),
              AllOf(HasSubstr("step 300"), HasSubstr("saved in full"),
                    HasSubstr(kItemBaseReason)));
  EXPECT_EQ(tables["types"]["change"], "removed");
}

TEST_F(ToolDeltaDiff, SkipsTablesWithoutChanges) {
  const Json diff = RunJson({"diff", "100", "200"});
  ASSERT_EQ(diff["tables"].size(), 2u);
  EXPECT_EQ(diff["tables"][0]["name"], "types");
  EXPECT_EQ(diff["tables"][1]["name"], "user");
  EXPECT_EQ(diff["tables"][1]["upserted_rows"], 2);
  EXPECT_EQ(diff["tables"][1]["erased_rows"], 1);
}

TEST_F(ToolDeltaDiff, CountsRowsBackwards) {
  const Json diff = RunJson({"diff", "400", "100"});
  const Json tables = ByName(diff["tables"]);
  EXPECT_EQ(tables["user"]["upserted_rows"], 2);  // 1 and -2
  EXPECT_EQ(tables["user"]["erased_rows"], 1);    // 50
  EXPECT_EQ(tables["types"]["change"], "added");
}

TEST_F(ToolDeltaDiff, AsText) {
  const ToolResult diff = Run({"diff", "100", "300"});
  EXPECT_EQ(diff.code, 0);
  EXPECT_EQ(diff.err, "");
  EXPECT_THAT(
      diff.out,
      AllOf(ContainsRegex("^from +step 100 attempt [0-9]+, committed 20"),
            ContainsRegex("\nto +step 300 attempt [0-9]+, committed 20"),
            ContainsRegex("\nincrements +lead from the first to the second\n"),
            ContainsRegex("\nread +no data of tensors and blobs\n"),
            ContainsRegex("\nTABLE +CHANGE +SLOTS +ROWS +UPSERTED +ERASED"),
            ContainsRegex("\nitem +unknown +- +4 +- +- +table \"item\" cannot"),
            ContainsRegex("\ntypes +removed +- +1 to - +- +- +-\n"),
            ContainsRegex("\nuser +changed +- +10 to \\? +2 +1  -\n")));
  EXPECT_THAT(diff.out, AllOf(Not(HasSubstr("METRIC")), Not(HasSubstr("BLOB")),
                              Not(HasSubstr("TENSOR"))));
}

// No delta runs lead to it, but digests show that the rows are the same.
TEST_F(ToolDeltaDiff, FoldedStepEqualsTheOriginal) {
  Own();
  ASSERT_OK(store_->Fold(200).status());
  Disown();
  const Json diff = RunJson({"diff", "200", "400"});
  EXPECT_EQ(ByName(diff["tables"])["user"]["upserted_rows"], 2);
  EXPECT_EQ(RunJson({"diff", "200", "200"})["same"], true);
}

TEST_F(ToolDiff, FindsNoDifferenceBetweenAStepAndItself) {
  const Json json = RunJson({"diff", "100", "100"});  // with a metric of NaN
  EXPECT_EQ(json["same"], true);
  const ToolResult text = Run({"diff", "latest", "300"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("\nnothing differs\n"));
}

TEST_F(ToolDiff, ComparesFullSteps) {
  const Json diff = RunJson({"diff", "100", "200"});
  EXPECT_EQ(diff["same"], false);
  EXPECT_EQ(diff["incremental"], false);
  EXPECT_THAT(diff["not_incremental_reason"].get<std::string>(),
              HasSubstr("was saved in full"));
  const Json metrics = ByName(diff["metrics"]);
  EXPECT_EQ(metrics["auc"]["from"], 0.75);
  EXPECT_EQ(metrics["auc"]["to"], Json());
  EXPECT_EQ(metrics["loss"]["from"], "nan");
  ASSERT_EQ(diff["tensors"].size(), 1u);
  const Json& big = diff["tensors"][0];
  EXPECT_EQ(big["name"], "big");
  EXPECT_EQ(big["change"], "added");
  EXPECT_EQ(big["from"], Json());
  EXPECT_EQ(big["to"]["dtype"], "f32");
  EXPECT_EQ(big["to"]["shape"], Json{kBigElements});
  ASSERT_EQ(diff["tables"].size(), 1u);
  EXPECT_EQ(diff["tables"][0]["change"], "changed");
  EXPECT_EQ(diff["tables"][0]["from_rows"], 1000);
  EXPECT_EQ(diff["tables"][0]["to_rows"], 1200);
  EXPECT_EQ(diff["tables"][0]["upserted_rows"], Json());
  EXPECT_THAT(diff["tables"][0]["not_counted_reason"].get<std::string>(),
              HasSubstr("was saved in full"));
  EXPECT_THAT(Run({"diff", "100", "200"}).out,
              AllOf(ContainsRegex("\nincrements +.*was saved in full\n"),
                    ContainsRegex("\nauc +0\\.75 +-\n"),
                    ContainsRegex("\nbig +added +- +- +f32\\[2359296\\]\n"),
                    ContainsRegex("\nuser +changed +- +1,000 to 1,200 +- +-  "
                                  "no increments\n")));
}

TEST_F(ToolDiff, ComparesShapesAndBlobs) {
  const Json diff = RunJson({"diff", "100", "300"});
  const Json tensors = ByName(diff["tensors"]);
  EXPECT_EQ(tensors["mlp.weight"]["differs"], Json{"shape"});
  EXPECT_EQ(tensors["mlp.weight"]["from"]["shape"], (Json{3, 4}));
  EXPECT_EQ(tensors["mlp.weight"]["to"]["shape"], (Json{6, 4}));
  EXPECT_EQ(tensors["step"]["change"], "removed");
  ASSERT_EQ(diff["blobs"].size(), 1u);
  EXPECT_EQ(diff["blobs"][0]["name"], "reader");
  EXPECT_EQ(diff["blobs"][0]["rank"], 0);
  EXPECT_EQ(diff["blobs"][0]["change"], "removed");
  EXPECT_EQ(diff["blobs"][0]["from_raw_bytes"], 11);
  EXPECT_EQ(diff["blobs"][0]["to_raw_bytes"], Json());
  EXPECT_THAT(Run({"diff", "100", "300"}).out,
              AllOf(ContainsRegex("\nmlp.weight +changed +shape +f32\\[3, 4\\] "
                                  "+f32\\[6, 4\\]\n"),
                    ContainsRegex("\nreader +0 +removed +11 B +-\n")));
}

TEST_F(ToolDiff, ReadsTensorsThatAreDividedDifferently) {
  Own();
  SaveWhole(400, 0, "one");
  SaveWhole(500, 1, "two");
  const Json same = RunJson({"diff", "300", "400"});
  EXPECT_THAT(same["tensors"], IsEmpty());
  EXPECT_EQ(same["tensors_read"], 1);
  EXPECT_EQ(same["tensor_read_bytes"], 2 * 24 * 4);
  const Json other = RunJson({"diff", "300", "500"});
  ASSERT_EQ(other["tensors"].size(), 1u);
  EXPECT_EQ(other["tensors"][0]["differs"], Json{"content"});
  EXPECT_THAT(Run({"diff", "300", "500"}).out,
              AllOf(HasSubstr("192 B of 1 tensor that is divided"),
                    ContainsRegex("\nmlp.weight +changed +content ")));
  // Compared by digests.
  const Json whole = RunJson({"diff", "400", "500"});
  EXPECT_EQ(whole["tensors"][0]["differs"], Json{"content"});
  EXPECT_EQ(whole["tensors_read"], 0);
  ASSERT_EQ(whole["blobs"].size(), 1u);
  EXPECT_EQ(whole["blobs"][0]["change"], "changed");
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
  const Json same = RunJson({"diff", "400", "500"});
  EXPECT_EQ(same["same"], true);
  EXPECT_EQ(same["tensor_read_bytes"], 2 * 2 * kHalf * 4);
  values.back() = 0;
  save_whole(600);
  const Json other = RunJson({"diff", "400", "600"});
  ASSERT_EQ(other["tensors"].size(), 1u);
  EXPECT_EQ(other["tensors"][0]["differs"], Json{"content"});
  Disown();
  DamageLargestFile();
  const ToolResult first = Run({"diff", "400", "500"});
  const ToolResult second = Run({"diff", "400", "600"});
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
  const Json table = RunJson({"diff", "400", "500"})["tables"][0];
  EXPECT_EQ(table["change"], "changed");
  const Json slots = ByName(table["slots"]);
  ASSERT_EQ(slots.size(), 3u);
  EXPECT_EQ(slots["embedding"]["change"], "changed");
  EXPECT_EQ(slots["embedding"]["from"]["dtype"], "f32");
  EXPECT_EQ(slots["embedding"]["to"]["dtype"], "f16");
  EXPECT_EQ(slots["embedding"]["to"]["elements"], 8);
  EXPECT_EQ(slots["sum"]["change"], "removed");
  EXPECT_EQ(slots["n"]["change"], "added");
  EXPECT_EQ(slots["n"]["from"], Json());
  EXPECT_THAT(Run({"diff", "400", "500"}).out,
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
  EXPECT_EQ(RunJson({"diff", "400", "500"})["same"], true);
  const Json moved = RunJson({"diff", "500", "600"})["tables"][0]["slots"];
  ASSERT_EQ(moved.size(), 2u);
  EXPECT_EQ(moved[0]["change"], "moved");
  const Json table = RunJson({"diff", "600", "700"})["tables"][0];
  EXPECT_EQ(table["change"], "changed");
  EXPECT_EQ(table["slice_hash_differs"], true);
  EXPECT_THAT(Run({"diff", "600", "700"}).out, HasSubstr("slice hash differs"));
}

TEST_F(ToolDiff, ReadsALiveStore) {
  Own();
  EXPECT_EQ(RunJson({"diff", "100", "latest"})["to"]["step"], 300);
  ASSERT_OK(store_->Delete(300));
  EXPECT_EQ(RunJson({"diff", "100", "latest"})["to"]["step"], 200);
  EXPECT_EQ(Run({"diff", "100", "300"}).code, 2);
  ASSERT_OK(SaveStep300(store_.get()));
  EXPECT_EQ(RunJson({"diff", "300", "100"})["same"], false);
}

TEST_F(ToolDiff, RejectsMissingAndInvalidSteps) {
  for (const std::vector<std::string>& steps :
       std::vector<std::vector<std::string>>{{"100", "150"}, {"150", "100"}}) {
    const ToolResult diff = Run({"diff", steps[0], steps[1]});
    EXPECT_EQ(diff.code, 2);
    EXPECT_EQ(diff.out, "");
    EXPECT_THAT(diff.err,
                AllOf(StartsWith("ckptdb: diff: "), HasSubstr("step 150")));
  }
  const ToolResult one = Run({"diff", "100"});
  EXPECT_EQ(one.code, 1);
  EXPECT_THAT(one.err, AllOf(StartsWith("ckptdb: diff: "), HasSubstr("B")));
  EXPECT_THAT(Run({"diff", "100", "x7"}).err, HasSubstr("\"x7\""));
}

TEST_F(ToolDiff, ComparesTensorsByDigestWithoutReading) {
  DamageLargestFile();  // contains the tensor "big" of step 200
  ASSERT_EQ(Run({"verify", "200"}).code, 3);
  EXPECT_EQ(Run({"diff", "100", "200"}).code, 0);
  EXPECT_EQ(RunJson({"diff", "200", "200"})["same"], true);
}

}  // namespace
}  // namespace ckptdb::testing
