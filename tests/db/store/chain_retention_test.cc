// SPDX-License-Identifier: Apache-2.0
// What stays of a chain whose steps are retired, what it takes, and when a new
// base is due.

#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

constexpr uint64_t kBulk = kBulkTensorBytes;

class ChainTest : public DeltaFixture {
 protected:
  SaveResult SaveOne(int64_t step, SaveSpec spec) {
    spec.step = step;
    spec.parent = parent_;
    const SaveResult saved = SaveOver(spec, saved_, content_).value();
    parent_ = saved.version;
    saved_ = content_;
    return saved;
  }
  // Retention keeps it alone.
  void KeepLatest(int64_t step) { SaveOne(step, {.retire = ListSteps()}); }
  uint64_t TableBytes() const {
    uint64_t bytes = 0;
    for (const auto& file : TableFiles())
      bytes += std::filesystem::file_size(file);
    return bytes;
  }
  // Saves a base and four deltas, each with the tensors that `set_tensors`
  // sets, `tensor_bytes` in all, and keeps only the last step.
  void ExpectNoTensorsOfRetiredSteps(
      const std::function<void(int64_t step)>& set_tensors,
      uint64_t tensor_bytes) {
    constexpr uint64_t kRest = uint64_t{2} << 20;
    content_ = UserContent({1, 2, 3, 4, 5, 6, 7, 8});
    for (int64_t step = 1; step < 6; ++step) {
      if (step > 1) rows()[1] = RowOf(1, step);
      set_tensors(step);
      if (step == 1) SaveNext(step);
      if (step > 1) KeepLatest(step);
    }
    ASSERT_OK(store_->Sweep());
    EXPECT_EQ(Record(5).chain.size(), 5U);
    EXPECT_LT(TableBytes(), tensor_bytes + kRest);
    ExpectStep(5, {content_});
  }
};

TEST_F(ChainTest, DeltaRunsKeepNoTensorsOfRetiredSteps) {
  ExpectNoTensorsOfRetiredSteps(
      [&](int64_t step) { content_.tensors["w"] = BulkTensor(step); }, kBulk);
}

// Only the sum of both tensors is large enough for a file of their own.
TEST_F(ChainTest, DeltaRunsKeepNoTensors_WhenTheFirstOneIsSmall) {
  constexpr size_t kBiasBytes = 16;
  ExpectNoTensorsOfRetiredSteps(
      [&](int64_t step) {
        content_.tensors["a.bias"] = BulkTensor(step, kBiasBytes);
        content_.tensors["w"] = BulkTensor(step);
      },
      kBulk);
}

// Each tensor alone would share the table's file.
TEST_F(ChainTest, DeltaRunsKeepNoTensors_WhenTheirSumIsLarge) {
  constexpr int kTensors = 3;
  constexpr size_t kTensorBytes = size_t{2} << 20;
  ExpectNoTensorsOfRetiredSteps(
      [&](int64_t step) {
        for (int i = 0; i < kTensors; ++i) {
          content_.tensors[absl::StrCat("w", i)] =
              BulkTensor(kTensors * step + i, kTensorBytes);
        }
      },
      kTensors * kTensorBytes);
}

TEST_F(ChainTest, BaseIsDueByLength) {
  content_ = UserContent({1, 2, 3, 4, 5, 6, 7, 8});
  SaveNext(1);
  const SaveSpec spec{.bounds = {.max_deltas = 3, .max_delta_ratio = 1e9}};
  for (int64_t step = 2; step < 6; ++step) {
    rows()[1] = RowOf(1, step);
    const SaveResult saved = SaveOne(step, spec);
    EXPECT_EQ(saved.deltas, static_cast<uint64_t>(step - 1));
    if (step < 4) {
      EXPECT_EQ(saved.base_due_reason, "");
    } else {
      EXPECT_THAT(saved.base_due_reason,
                  AllOf(HasSubstr(absl::StrCat(step - 1, " deltas")),
                        HasSubstr("the limit is 3")));
    }
  }
  ASSERT_OK_AND_ASSIGN(const SaveResult base, Save(6, content_, spec));
  EXPECT_EQ(base.deltas, 0u);
  EXPECT_EQ(base.base_due_reason, "");
}

