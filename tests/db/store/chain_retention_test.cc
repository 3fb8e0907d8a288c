// SPDX-License-Identifier: Apache-2.0
// What stays of a chain whose steps are retired, what it takes, and when a new
// base is due.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kBulk = uint64_t{9} << 20;

class ChainTest : public DeltaFixture {
 protected:
  // A delta over the newest step; retention keeps it alone.
  absl::StatusOr<SaveResult> KeepLatest(int64_t step) {
    SaveSpec spec;
    spec.step = step;
    spec.parent = parent_;
    spec.retire = ListSteps();
    auto result = SaveOver(spec, saved_, content_);
    if (result.ok()) {
      parent_ = result->version;
      saved_ = content_;
    }
    return result;
  }
  // Bytes of data files.
  uint64_t TableBytes() const {
    uint64_t bytes = 0;
    for (const auto& file :
         std::filesystem::directory_iterator(path() + "/db")) {
      if (file.path().extension() == ".sst") bytes += file.file_size();
    }
    return bytes;
  }
};

TEST_F(ChainTest, DeltaRunsKeepNoTensorsOfRetiredSteps) {
  content_ = UserContent({1, 2, 3, 4, 5, 6, 7, 8});
  content_.tensors["w"] = BulkTensor(1, kBulk);
  SaveNext(1);
  for (int64_t step = 2; step < 6; ++step) {
    rows()[1] = RowOf(1, static_cast<int>(step));
    content_.tensors["w"] = BulkTensor(static_cast<uint64_t>(step), kBulk);
    ASSERT_OK(KeepLatest(step));
  }
  ASSERT_OK(store_->Sweep());
  ASSERT_OK_AND_ASSIGN(const StepRecord record, store_->FindStep(5));
  EXPECT_EQ(record.chain.size(), 5U);
  EXPECT_LT(TableBytes(), 2 * kBulk);
  ExpectStep(5, {content_});
}

TEST_F(ChainTest, BaseIsDueByLength) {
  content_ = UserContent({1, 2, 3, 4, 5, 6, 7, 8});
  SaveNext(1);
  SaveSpec spec;
  spec.bounds = {.max_deltas = 3, .max_delta_ratio = 1e9};
  for (int64_t step = 2; step < 6; ++step) {
    rows()[1] = RowOf(1, static_cast<int>(step));
    spec.step = step;
    spec.parent = parent_;
    ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                         SaveOver(spec, saved_, content_));
    parent_ = saved.version;
    saved_ = content_;
    EXPECT_EQ(saved.deltas, static_cast<uint64_t>(step - 1));
    if (step < 4) {
      EXPECT_EQ(saved.base_due_reason, "");
    } else {
      EXPECT_THAT(saved.base_due_reason,
                  AllOf(HasSubstr(absl::StrCat(step - 1, " deltas")),
                        HasSubstr("the limit is 3")));
    }
  }
  ASSERT_OK_AND_ASSIGN(const SaveResult base,
                       Save(6, content_, {.bounds = spec.bounds}));
  EXPECT_EQ(base.deltas, 0u);
  EXPECT_EQ(base.base_due_reason, "");
}

TEST_F(ChainTest, BaseIsDueByBytes) {
  content_ = UserContent({1, 2, 3, 4, 5, 6, 7, 8});
  SaveNext(1);
  const uint64_t base_bytes = FindItem(1, "user").stored_bytes;
  SaveSpec spec;
  uint64_t delta_bytes = 0;
  for (int64_t step = 2; step < 9; ++step) {
    rows()[step] = RowOf(step, 1);
    // At the bound it is not due.
    const auto item_bytes = [&] { return FindItem(step, "user").stored_bytes; };
    spec.step = step;
    spec.parent = parent_;
    spec.bounds.max_delta_ratio = 1.5;
    ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                         SaveOver(spec, saved_, content_));
    parent_ = saved.version;
    saved_ = content_;
    delta_bytes += item_bytes();
    ASSERT_OK_AND_ASSIGN(const StepRecord record, store_->FindStep(step));
    EXPECT_EQ(record.base_bytes, base_bytes);
    EXPECT_EQ(record.delta_bytes, delta_bytes);
    if (static_cast<double>(delta_bytes) <=
        1.5 * static_cast<double>(base_bytes)) {
      EXPECT_EQ(saved.base_due_reason, "");
    } else {
      EXPECT_THAT(saved.base_due_reason,
                  AllOf(HasSubstr(absl::StrCat("deltas have ", delta_bytes)),
                        HasSubstr(absl::StrCat("base of ", base_bytes)),
                        HasSubstr("1.5")));
    }
  }
  ASSERT_GT(static_cast<double>(delta_bytes),
            1.5 * static_cast<double>(base_bytes));
}

