// SPDX-License-Identifier: Apache-2.0
// Stores that older versions of the library have written, as they lie in
// tests/golden.

#include "schema/bytes/shape.h"
#include "tests/db/store_fixture.h"
#include "tests/golden/id_ranges/values.h"
#include "tests/golden/lossy_codecs/values.h"
#include "tests/golden/shards/values.h"
#include "tests/support/source_folder.h"

namespace ckptdb::testing {
namespace {

class GoldenTest : public StoreFixture {
 protected:
  void OpenGolden(const std::string& name) {
    std::filesystem::copy(SourcePath("tests/golden/" + name + "/store"), path(),
                          std::filesystem::copy_options::recursive);
    Reopen();
  }
};

// See tests/golden/undeclared_sharding/README.md.
class UndeclaredShardingTest : public GoldenTest {
 protected:
  static constexpr int64_t kIdStride = 7919;
  void SetUp() override { OpenGolden("undeclared_sharding"); }
  static std::string RowOf(int64_t id, int64_t step) {
    std::string row;
    for (int i = 0; i < 4; ++i) {
      const float value = static_cast<float>(id) +
                          static_cast<float>(step) / 4 + static_cast<float>(i);
      row.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    return row.append(reinterpret_cast<const char*>(&step), sizeof(step));
  }
  // Writes rows k, k + every ... below `end`, in step `step`.
  void Write(int64_t step, int64_t begin, int64_t end, int64_t every = 1) {
    for (int64_t k = begin; k < end; k += every)
      expected_[k * kIdStride] = RowOf(k * kIdStride, step);
  }
  void Erase(const std::vector<int64_t>& ks) {
    for (const int64_t k : ks) expected_.erase(k * kIdStride);
  }
  void ExpectHeld(int64_t step, Item::Sharding sharding) {
    SCOPED_TRACE(step);
    ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(step));
    ASSERT_OK_AND_ASSIGN(const Rows rows, Scan(*reader, "user"));
    EXPECT_TRUE(rows == expected_) << rows.size() << " rows";
    ASSERT_OK_AND_ASSIGN(const StepReader::TableSpec table,
                         reader->FindTable("user"));
    EXPECT_EQ(table.sharding, sharding);
    EXPECT_EQ(table.sharding_name, "");
    for (uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(reader->ReadBlob(rank, "reader").value(),
                absl::StrCat("step ", step, " rank ", rank));
    }
    EXPECT_OK(reader->Verify());
  }
  void ExpectAll() {
    expected_.clear();
    Write(10, -20, 40);
    ExpectHeld(10, Item::Sharding::kUndeclared);
    Write(20, -10, 45, 5);
    Erase({-20, -19, -18});
    ExpectHeld(20, Item::Sharding::kUndeclared);
    Write(30, -7, 40, 7);
    Erase({1, 2});
    ExpectHeld(30, Item::Sharding::kUndeclared);
    Write(40, -1, 0);
    Write(40, 50, 51);
    Erase({40});
    ExpectHeld(40, Item::Sharding::kUndeclared);
    expected_.clear();
    Write(50, -20, 40);
    ExpectHeld(50, Item::Sharding::kUndeclared);
    Write(60, 0, 5);
    Erase({39});
    ExpectHeld(60, Item::Sharding::kUndeclared);
  }
  Rows expected_;
};

TEST_F(UndeclaredShardingTest, AnOldStoreIsStillRead) {
  EXPECT_THAT(ListSteps(), ElementsAre(5, 6, 10, 20, 30, 40, 50, 60));
  EXPECT_THAT(store_->user_metadata(), ElementsAre(Pair("run", "golden")));
  EXPECT_TRUE(Record(10).pinned);
  EXPECT_THAT(Record(10).metrics, ElementsAre(Pair("auc", 0.75)));
  EXPECT_TRUE(Record(20).folded);
  EXPECT_THAT(Record(60).slice_bounds, ElementsAre(0, 21845, 43690, 65536));
  ExpectAll();
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(60));
  ASSERT_OK_AND_ASSIGN(const StepReader::ScanEstimate estimate,
                       step->EstimateScan("user", {0, 21845}));
  EXPECT_EQ(estimate.base_runs, 1u);
  EXPECT_EQ(estimate.delta_runs, 1u);
  EXPECT_THAT(store_->OpenStep(5).value()->Verify(),
              DataLoss("step 5 table \"user\": id 2 is on ranks 0 and 1"));
  EXPECT_THAT(store_->OpenStep(6).value()->Verify(),
              DataLoss("step 6 table \"user\": id 9 is on ranks 0 and 2"));
}

// Saves with a declaration go on over it, and are folded with it.
TEST_F(UndeclaredShardingTest, ADeclaredTableGoesOnFromIt) {
  const Store::Attempt save =
      Begin({.step = 70,
             .world_size = 2,
             .parent = store_->Latest().value().version});
  std::vector<StagedRank> staged;
  for (const Ticket& ticket : save.tickets) {
    const int64_t id = ticket.rank() + 100;
    const std::string row = RowOf(id, 70);
    const int64_t ids[1] = {id};
    const RowSource::Arrays rows(ids, {{row.data(), 16}, {row.data() + 16, 8}});
    RankState state;
    RankState::Table table{
        "user", {{"embedding", DType::kF32, 4}, {"written", DType::kI64, 1}}};
    table.slice_hash = SliceHash::kMix;
    table.changes = RankState::Changes{&rows, {}};
    table.sharding = TableSharding::ByModulo();
    state.AddTable(table);
    state.AddBlob("reader", "step 70");
    ASSERT_OK_AND_ASSIGN(staged.emplace_back(), Stage(path(), ticket, state));
    expected_[id] = row;
  }
  ASSERT_OK(store_->Publish(save.version, staged));
  Write(50, -20, 40);
  Write(60, 0, 5);
  Erase({39});
  for (const bool folded : {false, true}) {
    if (folded) {
      ASSERT_OK(store_->Fold(70));
    }
    ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(70));
    ASSERT_OK_AND_ASSIGN(const Rows rows, Scan(*step, "user"));
    EXPECT_TRUE(rows == expected_) << rows.size() << " rows";
    EXPECT_EQ(step->FindTable("user").value().sharding,
              Item::Sharding::kByModulo);
    EXPECT_OK(step->Verify());
  }
  ExpectAll();
}

