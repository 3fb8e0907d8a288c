// SPDX-License-Identifier: Apache-2.0
// From one step to another: forwards, backwards and across branches.

#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::Field;

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
    return Follow(*Changes(from, to), from, to);
  }
  std::unique_ptr<ChangeReader> Changes(int64_t from, int64_t to) {
    return store_->OpenChanges(versions_.at(from), to).value();
  }
  void ExpectNoWay(const Version& from, int64_t to, const Version& at,
                   const std::string& why) {
    EXPECT_THAT(
        store_->OpenChanges(from, to),
        FailedPrecondition("/store", "no changes lead from " + ToString(from),
                           ToString(at), why));
  }
  std::map<int64_t, Version> versions_;
};

TEST_F(ChangeTest, ForwardsAndBackwards) {
  SaveLine();
  const auto forwards = Changes(1, 4);
  EXPECT_TRUE(forwards->forwards());
  EXPECT_EQ(forwards->from().version, versions_[1]);
  EXPECT_EQ(forwards->to().record().version, versions_[4]);
  EXPECT_THAT(Follow(*forwards, 1, 4), ElementsAre(-6, 2, 3, 10, 11));
  EXPECT_THAT(Follow(1, 2), ElementsAre(2, 3, 10));
  EXPECT_THAT(Follow(2, 3), ElementsAre(-6, 3, 10));
  EXPECT_THAT(Follow(3, 4), ElementsAre(2, 11));
  EXPECT_TRUE(Scan(forwards->to(), "user").value() == rows());
  EXPECT_FALSE(Changes(4, 1)->forwards());
  EXPECT_THAT(Follow(4, 1), ElementsAre(-6, 2, 3, 10, 11));
  EXPECT_THAT(Follow(3, 2), ElementsAre(-6, 3, 10));
  EXPECT_THAT(Follow(4, 2), ElementsAre(-6, 2, 3, 10, 11));
  const auto none = Changes(3, 3);
  EXPECT_TRUE(none->forwards());
  EXPECT_THAT(Follow(*none, 3, 3), IsEmpty());
  EXPECT_THAT(none->ChangedItems(), IsEmpty());
  LiveRows live(TableAt(1).slots, TableAt(1).rows);
  EXPECT_THAT(none->ScanTable("item", {}, &live), NotFound("\"item\""));
  EXPECT_THAT(none->ScanTable("user", {}, nullptr),
              InvalidArgument("\"user\""));
  EXPECT_THAT(
      forwards->ScanTable("user", {.read = {.threads = 0}}, &live),
      InvalidArgument("ReadOptions::threads is 0; it must be at least 1"));
  EXPECT_TRUE(live.rows() == TableAt(1).rows);
}

TEST_F(ChangeTest, AcrossBranches) {
  SaveLine();
  content_ = history_[2];
  rows()[2] = RowOf(2, 20);
  rows()[20] = RowOf(20, 20);
  rows().erase(1);
  versions_[20] = SaveOver({.step = 20,
                            .parent = versions_[2],
                            .abandoned = SaveSpec::Abandoned::kKeep},
                           history_[2], content_)
                      .value()
                      .version;
  history_[20] = content_;
  EXPECT_THAT(Follow(4, 20), ElementsAre(-6, 1, 2, 3, 10, 11, 20));
  EXPECT_THAT(Follow(20, 4), ElementsAre(-6, 1, 2, 3, 10, 11, 20));
  EXPECT_THAT(Follow(3, 20), ElementsAre(-6, 1, 2, 3, 10, 20));
  EXPECT_THAT(Follow(2, 20), ElementsAre(1, 2, 20));
  EXPECT_THAT(Follow(20, 1), ElementsAre(1, 2, 3, 10, 20));
}

TEST_F(ChangeTest, OverRetiredSteps) {
  SaveLine();
  DeleteSteps({1, 2, 3});
  ASSERT_OK(store_->Sweep());
  for (const int64_t step : {1, 2, 3}) {
    Follow(step, 4);
    EXPECT_THAT(store_->OpenChanges(versions_[4], step), NotFound("no step"));
  }
  Reopen();
  EXPECT_THAT(Follow(1, 4), ElementsAre(-6, 2, 3, 10, 11));
}

