// SPDX-License-Identifier: Apache-2.0
// From one step to another: forwards, backwards and across branches.

#include <gmock/gmock.h>

#include "db/reader.h"
#include "tests/db/delta_fixture.h"
#include "tests/support/seed.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class ChangeTest : public DeltaFixture {
 protected:
  void SaveStep(int64_t step) {
    ASSERT_NO_FATAL_FAILURE(SaveNext(step));
    versions_[step] = *parent_;
  }
  // Step 1 whole, 2 to 4 deltas, with rows that are written, erased and
  // written again.
  void SaveLine() {
    content_ = UserContent({1, 2, 3, 4, 5, -6});
    SaveStep(1);
    rows()[2] = RowOf(2, 2);
    rows()[10] = RowOf(10, 2);
    rows().erase(3);
    SaveStep(2);
    rows()[3] = RowOf(3, 3);
    rows().erase(10);
    rows().erase(-6);
    SaveStep(3);
    rows()[2] = RowOf(2, 4);
    rows()[11] = RowOf(11, 4);
    SaveStep(4);
  }
  const TableContent& TableAt(int64_t step) {
    return history_.at(step).tables.at("user");
  }
  // Follows a table from one step to another, and returns what was touched.
  std::set<int64_t> Follow(const ChangeReader& changes, int64_t from,
                           int64_t to) {
    SCOPED_TRACE(absl::StrCat("from ", from, " to ", to));
    LiveRows live(TableAt(from).slots, TableAt(from).rows);
    EXPECT_OK(changes.ScanTable("user", {}, &live));
    EXPECT_TRUE(live.rows() == TableAt(to).rows);
    EXPECT_FALSE(live.cleared());
    return live.touched();
  }
  std::set<int64_t> Follow(int64_t from, int64_t to) {
    const auto changes = store_->OpenChanges(versions_.at(from), to);
    EXPECT_OK(changes);
    return changes.ok() ? Follow(**changes, from, to) : std::set<int64_t>();
  }
  void ExpectNoWay(const Version& from, int64_t to, const Version& at,
                   const std::string& why) {
    EXPECT_THAT(
        store_->OpenChanges(from, to),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr("/store"),
                       HasSubstr("no changes lead from " + ToString(from)),
                       HasSubstr(ToString(at)), HasSubstr(why))));
  }

  std::map<int64_t, Version> versions_;
};

TEST_F(ChangeTest, Forwards) {
  SaveLine();
  ASSERT_OK_AND_ASSIGN(const auto changes,
                       store_->OpenChanges(versions_[1], 4));
  EXPECT_TRUE(changes->forwards());
  EXPECT_EQ(changes->from().version, versions_[1]);
  EXPECT_EQ(changes->to().record().version, versions_[4]);
  EXPECT_THAT(Follow(*changes, 1, 4), ElementsAre(-6, 2, 3, 10, 11));
  EXPECT_THAT(Follow(1, 2), ElementsAre(2, 3, 10));
  EXPECT_THAT(Follow(2, 3), ElementsAre(-6, 3, 10));
  EXPECT_THAT(Follow(3, 4), ElementsAre(2, 11));
  ASSERT_OK_AND_ASSIGN(const Rows all, Scan(changes->to(), "user"));
  EXPECT_TRUE(all == rows());
}

TEST_F(ChangeTest, Backwards) {
  SaveLine();
  ASSERT_OK_AND_ASSIGN(const auto changes,
                       store_->OpenChanges(versions_[4], 1));
  EXPECT_FALSE(changes->forwards());
  EXPECT_THAT(Follow(*changes, 4, 1), ElementsAre(-6, 2, 3, 10, 11));
  EXPECT_THAT(Follow(3, 2), ElementsAre(-6, 3, 10));
  EXPECT_THAT(Follow(4, 2), ElementsAre(-6, 2, 3, 10, 11));
}

TEST_F(ChangeTest, NeedsAThread) {
  SaveLine();
  ASSERT_OK_AND_ASSIGN(const auto changes,
                       store_->OpenChanges(versions_[1], 4));
  LiveRows live(TableAt(1).slots, TableAt(1).rows);
  EXPECT_THAT(
      changes->ScanTable("user", {.read = {.threads = 0}}, &live),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("ReadOptions::threads is 0; it must be at least 1")));
  EXPECT_TRUE(live.rows() == TableAt(1).rows);
}