TEST_F(ChainTest, BaseIsDueByBytes) {
  content_ = UserContent({1, 2, 3, 4, 5, 6, 7, 8});
  SaveNext(1);
  const uint64_t base_bytes = FindItem(1, "user").stored_bytes;
  const double most = 1.5 * static_cast<double>(base_bytes);
  double delta_bytes = 0;
  for (int64_t step = 2; step < 9; ++step) {
    rows()[step] = RowOf(step, 1);
    const SaveResult saved =
        SaveOne(step, {.bounds = {.max_delta_ratio = 1.5}});
    delta_bytes += static_cast<double>(FindItem(step, "user").stored_bytes);
    EXPECT_EQ(Record(step).base_bytes, base_bytes);
    EXPECT_EQ(static_cast<double>(Record(step).delta_bytes), delta_bytes);
    // At the bound it is not due.
    if (delta_bytes <= most) {
      EXPECT_EQ(saved.base_due_reason, "");
    } else {
      EXPECT_THAT(saved.base_due_reason,
                  AllOf(HasSubstr(absl::StrCat("deltas have ", delta_bytes)),
                        HasSubstr(absl::StrCat("base of ", base_bytes)),
                        HasSubstr("1.5")));
    }
  }
  ASSERT_GT(delta_bytes, most);
}

// The base lives on; of what else its version holds, nothing stays.
TEST_F(ChainTest, KeepLatestKeepsTheRunsAndFreesTheTensors) {
  content_.tables["user"] = BulkTable(1);
  content_.tensors["dense"] = BulkTensor(1);
  SaveNext(1);
  const Version base = *parent_;
  content_.tensors["dense"] = BulkTensor(2);
  rows()[-1] = std::string(8192, 'x');
  KeepLatest(2);
  EXPECT_THAT(ListSteps(), ElementsAre(2));
  const uint64_t before = TableBytes();
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, IsEmpty());
  EXPECT_THAT(swept.quarantined_versions, IsEmpty());
  EXPECT_GE(swept.freed_bytes, kBulk);
  EXPECT_LE(TableBytes() + kBulk, before);
  ExpectRows(2, content_);
  const Usage usage = UsageNow();
  ASSERT_EQ(usage.steps.size(), 1u);
  EXPECT_EQ(usage.steps[0].borrowed_bytes, Record(2).base_bytes);
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
    KeepLatest(step);
    ASSERT_OK(store_->Sweep());
    ExpectRows(step, content_);
  }
  EXPECT_EQ(UsageNow().held_versions.size(), 3u);
  ASSERT_OK(store_->Delete(4));
  EXPECT_THAT(Swept(), SizeIs(4));
  EXPECT_THAT(UsageNow().held_versions, IsEmpty());
  EXPECT_LT(UsageNow().disk_bytes, options_.spare_bytes + (uint64_t{4} << 20));
}

TEST_F(ChainTest, TheOldChainGoesWithANewBase) {
  content_ = UserContent({1, 2, 3});
  SaveNext(1);
  std::vector<Version> old = {*parent_};
  for (int64_t step = 2; step < 5; ++step) {
    rows()[step] = RowOf(step, 1);
    KeepLatest(step);
    old.push_back(*parent_);
  }
  ASSERT_OK(Save(5, content_, {.retire = {4}}));
  EXPECT_EQ(Swept(), old);
  ExpectRows(5, content_, {4});
}

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

// An open reader keeps the chain of a deleted step, and a save in progress
// keeps its parent's chain.
TEST_F(ChainTest, AReaderOrASaveInProgressHoldsTheChain) {
  for (const bool held_by_reader : {true, false}) {
    content_ = UserContent({1, 2, 3});
    parent_.reset();
    SaveNext(1);
    rows()[2] = RowOf(2, 1);
    KeepLatest(2);
    std::unique_ptr<StepReader> reader;
    Store::Attempt save;
    if (held_by_reader) reader = store_->OpenStep(2).value();
    if (!held_by_reader) save = Begin({.step = 3, .parent = parent_});
    ASSERT_OK(store_->Delete(2));
    EXPECT_THAT(Swept(), IsEmpty());
    if (held_by_reader) {
      EXPECT_TRUE(Scan(*reader, "user").value() == rows());
      EXPECT_OK(reader->Verify());
      reader.reset();
    } else {
      ASSERT_OK(store_->Abandon(save.version));
    }
    EXPECT_THAT(Swept(), SizeIs(held_by_reader ? 2 : 3));
  }
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
  EXPECT_EQ(store_->Latest().value().version.step, 2);
  // Flags are not in what a chain is checked by.
  ExpectHistory();
  ASSERT_OK(store_->Pin(1));
  ExpectRows(2, history_[2]);
}

}  // namespace
}  // namespace ckptdb::testing