TEST_F(ChangeTest, RejectsPathsWithoutChanges) {
  SaveLine();
  const Version never{3, 99};
  ExpectNoWay(never, 4, never, "is gone");
  const Version whole = Save(5, content_).value().version;
  ExpectNoWay(versions_[4], 5, whole, "was saved in full");
  ExpectNoWay(versions_[1], 5, whole, "was saved in full");
  ExpectNoWay(whole, 4, whole, "was saved in full");
  DeleteSteps({1, 2, 3, 4});
  ASSERT_OK(store_->Sweep());
  ExpectNoWay(versions_[4], 5, versions_[4], "is gone");
  EXPECT_THAT(store_->OpenChanges(whole, 4), NotFound("no step 4"));
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
  using Expect = std::function<void(
      const ChangeReader&, const TableContent& from, const TableContent& to)>;
  void ForEachWay(const Expect& expect) {
    for (const SliceHash hash : {SliceHash::kModulo, SliceHash::kMix}) {
      const int64_t first = hash == SliceHash::kMix ? 100 : 0;
      SaveRandom(first, hash);
      for (const auto& [from, to] :
           {std::pair{first, first + 3}, {first + 3, first + 1}}) {
        SCOPED_TRACE(absl::StrCat("from ", from, " to ", to));
        expect(*Changes(from, to), TableAt(from), TableAt(to));
      }
    }
  }
  std::mt19937_64 random_{TestSeed()};
};

TEST_F(ChangePartsTest, SomeSlotsOrOnlyIds) {
  ForEachWay([](const auto& changes, const auto& from, const auto& to) {
    for (const std::vector<std::string>& slots :
         {std::vector<std::string>{"freq"}, {"freq", "embedding"}}) {
      LiveRows live(from.slots, from.rows, slots);
      ASSERT_OK(changes.ScanTable("user", {.slots = slots}, &live));
      const TableContent reached{from.slots, from.hash, live.rows()};
      EXPECT_TRUE(Project(reached, slots) == Project(to, slots));
    }
    LiveRows live(from.slots);
    EXPECT_THAT(changes.ScanTable("user", {.slots = {"momentum"}}, &live),
                NotFound("\"momentum\""));
    EXPECT_THAT(changes.ScanTable("user", {.slices = {9, 8}}, &live),
                InvalidArgument("9"));
    EXPECT_THAT(live.touched(), IsEmpty());
    ASSERT_OK(changes.ScanTable("user", {}, &live));
    LiveRows ids({}, Project(from, {}));
    ASSERT_OK(changes.ScanTable("user", {.ids_only = true}, &ids));
    EXPECT_EQ(ids.touched(), live.touched());
    EXPECT_TRUE(ids.rows() == Project(to, {}));
  });
}