TEST_F(ChangeTest, SameStep) {
  SaveLine();
  ASSERT_OK_AND_ASSIGN(const auto changes,
                       store_->OpenChanges(versions_[3], 3));
  EXPECT_TRUE(changes->forwards());
  EXPECT_THAT(Follow(*changes, 3, 3), IsEmpty());
  EXPECT_THAT(changes->ChangedItems(), IsEmpty());
  LiveRows live(TableAt(1).slots);
  EXPECT_THAT(changes->ScanTable("item", {}, &live),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"item\"")));
  EXPECT_THAT(
      changes->ScanTable("user", {}, nullptr),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"user\"")));
}

TEST_F(ChangeTest, AcrossBranches) {
  SaveLine();
  content_ = history_[2];
  rows()[2] = RowOf(2, 20);
  rows()[20] = RowOf(20, 20);
  rows().erase(1);
  SaveSpec spec{.step = 20, .parent = versions_[2]};
  spec.abandoned = SaveSpec::Abandoned::kKeep;
  ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                       SaveOver(spec, history_[2], content_));
  versions_[20] = saved.version;
  history_[20] = content_;
  EXPECT_THAT(Follow(4, 20), ElementsAre(-6, 1, 2, 3, 10, 11, 20));
  EXPECT_THAT(Follow(20, 4), ElementsAre(-6, 1, 2, 3, 10, 11, 20));
  EXPECT_THAT(Follow(3, 20), ElementsAre(-6, 1, 2, 3, 10, 20));
  EXPECT_THAT(Follow(2, 20), ElementsAre(1, 2, 20));
  EXPECT_THAT(Follow(20, 1), ElementsAre(1, 2, 3, 10, 20));
}

TEST_F(ChangeTest, OverRetiredSteps) {
  SaveLine();
  for (const int64_t step : {1, 2, 3}) ASSERT_OK(store_->Delete(step));
  ASSERT_OK(store_->Sweep());
  for (const int64_t step : {1, 2, 3}) {
    Follow(step, 4);
    EXPECT_THAT(store_->OpenChanges(versions_[4], step),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("no step")));
  }
  Reopen();
  EXPECT_THAT(Follow(1, 4), ElementsAre(-6, 2, 3, 10, 11));
}

TEST_F(ChangeTest, RejectsPathsWithoutChanges) {
  SaveLine();
  const Version never{3, 99};
  ExpectNoWay(never, 4, never, "is gone");
  ASSERT_OK_AND_ASSIGN(const SaveResult whole, Save(5, content_));
  ExpectNoWay(versions_[4], 5, whole.version, "was saved in full");
  ExpectNoWay(versions_[1], 5, whole.version, "was saved in full");
  ExpectNoWay(whole.version, 4, whole.version, "was saved in full");
  for (const int64_t step : {1, 2, 3, 4}) ASSERT_OK(store_->Delete(step));
  ASSERT_OK(store_->Sweep());
  ExpectNoWay(versions_[4], 5, versions_[4], "is gone");
  EXPECT_THAT(store_->OpenChanges(whole.version, 4),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no step 4")));
}

class ChangePartsTest : public ChangeTest {
 protected:
  // Many rows in steps `first` to first + 3.
  void SaveRandom(int64_t first, SliceHash hash) {
    content_ = UserContent({}, hash);
    rows() = RandomRows(&random_, 20, 2000);
    parent_.reset();
    SaveStep(first);
    for (int64_t step = first + 1; step < first + 4; ++step) {
      for (const int64_t id : RandomIds(&random_, 200)) rows().erase(id);
      for (auto& [id, row] : RandomRows(&random_, 20, 300)) rows()[id] = row;
      SaveStep(step);
    }
  }
  // Calls `expect` forwards and backwards, for both hashes.
  void ForEachWay(
      const std::function<void(const ChangeReader&, const TableContent& from,
                               const TableContent& to)>& expect) {
    for (const SliceHash hash : {SliceHash::kModulo, SliceHash::kMix}) {
      const int64_t first = hash == SliceHash::kMix ? 100 : 0;
      SaveRandom(first, hash);
      for (const auto& [from, to] :
           {std::pair{first, first + 3}, {first + 3, first + 1}}) {
        SCOPED_TRACE(absl::StrCat("from ", from, " to ", to));
        ASSERT_OK_AND_ASSIGN(const auto changes,
                             store_->OpenChanges(versions_[from], to));
        expect(*changes, TableAt(from), TableAt(to));
      }
    }
  }

  std::mt19937_64 random_{TestSeed()};
};

TEST_F(ChangePartsTest, RangesOfSlices) {
  ForEachWay([](const ChangeReader& changes, const TableContent& from,
                const TableContent& to) {
    for (const uint32_t parts : {1u, 3u, 40u}) {
      LiveRows live(from.slots, from.rows);
      const std::vector<uint32_t> bounds = EvenSliceBounds(parts);
      for (uint32_t part = 0; part < parts; ++part) {
        ScanOptions options;
        options.slices = {bounds[part], bounds[part + 1]};
        options.read.threads = 1 + static_cast<int>(part % 4);
        // All parts together bring an id once.
        ASSERT_OK(changes.ScanTable("user", options, &live));
      }
      EXPECT_TRUE(live.rows() == to.rows) << parts << " parts";
    }
    LiveRows live(from.slots, from.rows);
    ScanOptions bad;
    bad.slices = {9, 8};
    EXPECT_THAT(changes.ScanTable("user", bad, &live),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("9")));
  });
}

