// SPDX-License-Identifier: Apache-2.0
// Changes that staging refuses, or takes no notice of.

#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

constexpr int64_t kMinId = std::numeric_limits<int64_t>::min();
constexpr int64_t kMaxId = std::numeric_limits<int64_t>::max();

// Changes that will not do: the table is saved whole, and says why.
class BaseReasonTest : public DeltaFixture {
 protected:
  void ExpectBase(int64_t step, const std::string& reason) {
    const Item item = FindItem(step, "user");
    EXPECT_EQ(item.run, Item::Run::kBase);
    EXPECT_THAT(item.base_reason, HasSubstr(reason));
    EXPECT_EQ(Record(step).kind, StepRecord::Kind::kFull);
    EXPECT_THAT(Record(step).chain, ElementsAre(Record(step).version));
  }
  void ExpectSavedWhole(const SaveSpec& spec, const RankContent& before,
                        const std::string& reason) {
    const HeldChanges bare(content_, ChangesBetween(before, content_),
                           /*whole=*/false);
    EXPECT_THAT(store_->Save(spec, bare.state()),
                FailedPrecondition("\"user\"", reason));
    EXPECT_THAT(store_->FindStep(spec.step), NotFound("step"));
    ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                         SaveOver(spec, before, content_));
    EXPECT_EQ(saved.kind, StepRecord::Kind::kFull);
    EXPECT_EQ(saved.deltas, 0u);
    ExpectBase(spec.step, reason);
    ExpectRows(spec.step, content_);
  }
};

TEST_F(BaseReasonTest, OtherSlotsOrHash) {
  content_ = UserContent({1, 2});
  SaveNext(1);
  const RankContent before = content_;
  const std::string reason =
      "its schema (slots or slice hash) differs from the parent's";
  content_.tables["user"].hash = SliceHash::kMix;
  ExpectSavedWhole({.step = 2, .parent = parent_}, before, reason);
  std::vector<std::vector<Slot>> others(
      5, std::vector<Slot>{{"embedding", DType::kF32, 4},
                           {"freq", DType::kI32, 1}});
  others[0][0].name = "emb";
  others[1][0].dtype = DType::kI32;
  others[2][1].elements = 2;
  std::swap(others[3][0], others[3][1]);
  others[4].push_back({"new", DType::kU8, 1});
  int64_t step = 2;
  for (const std::vector<Slot>& slots : others) {
    SCOPED_TRACE("step " + std::to_string(step + 1));
    const Version last = Record(step).version;
    const RankContent old = content_;
    TableContent& table = content_.tables["user"];
    table = UserTable({}, SliceHash::kMix);
    table.slots = slots;
    for (const int64_t id : {1, 2, 3})
      table.rows[id] = RowOf(id, 2, table.row_bytes());
    ExpectSavedWhole({.step = ++step, .parent = last}, old, reason);
  }
}

TEST_F(BaseReasonTest, TheCallersReasonOrNone) {
  content_ = UserContent({1, 2});
  SaveNext(1);
  const TableContent& table = content_.tables["user"];
  const std::string reason = "the tracker ran over 4096 marks";
  RankState::Table item{"user", table.slots};
  item.changes = RankState::Changes();
  item.base_reason = reason;
  RankState state;
  state.AddTable(item);
  EXPECT_THAT(store_->Save({.step = 2, .parent = parent_}, state),
              FailedPrecondition(reason));
  const BlockRows rows(table.slots, {table.rows.begin(), table.rows.end()}, 1);
  item.rows = &rows;
  RankState whole;
  whole.AddTable(item);
  ASSERT_OK(store_->Save({.step = 2, .parent = parent_}, whole));
  ExpectBase(2, reason);
  // A table whose changes nobody asked for has no reason.
  ASSERT_OK(store_->Save({.step = 3, .parent = Record(2).version},
                         HeldState(content_).state()));
  EXPECT_EQ(FindItem(3, "user").base_reason, "");
  EXPECT_EQ(FindItem(3, "user").run, Item::Run::kBase);
}

TEST_F(BaseReasonTest, NoParentOrNoTableInIt) {
  const std::string reason = "a delta save requires SaveSpec::parent";
  content_ = UserContent({1, 2});
  ExpectSavedWhole({.step = 1}, {}, reason);
  SaveNext(2);
  const RankContent before = content_;
  rows()[3] = RowOf(3, 1);
  ExpectSavedWhole({.step = 3}, before, reason);
  content_ = SmallContent(1);
  content_.tables.clear();
  parent_.reset();
  SaveNext(4);
  content_.tables["user"] = UserTable({5});
  ExpectSavedWhole({.step = 5, .parent = parent_}, {},
                   "the parent has no such table");
}

class BadChangesTest : public DeltaFixture {
 protected:
  void ExpectRefused(const Deltas& deltas,
                     const std::vector<std::string>& words) {
    EXPECT_THAT(SaveDelta(2, *parent_, content_, deltas),
                InvalidArgument(words));
    EXPECT_THAT(ListSteps(), ElementsAre(1));
  }
};

TEST_F(BadChangesTest, UpsertedAndErased) {
  for (const SliceHash hash : {SliceHash::kModulo, SliceHash::kMix}) {
    if (parent_.has_value()) {
      ASSERT_OK(store_->Delete(1));
    }
    content_ = UserContent({1, 2}, hash);
    parent_.reset();
    SaveNext(1);
    for (const int64_t id : {int64_t{0}, int64_t{-5}, kMinId, kMaxId}) {
      const Deltas both = {
          {"user",
           {{{1, RowOf(1, 1)}, {id, RowOf(id, 1)}}, {7, id, -9, 65543}}}};
      ExpectRefused(both, {"\"user\"", "id " + std::to_string(id) + " is both",
                           "upserted and erased"});
    }
  }
}

TEST_F(BadChangesTest, TwiceInErased) {
  content_ = UserContent({1, 2});
  SaveNext(1);
  ExpectRefused({{"user", {{}, {7, -7, 8, -7}}}},
                {"\"user\"", "erased", "duplicate id -7 "});
  // More ids than are sorted at once.
  std::vector<int64_t> erased;
  for (int64_t id = -50'000; id < 50'000; ++id) erased.push_back(id * 3);
  std::vector<int64_t> twice = erased;
  twice.push_back(-3);
  ExpectRefused({{"user", {{}, twice}}}, {"erased", "duplicate id -3 "});
  ExpectRefused({{"user", {{{-9, RowOf(-9, 1)}}, erased}}}, {"id -9 is both"});
  ASSERT_OK(SaveDelta(2, *parent_, content_, {{"user", {{}, erased}}}));
  EXPECT_EQ(FindItem(2, "user").erased_rows, erased.size());
  ExpectStep(2, {content_});
}

TEST_F(BadChangesTest, OutsideTheSlicesOfTheRank) {
  content_ = UserContent({1});
  SaveNext(1);
  const Store::Attempt save = Begin({.step = 2,
                                     .world_size = 2,
                                     .slice_bounds = EvenSliceBounds(2),
                                     .parent = parent_});
  const HeldChanges held(content_, {{"user", {{}, {40'000}}}}, false);
  EXPECT_THAT(Stage(path(), save.tickets[0], held.state()),
              InvalidArgument("id 40000", "[0, 32768)"));
  EXPECT_OK(Stage(path(), save.tickets[1], held.state()));
}

}  // namespace
}  // namespace ckptdb::testing