class ChangeTablesTest : public ChangeTest {
 protected:
  void SaveTables(int64_t step, const std::set<std::string>& as_changes) {
    Deltas deltas = ChangesBetween(saved_, content_);
    std::erase_if(deltas, [&](const auto& delta) {
      return !as_changes.contains(delta.first);
    });
    parent_ = versions_[step] =
        store_
            ->Save({.step = step, .parent = parent_},
                   HeldChanges(content_, deltas).state())
            .value()
            .version;
    history_[step] = saved_ = content_;
  }
  void ExpectCannot(int64_t from, int64_t to, const std::string& table,
                    const Version& at, const std::string& why) {
    LiveRows live(UserTable({}).slots);
    EXPECT_THAT(Changes(from, to)->ScanTable(table, {}, &live),
                FailedPrecondition("table \"" + table + "\" cannot be followed",
                                   ToString(at), why));
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
  for (const auto& [from, to] : {std::pair{1, 3}, {3, 1}, {1, 2}})
    ExpectCannot(from, to, "item", versions_[2], "it was saved in full");
  LiveRows live(UserTable({}).slots);
  EXPECT_OK(Changes(2, 3)->ScanTable("item", {}, &live));
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
  LiveRows live(UserTable({}).slots);
  EXPECT_THAT(Changes(2, 3)->ScanTable("item", {}, &live),
              NotFound("\"item\""));
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
  ASSERT_GT(store_->Sweep().value().freed_bytes, uint64_t{17} << 20);
  Follow(2, 3);
  Follow(1, 3);
  ExpectNoWay(versions_[2], 1, versions_[2], "is retired");
}

TEST_F(ChangeTest, ChangedItems) {
  content_ = UserContent({1});
  const auto floats = [](float last) {
    return TensorContent::Of<float>({2}, {1, last});
  };
  for (const char* name : {"same", "bytes", "shape", "dtype", "gone"})
    content_.tensors[name] = floats(2);
  content_.blobs["reader"] = "position 1";
  content_.blobs["same"] = "as it was";
  SaveStep(1);
  content_.tensors["bytes"] = floats(3);
  content_.tensors["shape"].shape = {1, 2};
  content_.tensors["dtype"].dtype = DType::kU32;
  content_.tensors.erase("gone");
  content_.tensors["new"] = floats(2);
  content_.blobs["reader"] = "position 2";
  SaveStep(2);
  SaveStep(3);
  const auto expect = [&](int64_t from, int64_t to, const char* other) {
    const auto named = [](Item::Kind kind, const std::string& name) {
      return AllOf(Field(&Item::kind, kind), Field(&Item::name, name));
    };
    const auto tensor = [&](const std::string& name) {
      return named(Item::Kind::kTensor, name);
    };
    EXPECT_THAT(
        Changes(from, to)->ChangedItems(),
        ElementsAre(AllOf(
            Field(&StepRecord::Rank::rank, 0U),
            Field(&StepRecord::Rank::items,
                  UnorderedElementsAre(tensor("bytes"), tensor("shape"),
                                       tensor("dtype"), tensor(other),
                                       named(Item::Kind::kBlob, "reader"))))));
  };
  expect(1, 3, "new");
  expect(3, 1, "gone");
  EXPECT_THAT(Changes(2, 3)->ChangedItems(), IsEmpty());
}

// A follower in another process, while the owner saves, retires and sweeps.
class FollowerTest : public ChangeTest {
 protected:
  // Saves a step and retires all others.
  void KeepLatest(int64_t step) {
    ASSERT_OK_AND_ASSIGN(
        const SaveResult saved,
        SaveOver({.step = step, .parent = parent_, .retire = ListSteps()},
                 saved_, content_));
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
  const auto reader = Reader::Open(path()).value();
  int64_t held = 1;
  LiveRows live(TableAt(1).slots, TableAt(1).rows);
  for (int64_t step = 2; step < 12; ++step) {
    rows()[step] = RowOf(step, 1);
    rows().erase(step - 2);
    KeepLatest(step);
    if (step % 3 != 0) continue;
    const auto changes = reader->OpenChanges(versions_[held], step).value();
    live.NewScan();
    ASSERT_OK(changes->ScanTable("user", {}, &live));
    EXPECT_TRUE(live.rows() == rows());
    held = step;
  }
}

TEST_F(FollowerTest, WhatItReadsStays) {
  SaveLine();
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
  ASSERT_OK_AND_ASSIGN(auto changes, reader->OpenChanges(versions_[4], 2));
  ASSERT_OK(Save(9, UserContent({9}), {.retire = {1, 2, 3, 4}}));
  EXPECT_THAT(Swept(), IsEmpty());
  Follow(*changes, 4, 2);
  changes.reset();
  EXPECT_THAT(Swept(), SizeIs(4));
  EXPECT_THAT(reader->OpenChanges(versions_[4], 2), NotFound("no step 2"));
  EXPECT_THAT(reader->OpenChanges(versions_[4], 9),
              FailedPrecondition(ToString(versions_[4]) + " is gone"));
}

TEST_F(FollowerTest, OverAFold) {
  SaveLine();
  const auto reader = Reader::Open(path()).value();
  ASSERT_OK_AND_ASSIGN(const Store::FoldResult folded, store_->Fold(4));
  DeleteSteps({1, 2, 3});
  ASSERT_OK(store_->Sweep());
  rows()[20] = RowOf(20, 1);
  SaveStep(5);
  auto changes = reader->OpenChanges(versions_[4], 5).value();
  EXPECT_TRUE(changes->forwards());
  EXPECT_THAT(Follow(*changes, 4, 5), ElementsAre(20));
  changes.reset();
  ASSERT_OK(store_->Delete(4));
  ASSERT_OK(store_->Sweep());
  // The version that it holds is gone, that which has the same state is not.
  changes = reader->OpenChanges(versions_[4], 5).value();
  EXPECT_EQ(changes->from().version, folded.version);
  EXPECT_THAT(Follow(*changes, 4, 5), ElementsAre(20));
}

}  // namespace
}  // namespace ckptdb::testing