// See tests/golden/lossy_codecs/README.md.
class LossyCodecsTest : public GoldenTest {
 protected:
  void SetUp() override { OpenGolden("lossy_codecs"); }
  static Rows Expected(int64_t last) {
    Rows rows;
    for (int64_t step = 1; step <= last; ++step) {
      for (const int64_t k : LossyWrites(step))
        rows[k * kLossyStride] = LossyRow(k, step, /*given=*/false);
    }
    if (last == 3) rows.erase(99 * kLossyStride);
    return rows;
  }
  static std::string BytesOf(const std::vector<float>& numbers) {
    return {reinterpret_cast<const char*>(numbers.data()),
            numbers.size() * sizeof(float)};
  }
};

TEST_F(LossyCodecsTest, IsReadAsItWasHeld) {
  EXPECT_THAT(ListSteps(), ElementsAre(1, 2, 3));
  for (int64_t number = 1; number <= 3; ++number) {
    SCOPED_TRACE(number);
    ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(number));
    ASSERT_OK_AND_ASSIGN(const Rows rows, Scan(*step, "user"));
    EXPECT_TRUE(rows == Expected(number)) << rows.size() << " rows";
    EXPECT_EQ(ReadTensorBytes(*step, "w").value(),
              BytesOf(LossyTensor(/*given=*/false)));
    EXPECT_EQ(ReadTensorBytes(*step, "b").value(),
              BytesOf(LossyBias(/*given=*/false)));
    EXPECT_OK(step->Verify());
    for (const Item& item : step->ranks()[0].items) {
      ASSERT_FALSE(item.errors.empty()) << item.name;
      // The largest scale of a row is 4; that of w is 1.
      const float scale = item.name == "user" ? 4 : 1;
      EXPECT_EQ(item.errors[0].max, scale * kLossyBeside) << item.name;
    }
  }
}