TEST_F(ChangePartsTest, WantedIds) {
  ForEachWay([](const ChangeReader& changes, const TableContent& from,
                const TableContent& to) {
    LiveRows all(from.slots, from.rows);
    for (const uint64_t rank : {0u, 1u, 2u}) {
      ScanOptions options;
      options.wanted = [rank](int64_t id) {
        return static_cast<uint64_t>(id) % 3 == rank;
      };
      LiveRows live(from.slots);
      ASSERT_OK(changes.ScanTable("user", options, &live));
      for (const int64_t id : live.touched()) EXPECT_TRUE(options.wanted(id));
      ASSERT_OK(changes.ScanTable("user", options, &all));
    }
    EXPECT_TRUE(all.rows() == to.rows);
  });
}

TEST_F(ChangePartsTest, SomeSlots) {
  ForEachWay([](const ChangeReader& changes, const TableContent& from,
                const TableContent& to) {
    for (const std::vector<std::string>& slots :
         {std::vector<std::string>{"freq"}, {"freq", "embedding"}}) {
      ScanOptions options;
      options.slots = slots;
      LiveRows live(from.slots, from.rows, slots);
      ASSERT_OK(changes.ScanTable("user", options, &live));
      const TableContent reached{from.slots, from.hash, live.rows()};
      EXPECT_TRUE(Project(reached, slots) == Project(to, slots));
    }
    ScanOptions bad;
    bad.slots = {"momentum"};
    LiveRows live(from.slots);
    EXPECT_THAT(
        changes.ScanTable("user", bad, &live),
        StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"momentum\"")));
    EXPECT_THAT(live.touched(), IsEmpty());
  });
}

TEST_F(ChangePartsTest, OnlyIds) {
  ForEachWay([](const ChangeReader& changes, const TableContent& from,
                const TableContent& to) {
    LiveRows all(from.slots);
    ASSERT_OK(changes.ScanTable("user", {}, &all));
    ScanOptions options;
    options.ids_only = true;
    LiveRows ids({}, Project(from, {}));
    ASSERT_OK(changes.ScanTable("user", options, &ids));
    EXPECT_EQ(ids.touched(), all.touched());
    EXPECT_TRUE(ids.rows() == Project(to, {}));
  });
}

// A table that is saved whole on the way, or is not there at one of its ends.
class ChangeTablesTest : public ChangeTest {
 protected:
  void SaveTables(int64_t step, const std::set<std::string>& as_changes) {
    Deltas deltas = ChangesBetween(saved_, content_);
    std::erase_if(deltas, [&](const auto& delta) {
      return !as_changes.contains(delta.first);
    });
    const HeldChanges held(content_, deltas);
    ASSERT_OK_AND_ASSIGN(
        const SaveResult saved,
        store_->Save({.step = step, .parent = parent_}, held.state()));
    parent_ = saved.version;
    saved_ = content_;
    history_[step] = content_;
    versions_[step] = saved.version;
  }
  void ExpectCannot(int64_t from, int64_t to, const std::string& table,
                    const Version& at, const std::string& why) {
    ASSERT_OK_AND_ASSIGN(const auto changes,
                         store_->OpenChanges(versions_[from], to));
    LiveRows live(UserTable({}).slots);
    EXPECT_THAT(
        changes->ScanTable(table, {}, &live),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr("table \"" + table + "\" cannot be followed"),
                       HasSubstr(ToString(at)), HasSubstr(why))));
    EXPECT_THAT(live.touched(), IsEmpty());
  }
};

