// SPDX-License-Identifier: Apache-2.0
// Delta steps of several tables, some of them whole, and of tensors and blobs.

#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

class DeltaTablesTest : public DeltaFixture {
 protected:
  // The tables named as changes, all others whole.
  void SaveMixed(int64_t step, const std::set<std::string>& as_changes) {
    Deltas deltas = ChangesBetween(saved_, content_);
    std::erase_if(deltas, [&](const auto& delta) {
      return !as_changes.contains(delta.first);
    });
    ASSERT_OK_AND_ASSIGN(const SaveResult result,
                         parent_.has_value()
                             ? SaveDelta(step, *parent_, content_, deltas)
                             : Save(step, content_));
    EXPECT_EQ(result.kind, deltas.empty() ? StepRecord::Kind::kFull
                                          : StepRecord::Kind::kDelta);
    parent_ = result.version;
    saved_ = content_;
    history_[step] = content_;
  }
  std::vector<int64_t> ChainOf(int64_t step) {
    std::vector<int64_t> steps;
    for (const Version& version : Record(step).chain)
      steps.push_back(version.step);
    return steps;
  }
  void Touch(const std::string& table, int64_t id, int generation) {
    content_.tables[table].rows[id] = RowOf(id, generation);
  }
};

TEST_F(DeltaTablesTest, OneWholeOneAsChanges) {
  content_.tables["item"] = UserTable({1, 2});
  content_.tables["user"] = UserTable({1, 2, 3}, SliceHash::kMix);
  SaveMixed(1, {});
  Touch("item", 3, 2);
  Touch("user", 4, 2);
  content_.tables["item"].rows.erase(1);
  content_.tables["user"].rows.erase(1);
  SaveMixed(2, {"user"});
  EXPECT_THAT(ChainOf(2), ElementsAre(1, 2));
  EXPECT_EQ(Record(2).base_bytes, FindItem(1, "user").stored_bytes +
                                      FindItem(2, "item").stored_bytes);
  EXPECT_EQ(Record(2).delta_bytes, FindItem(2, "user").stored_bytes);
  Touch("item", 5, 3);
  Touch("user", 5, 3);
  SaveMixed(3, {"item"});
  EXPECT_THAT(ChainOf(3), ElementsAre(2, 3));
  Touch("item", 5, 4);
  Touch("user", 5, 4);
  SaveMixed(4, {"item", "user"});
  EXPECT_THAT(ChainOf(4), ElementsAre(2, 3, 4));
  SaveMixed(5, {});
  EXPECT_THAT(ChainOf(5), ElementsAre(5));
  ExpectHistory({1, 5});
}

// What a step does not need of its chain may be gone.
TEST_F(DeltaTablesTest, NewestAloneIsWholeAndVerifies) {
  content_.tables["item"] = UserTable({1, 2});
  content_.tables["user"] = UserTable({1, 2, 3});
  content_.tables["gone"] = BulkTable(1);
  SaveMixed(1, {});
  content_.tables.erase("gone");
  Touch("item", 3, 2);
  Touch("user", 4, 2);
  SaveMixed(2, {"user"});
  ASSERT_OK(store_->Delete(1));
  EXPECT_GT(store_->Sweep().value().freed_bytes, uint64_t{17} << 20);
  Reopen();
  ExpectRows(2, content_);
}

TEST_F(DeltaTablesTest, ATableAppearsGoesAwayAndComesBack) {
  content_.tables["user"] = UserTable({1, 2, 3});
  SaveMixed(1, {});
  content_.tables["item"] = UserTable({7});
  Touch("user", 4, 2);
  SaveMixed(2, {"user"});
  Touch("item", 8, 3);
  SaveMixed(3, {"item", "user"});
  EXPECT_THAT(ChainOf(3), ElementsAre(1, 2, 3));
  content_.tables.erase("item");
  Touch("user", 4, 4);
  SaveMixed(4, {"user"});
  EXPECT_THAT(store_->OpenStep(4).value()->FindTable("item"),
              NotFound("\"item\""));
  content_.tables["item"] = UserTable({8});
  EXPECT_THAT(
      SaveDelta(5, *parent_, content_, {{"item", {{{8, RowOf(8, 0)}}, {}}}}),
      FailedPrecondition("\"item\"", "the parent has no such table"));
  SaveMixed(5, {"user"});
  Touch("item", 9, 6);
  SaveMixed(6, {"item", "user"});
  EXPECT_THAT(ChainOf(6), ElementsAre(1, 2, 3, 4, 5, 6));
  ExpectHistory();
}