// See tests/golden/shards/README.md.
class ShardsTest : public GoldenTest {
 protected:
  void SetUp() override {}
  static std::string Expected(const Shape& shape, int64_t step) {
    std::string bytes;
    for (int64_t r = 0; r < shape[0]; ++r) {
      for (int64_t c = 0; c < shape[1]; ++c) {
        AppendNumber(ShardsValue(r, c, step), &bytes);
      }
    }
    return bytes;
  }
  void ExpectAll() {
    EXPECT_THAT(ListSteps(), ElementsAre(1, 2, 3));
    for (int64_t number = 1; number <= 3; ++number) {
      SCOPED_TRACE(number);
      ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(number));
      EXPECT_TRUE(ReadTensorBytes(*step, "small").value() ==
                  Expected(kShardsSmall, number));
      EXPECT_TRUE(ReadTensorBytes(*step, "large").value() ==
                  Expected(kShardsLarge, number));
      EXPECT_OK(step->Verify());
      for (uint32_t rank = 0; rank < 2; ++rank) {
        EXPECT_EQ(step->ranks()[rank].items.size(),
                  2 * ShardsBoxes(kShardsSmall, rank, number).size());
      }
    }
    // The second box, alone on its rank, has its number of the first step.
    ASSERT_OK_AND_ASSIGN(const auto last, store_->OpenStep(3));
    for (const Item& item : last->ranks()[0].items) {
      EXPECT_EQ(item.data_version.step, 1);
      EXPECT_GT(item.first_chunk, 0u);
    }
  }
};

TEST_F(ShardsTest, AnOldStoreIsStillRead) {
  OpenGolden("shards");
  ExpectAll();
}

TEST_F(ShardsTest, ANewStoreIsTheSame) {
  ASSERT_OK(MakeShardsStore(path()));
  Reopen();
  ExpectAll();
}

// See tests/golden/id_ranges/README.md.
class IdRangesTest : public GoldenTest {
 protected:
  void SetUp() override {}
  void ExpectStep(int64_t number) {
    SCOPED_TRACE(number);
    ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(number));
    Rows expected;
    for (int64_t id = 0; id < kRangesRows; ++id) {
      std::string value;
      AppendNumber(RangesValueIn(id, number), &value);
      expected[id] = value;
    }
    EXPECT_TRUE(Scan(*step, "item").value() == expected);
    EXPECT_OK(step->Verify());
    ASSERT_OK_AND_ASSIGN(const StepReader::TableSpec table,
                         step->FindTable("item"));
    EXPECT_EQ(table.sharding, Item::Sharding::kByRange);
    EXPECT_EQ(table.sharding_name, "");
    for (uint32_t rank = 0; rank < 3; ++rank) {
      if (step->ranks()[rank].items.empty()) continue;  // folded
      const Item& item = step->ranks()[rank].items[0];
      EXPECT_EQ(std::pair(item.first_id, item.end_id),
                RangesSharding(number).RangeOf(rank, 3));
    }
  }
};

TEST_F(IdRangesTest, AnOldStoreIsStillRead) {
  OpenGolden("id_ranges");
  for (int64_t step = 1; step <= 3; ++step) ExpectStep(step);
}

TEST_F(IdRangesTest, ANewStoreIsTheSame) {
  ASSERT_OK(MakeIdRangesStore(path()));
  Reopen();
  for (int64_t step = 1; step <= 3; ++step) ExpectStep(step);
  ASSERT_OK(store_->Fold(3));
  ExpectStep(3);
}

// See tests/golden/store_parts/README.md.
TEST_F(IdRangesTest, PartsThatWereFetchedAreStillRead) {
  std::filesystem::copy(SourcePath("tests/golden/store_parts/store"), path(),
                        std::filesystem::copy_options::recursive);
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
  EXPECT_EQ(reader->parts(), "tables \"item\", slots \"v\", slices 0-49");
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(3));
  for (int64_t id = 0; id < 50; ++id) {
    std::string value;
    AppendNumber(RangesValueIn(id, 3), &value);
    EXPECT_EQ(step->LookupRow("item", id).value()[0], value) << id;
  }
  EXPECT_THAT(step->LookupRow("item", 50),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("slices 50-50")));
}

}  // namespace
}  // namespace ckptdb::testing