TEST_F(ChangeTablesTest, SavedWholeOnTheWay) {
  content_.tables["item"] = UserTable({1});
  content_.tables["user"] = UserTable({1});
  SaveTables(1, {});
  rows()[2] = RowOf(2, 2);
  SaveTables(2, {"user"});
  rows()[3] = RowOf(3, 3);
  SaveTables(3, {"item", "user"});
  Follow(1, 3);
  Follow(3, 1);
  ExpectCannot(1, 3, "item", versions_[2], "it was saved in full");
  ExpectCannot(3, 1, "item", versions_[2], "it was saved in full");
  ExpectCannot(1, 2, "item", versions_[2], "it was saved in full");
  ASSERT_OK_AND_ASSIGN(const auto after, store_->OpenChanges(versions_[2], 3));
  LiveRows live(UserTable({}).slots);
  EXPECT_OK(after->ScanTable("item", {}, &live));
}

TEST_F(ChangeTablesTest, ErrorHasTheReason) {
  content_.tables["item"] = UserTable({1});
  content_.tables["user"] = UserTable({1});
  SaveTables(1, {});
  content_.tables["item"].slots[0].name = "renamed";
  SaveTables(2, {"item", "user"});
  SaveTables(3, {"item", "user"});
  ExpectCannot(1, 3, "item", versions_[1],
               "its schema (slots or slice hash) differs between the steps");
  content_.tables["item"].slots[0].name = "embedding";
  SaveTables(4, {"item", "user"});
  ExpectCannot(
      1, 4, "item", versions_[4],
      "it was saved in full, because its schema (slots or slice hash)");
}

TEST_F(ChangeTablesTest, RejectsTablesThatAStepLacks) {
  content_.tables["user"] = UserTable({1});
  SaveTables(1, {});
  content_.tables["item"] = UserTable({1});
  SaveTables(2, {"user"});
  content_.tables.erase("item");
  SaveTables(3, {"user"});
  content_.tables["item"] = UserTable({1});
  SaveTables(4, {"user"});
  ExpectCannot(1, 2, "item", versions_[1], "it has no such table");
  ExpectCannot(2, 4, "item", versions_[4], "it was saved in full");
  ASSERT_OK_AND_ASSIGN(const auto changes,
                       store_->OpenChanges(versions_[2], 3));
  LiveRows live(UserTable({}).slots);
  EXPECT_THAT(changes->ScanTable("item", {}, &live),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"item\"")));
}

// A retired version of which the sweep has left only the runs of one table.
TEST_F(ChangeTablesTest, RejectsMissingRuns) {
  content_.tables["big"] = BulkTable(1);
  content_.tables["user"] = UserTable({1});
  SaveTables(1, {});
  content_.tables["big"] = BulkTable(2);
  rows()[2] = RowOf(2, 2);
  SaveTables(2, {"big", "user"});
  content_.tables["big"].rows = {{7, std::string(8192, 'x')}};
  rows()[3] = RowOf(3, 3);
  SaveTables(3, {"user"});
  ASSERT_OK(store_->Delete(2));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  ASSERT_GT(swept.freed_bytes, uint64_t{17} << 20);
  Follow(2, 3);
  Follow(1, 3);
  ExpectNoWay(versions_[2], 1, versions_[2], "is retired");
}

TEST_F(ChangeTest, ChangedItems) {
  content_ = UserContent({1});
  content_.tensors["same"] = TensorContent::Of<float>({2}, {1, 2});
  content_.tensors["bytes"] = TensorContent::Of<float>({2}, {1, 2});
  content_.tensors["shape"] = TensorContent::Of<float>({2, 1}, {1, 2});
  content_.tensors["dtype"] = TensorContent::Of<int32_t>({2}, {1, 2});
  content_.tensors["gone"] = TensorContent::Of<int32_t>({2}, {1, 2});
  content_.blobs["reader"] = "position 1";
  content_.blobs["same"] = "as it was";
  SaveStep(1);
  content_.tensors["bytes"] = TensorContent::Of<float>({2}, {1, 3});
  content_.tensors["shape"].shape = {1, 2};
  content_.tensors["dtype"].dtype = DType::kU32;
  content_.tensors.erase("gone");
  content_.tensors["new"] = TensorContent::Of<float>({}, {1});
  content_.blobs["reader"] = "position 2";
  SaveStep(2);
  SaveStep(3);
  const auto named = [](Item::Kind kind, const std::string& name) {
    return AllOf(Field(&Item::kind, kind), Field(&Item::name, name));
  };
  const auto changed = [](const ChangeReader& changes) {
    const std::vector<StepRecord::Rank> ranks = changes.ChangedItems();
    EXPECT_THAT(ranks, ElementsAre(Field(&StepRecord::Rank::rank, 0U)));
    return ranks.empty() ? std::vector<Item>() : ranks.front().items;
  };
  ASSERT_OK_AND_ASSIGN(const auto there, store_->OpenChanges(versions_[1], 3));
  EXPECT_THAT(changed(*there),
              UnorderedElementsAre(named(Item::Kind::kTensor, "bytes"),
                                   named(Item::Kind::kTensor, "shape"),
                                   named(Item::Kind::kTensor, "dtype"),
                                   named(Item::Kind::kTensor, "new"),
                                   named(Item::Kind::kBlob, "reader")));
  ASSERT_OK_AND_ASSIGN(const auto back, store_->OpenChanges(versions_[3], 1));
  EXPECT_THAT(changed(*back),
              UnorderedElementsAre(named(Item::Kind::kTensor, "bytes"),
                                   named(Item::Kind::kTensor, "shape"),
                                   named(Item::Kind::kTensor, "dtype"),
                                   named(Item::Kind::kTensor, "gone"),
                                   named(Item::Kind::kBlob, "reader")));
  ASSERT_OK_AND_ASSIGN(const auto none, store_->OpenChanges(versions_[2], 3));
  EXPECT_THAT(none->ChangedItems(), IsEmpty());
}