// The base lives on; of what else its version holds, nothing stays.
TEST_F(ChainTest, KeepLatestKeepsTheRunsAndFreesTheTensors) {
  content_.tables["user"] = BulkTable(1);
  content_.tensors["dense"] = BulkTensor(1);
  SaveNext(1);
  const Version base = *parent_;
  content_.tensors["dense"] = BulkTensor(2);
  rows()[-1] = std::string(8192, 'x');
  ASSERT_OK(KeepLatest(2));
  EXPECT_THAT(ListSteps(), ElementsAre(2));
  const uint64_t before = TableBytes();
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, IsEmpty());
  EXPECT_THAT(swept.quarantined_versions, IsEmpty());
  EXPECT_GE(swept.freed_bytes, kBulk);
  EXPECT_LE(TableBytes() + kBulk, before);
  ExpectRows(2, content_);
  ASSERT_OK_AND_ASSIGN(const Usage usage, store_->GetUsage());
  ASSERT_EQ(usage.steps.size(), 1u);
  EXPECT_EQ(usage.steps[0].borrowed_bytes, [&] {
    const auto record = store_->FindStep(2);
    return record.ok() ? record->base_bytes : 0;
  }());
  ASSERT_EQ(usage.held_versions.size(), 1u);
  EXPECT_EQ(usage.held_versions[0].version, base);
  EXPECT_EQ(usage.held_versions[0].reason, Usage::Held::Reason::kReferenced);
  EXPECT_LT(usage.held_versions[0].stored_bytes, kBulk * 3);
  Reopen();
  ASSERT_OK(store_->Sweep());
  ExpectRows(2, content_);
}

TEST_F(ChainTest, AllGoesWithTheLastDelta) {
  content_.tables["user"] = BulkTable(1);
  SaveNext(1);
  for (int64_t step = 2; step < 5; ++step) {
    rows()[step] = std::string(8192, 'x');
    ASSERT_OK(KeepLatest(step));
    ASSERT_OK(store_->Sweep());
    ExpectRows(step, content_);
  }
  ASSERT_OK_AND_ASSIGN(const Usage usage, store_->GetUsage());
  EXPECT_EQ(usage.held_versions.size(), 3u);
  ASSERT_OK(store_->Delete(4));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_EQ(swept.swept_versions.size(), 4u);
  ASSERT_OK_AND_ASSIGN(const Usage none, store_->GetUsage());
  EXPECT_THAT(none.held_versions, IsEmpty());
  EXPECT_LT(none.disk_bytes, options_.spare_bytes + (uint64_t{4} << 20));
}

TEST_F(ChainTest, TheOldChainGoesWithANewBase) {
  content_ = UserContent({1, 2, 3});
  SaveNext(1);
  std::vector<Version> old = {*parent_};
  for (int64_t step = 2; step < 5; ++step) {
    rows()[step] = RowOf(step, 1);
    ASSERT_OK(KeepLatest(step));
    old.push_back(*parent_);
  }
  ASSERT_OK(Save(5, content_, {.retire = {4}}));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_EQ(swept.swept_versions, old);
  ExpectRows(5, content_, {4});
}

// Each step of a chain uses all before it.
TEST_F(ChainTest, UsageOfAChain) {
  content_ = UserContent({1, 2, 3});
  content_.tables["item"] = UserTable({7});
  SaveNext(1);
  uint64_t older =
      FindItem(1, "user").stored_bytes + FindItem(1, "item").stored_bytes;
  for (int64_t step = 2; step < 5; ++step) {
    rows()[step] = RowOf(step, 1);
    SaveNext(step);
    ASSERT_OK_AND_ASSIGN(const Usage usage, store_->GetUsage());
    const Usage::Step& last = usage.steps.back();
    EXPECT_EQ(last.version, *parent_);
    EXPECT_EQ(last.borrowed_bytes, older);
    EXPECT_EQ(last.exclusive_bytes, FindItem(step, "user").stored_bytes +
                                        FindItem(step, "item").stored_bytes);
    older += last.exclusive_bytes;
  }
}

// An open reader keeps the chain of a step that is gone.
TEST_F(ChainTest, AReaderHoldsTheChain) {
  content_ = UserContent({1, 2, 3});
  SaveNext(1);
  rows()[2] = RowOf(2, 1);
  ASSERT_OK(KeepLatest(2));
  const TableContent table = content_.tables["user"];
  ASSERT_OK_AND_ASSIGN(auto reader, store_->OpenStep(2));
  ASSERT_OK(Save(3, UserContent({9}), {.retire = {2}}));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult held, store_->Sweep());
  EXPECT_THAT(held.swept_versions, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const Rows read, Scan(*reader, "user"));
  EXPECT_TRUE(read == table.rows);
  EXPECT_OK(reader->Verify());
  reader.reset();
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_EQ(swept.swept_versions.size(), 2u);
}

// A save in progress keeps the chain that it goes on from.
TEST_F(ChainTest, ASaveInProgressHoldsTheChain) {
  content_ = UserContent({1, 2, 3});
  SaveNext(1);
  rows()[2] = RowOf(2, 1);
  ASSERT_OK(KeepLatest(2));
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save,
                       store_->Begin({.step = 3, .parent = parent_}));
  ASSERT_OK(store_->Delete(2));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult held, store_->Sweep());
  EXPECT_THAT(held.swept_versions, IsEmpty());
  ASSERT_OK(store_->Abandon(save.version));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_EQ(swept.swept_versions.size(), 3u);
}

TEST_F(ChainTest, QuarantinedStepsStayAndAreNoLatest) {
  content_ = UserContent({1, 2, 3});
  for (int64_t step = 1; step < 4; ++step) {
    rows()[step] = RowOf(step, 1);
    SaveNext(step);
  }
  ASSERT_OK(store_->Quarantine(3));
  ASSERT_OK(store_->Quarantine(1));
  Reopen();
  ASSERT_OK_AND_ASSIGN(const StepRecord latest, store_->Latest());
  EXPECT_EQ(latest.version.step, 2);
  // Flags are not in what a chain is checked by.
  ExpectHistory();
  ASSERT_OK(store_->Pin(1));
  ExpectRows(2, history_[2]);
}

}  // namespace
}  // namespace ckptdb::testing
