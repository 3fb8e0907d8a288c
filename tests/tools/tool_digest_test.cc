// SPDX-License-Identifier: Apache-2.0
// digest: the same for the same contents.
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

class ToolDigest : public ToolFixture {
 protected:
  std::string Model(const std::string& step) const {
    return RunJson("digest " + step)["model_digest"].get<std::string>();
  }
};

TEST_F(ToolDigest, IgnoresRanksAndShards) {
  // The contents of step 300, which two ranks saved.
  std::vector<int64_t> ids(1500);
  std::string embeddings(1500 * 64, '\0');
  std::string counts(1500 * 4, '\0');
  std::vector<float> weights(24);
  // Rows in reverse order, with the slots swapped and other codecs.
  std::iota(ids.rbegin(), ids.rend(), -750);
  Own();
  {
    ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(300));
    const std::vector<std::string> names = {"embedding", "freq"};
    const std::vector<char*> out = {embeddings.data(), counts.data()};
    std::vector<char> found(1500);
    ASSERT_OK(step->LookupRows("user", ids, names, out,
                               reinterpret_cast<bool*>(found.data())));
    ASSERT_OK(step->ReadTensor("mlp.weight", weights.data(), 96));
  }
  const RowSource::Arrays rows(ids,
                               {{counts.data(), 4}, {embeddings.data(), 64}});
  RankState state;
  state.AddTable("user",
                 {{"freq", DType::kU32, 1},
                  {"embedding", DType::kF32, 16, Codec::kShuffleLz4}},
                 &rows, SliceHash::kMix);
  state.AddTensor("mlp.weight", TensorView::Of(weights.data(), {6, 4}),
                  Codec::kLz4);
  ASSERT_OK(store_->Save({.step = 900}, state).status());
  weights[3] = -weights[3];
  ASSERT_OK(store_->Save({.step = 901}, state).status());
  weights[3] = -weights[3];
  embeddings[0] ^= 1;
  ASSERT_OK(store_->Save({.step = 902}, state).status());
  Disown();
  EXPECT_EQ(Model("300"), Model("900"));
  EXPECT_NE(Model("300"), Model("901"));
  EXPECT_NE(Model("300"), Model("902"));
}

TEST_F(ToolDigest, DependsOnNamesDtypesAndShapes) {
  const std::vector<float> values = {1, 2, 3, 4};
  Own();
  int64_t next = 1000;
  const auto save = [&](const std::string& name, DType dtype,
                        const Shape& shape) {
    RankState state;
    state.AddTensor(name, {dtype, shape, values.data(), {}, {}});
    EXPECT_OK(store_->Save({.step = next++}, state).status());
  };
  save("a", DType::kF32, {4});
  save("a", DType::kF32, {4});
  save("b", DType::kF32, {4});
  save("a", DType::kI32, {4});
  save("a", DType::kF32, {2, 2});
  Disown();
  EXPECT_EQ(Model("1000"), Model("1001"));
  for (const char* other : {"1002", "1003", "1004"}) {
    EXPECT_NE(Model("1000"), Model(other)) << other;
  }
}

TEST_F(ToolDigest, ListsItems) {
  EXPECT_THAT(
      Run("digest 100 --items").out,
      ContainsRegex(
          "^step 100 attempt 1\n"
          "model  [0-9a-f]{32}\nblobs  [0-9a-f]{32}\n\n"
          "KIND    NAME        RANK   ROWS     BYTES  DIGEST\n"
          "tensor  mlp.weight     -      -      48 B  [0-9a-f]{32}\n"
          "tensor  step           -      -       8 B  [0-9a-f]{32}\n"
          "table   user           -  1,000  74.2 KiB  [0-9a-f]{32}\n"
          "blob    reader         0      -      11 B  [0-9a-f]{32}\n$"));
  EXPECT_THAT(RunJson("digest 100"), Includes(R"({"step": 100, "items": [
      {"kind": "tensor", "rank": null, "rows": null, "raw_bytes": 48}, {},
      {"kind": "table", "name": "user", "rows": 1000}, {"rank": 0}]})"));
}

class ToolDigestOfDeltas : public DeltaFixture {};

TEST_F(ToolDigestOfDeltas, IgnoresTheChain) {
  const Json before = RunJson("digest 400");
  ASSERT_EQ(Run("fold 400").code, 0);
  const Json after = RunJson("digest 400");
  EXPECT_NE(before["attempt"], after["attempt"]);
  EXPECT_EQ(before["items"], after["items"]);
  EXPECT_EQ(before["model_digest"], after["model_digest"]);
  EXPECT_NE(before["model_digest"], RunJson("digest 300")["model_digest"]);
}

// The definition does not change: digests are kept outside of the store.
TEST_F(ToolDigestOfDeltas, StaysTheSame) {
  const Json digest = RunJson("digest 100");
  EXPECT_EQ(digest["model_digest"], "6518b7645c3686fdd9d793b08ce1b267");
  EXPECT_EQ(digest["blobs_digest"], "b89edd2184fd73dfe8b80dfc5365b11a");
}

class BigToolDigest : public BigDeltaFixture {};

TEST_F(BigToolDigest, ReportsDamage) {
  DamageLargestFile();
  ExpectFails("digest 100", 3, HasSubstr("step 100"));
}

}  // namespace
}  // namespace ckptdb::testing