// A follower in another place, with an owner that saves, retires and sweeps.
class FollowerTest : public ChangeTest {
 protected:
  std::unique_ptr<Reader> OpenReader() {
    auto reader = Reader::Open(path());
    EXPECT_OK(reader);
    return reader.ok() ? *std::move(reader) : nullptr;
  }
  // As the owner retires all but its newest step with each save.
  void KeepLatest(int64_t step) {
    SaveSpec spec;
    spec.step = step;
    spec.parent = parent_;
    spec.retire = ListSteps();
    ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                         SaveOver(spec, saved_, content_));
    parent_ = saved.version;
    saved_ = content_;
    history_[step] = content_;
    versions_[step] = saved.version;
    ASSERT_OK(store_->Sweep());
  }
};

TEST_F(FollowerTest, FromAStepThatIsRetired) {
  content_ = UserContent({1, 2, 3});
  SaveStep(1);
  const auto reader = OpenReader();
  int64_t held = 1;
  LiveRows live(TableAt(1).slots, TableAt(1).rows);
  for (int64_t step = 2; step < 12; ++step) {
    rows()[step] = RowOf(step, 1);
    rows().erase(step - 2);
    KeepLatest(step);
    if (step % 3 != 0) continue;
    ASSERT_OK_AND_ASSIGN(const auto changes,
                         reader->OpenChanges(versions_[held], step));
    live.NewScan();
    ASSERT_OK(changes->ScanTable("user", {}, &live));
    EXPECT_TRUE(live.rows() == rows());
    held = step;
  }
}

TEST_F(FollowerTest, WhatItReadsStays) {
  SaveLine();
  const auto reader = OpenReader();
  ASSERT_OK_AND_ASSIGN(auto changes, reader->OpenChanges(versions_[4], 2));
  ASSERT_OK(Save(9, UserContent({9}), {.retire = {1, 2, 3, 4}}));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult kept, store_->Sweep());
  EXPECT_THAT(kept.swept_versions, IsEmpty());
  Follow(*changes, 4, 2);
  changes.reset();
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_EQ(swept.swept_versions.size(), 4u);
  EXPECT_THAT(reader->OpenChanges(versions_[4], 2),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no step 2")));
  EXPECT_THAT(reader->OpenChanges(versions_[4], 9),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(ToString(versions_[4]) + " is gone")));
}

TEST_F(FollowerTest, OverAFold) {
  SaveLine();
  const auto reader = OpenReader();
  ASSERT_OK_AND_ASSIGN(const Store::FoldResult folded, store_->Fold(4));
  for (const int64_t step : {1, 2, 3}) ASSERT_OK(store_->Delete(step));
  ASSERT_OK(store_->Sweep());
  rows()[20] = RowOf(20, 1);
  SaveStep(5);
  {
    ASSERT_OK_AND_ASSIGN(const auto changes,
                         reader->OpenChanges(versions_[4], 5));
    EXPECT_TRUE(changes->forwards());
    EXPECT_THAT(Follow(*changes, 4, 5), ElementsAre(20));
  }
  ASSERT_OK(store_->Delete(4));
  ASSERT_OK(store_->Sweep());
  // The version that it holds is gone, that which has the same state is not.
  ASSERT_OK_AND_ASSIGN(const auto again, reader->OpenChanges(versions_[4], 5));
  EXPECT_EQ(again->from().version, folded.version);
  EXPECT_THAT(Follow(*again, 4, 5), ElementsAre(20));
}

}  // namespace
}  // namespace ckptdb::testing