// A table that was whole when its step was folded stays in the version that
// the step was folded from, also for a chain that begins there.
TEST_F(DeltaTablesTest, AWholeTableOfAFoldedStep) {
  content_.tables["item"] = UserTable({1, 2});
  content_.tables["user"] = UserTable({1, 2, 3});
  SaveMixed(1, {});
  Touch("item", 3, 2);
  Touch("user", 4, 2);
  SaveMixed(2, {"user"});
  const Version before = *parent_;
  ASSERT_OK_AND_ASSIGN(const Store::FoldResult folded, store_->Fold(2));
  EXPECT_EQ(FindItem(2, "item").data_version, before);
  Touch("item", 1, 3);
  SaveMixed(3, {"item"});
  EXPECT_THAT(Record(3).chain, ElementsAre(folded.version, *parent_));
  EXPECT_THAT(Record(3).references, ElementsAre(before));
  DeleteSteps({1, 2});
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectRows(3, content_);
  ASSERT_OK_AND_ASSIGN(auto reader, store_->OpenStep(3));
  ASSERT_OK(store_->Delete(3));
  EXPECT_THAT(Swept(), IsEmpty());
  EXPECT_TRUE(Scan(*reader, "item").value() == content_.tables["item"].rows);
  reader.reset();
  EXPECT_THAT(Swept(), SizeIs(3));
}

// A small blob that shares its file with a table is stored again instead.
TEST_F(DeltaTablesTest, LargeTensorsReferBack) {
  content_ = BulkContent(1);
  SaveMixed(1, {});
  const Version base = *parent_;
  content_.tables["user"].rows[-1] = RowOf(-1, 2);
  SaveMixed(2, {"user"});
  EXPECT_EQ(FindItem(2, "bulk").data_version, base);
  EXPECT_EQ(FindItem(2, "reader").data_version, *parent_);
  EXPECT_THAT(Record(2).references, ElementsAre(base));
  EXPECT_LT(Record(2).exclusive_bytes, 1000u);
  content_.blobs["reader"] = "position of step 3";
  content_.tables["user"].rows.erase(-1);
  SaveMixed(3, {"user"});
  EXPECT_EQ(FindItem(3, "bulk").data_version, base);
  EXPECT_EQ(FindItem(3, "reader").data_version, *parent_);
  DeleteSteps({1, 2});
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectRows(3, content_, {-1});
}

TEST_F(DeltaTablesTest, VerifyPassesOverWhatIsVerified) {
  content_.tables["item"] = UserTable({1, 2});
  content_.tables["user"] = UserTable({1, 2, 3});
  SaveMixed(1, {});
  Touch("user", 4, 2);
  SaveMixed(2, {"item", "user"});
  Touch("item", 4, 3);
  SaveMixed(3, {"user"});
  std::set<Version> verified;
  const auto verify = [&](int64_t step) {
    uint64_t all = 0;
    const auto reader = store_->OpenStep(step);
    EXPECT_OK(reader);
    EXPECT_OK((*reader)->Verify(
        {.progress = [&](uint64_t, uint64_t bytes) { all = bytes; }},
        &verified));
    return all;
  };
  const uint64_t user_bytes =
      FindItem(1, "user").raw_bytes + FindItem(2, "user").raw_bytes;
  EXPECT_EQ(verify(3), user_bytes + FindItem(3, "user").raw_bytes +
                           FindItem(3, "item").raw_bytes);
  // Not all of steps 1 and 2 was read for it.
  EXPECT_THAT(verified, ElementsAre(store_->FindStep(3).value().version));
  EXPECT_EQ(verify(2), user_bytes + FindItem(1, "item").raw_bytes +
                           FindItem(2, "item").raw_bytes);
  EXPECT_EQ(verified.size(), 3u);
  EXPECT_EQ(verify(1), 0u);
  EXPECT_EQ(verify(2), 0u);
  verified.clear();
  EXPECT_EQ(verify(1),
            FindItem(1, "item").raw_bytes + FindItem(1, "user").raw_bytes);
  EXPECT_EQ(verify(2),
            FindItem(2, "item").raw_bytes + FindItem(2, "user").raw_bytes);
}

// The file of the large blob is kept in any case, so a small one in it refers
// back, too.
TEST_F(DeltaTablesTest, LargeBlobsReferBack) {
  constexpr uint64_t kLargeBytes = uint64_t{2} << 20;
  content_ = SmallContent(1);
  content_.blobs["large"] = RowOf(1, 1, kLargeBytes);
  SaveMixed(1, {});
  const Version base = *parent_;
  EXPECT_GE(FindItem(1, "large").stored_bytes, kLargeBytes);
  content_.tables["user"].rows[-1] = RowOf(-1, 2);
  SaveMixed(2, {"user"});
  EXPECT_EQ(FindItem(2, "large").data_version, base);
  EXPECT_EQ(FindItem(2, "reader").data_version, base);
  ASSERT_OK_AND_ASSIGN(const StepRecord second, store_->FindStep(2));
  EXPECT_LT(second.exclusive_bytes, 1000u);
  content_.blobs["large"].back() ^= 1;
  SaveMixed(3, {"user"});
  EXPECT_EQ(FindItem(3, "large").data_version, *parent_);
  for (const int64_t step : {1, 2}) {
    ASSERT_OK(store_->Delete(step));
    history_.erase(step);
  }
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectHistory({-1});
}

}  // namespace
}  // namespace ckptdb::testing
