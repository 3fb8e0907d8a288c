// SPDX-License-Identifier: Apache-2.0
// Calls of the owner that read records beside deletions and sweeps: what they
// read stays while they do.

#include "db/options.h"
#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

class HeldReadsTest : public DeltaFixture {
 protected:
  void OpenWithClock() {
    options_.environment =
        EnvironmentOf(internal::Environment::Default()->file_system(), [this] {
          if (on_clock_) std::exchange(on_clock_, nullptr)();
          return internal::Environment::Default()->NowMicros();
        });
    Reopen();
  }
  void DeleteAll() {
    DeleteSteps(ListSteps());
    ASSERT_OK(store_->Sweep());
  }
  ~HeldReadsTest() override { store_.reset(); }
  std::function<void()> on_clock_;
};

TEST_F(HeldReadsTest, UsageBesideADeletionIsThatOfBefore) {
  OpenWithClock();
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK(Save(2, BulkContent(1)));  // refers to the first one's tensor
  ASSERT_OK_AND_ASSIGN(const Usage before, store_->GetUsage());
  on_clock_ = [this] { DeleteAll(); };
  ASSERT_OK_AND_ASSIGN(const Usage usage, store_->GetUsage());
  ASSERT_THAT(usage.steps, SizeIs(2));
  EXPECT_EQ(usage.steps[1].borrowed_bytes, before.steps[1].borrowed_bytes);
  EXPECT_THAT(store_->Steps(), IsEmpty());
  // What was kept for it is not kept for ever.
  EXPECT_THAT(store_->Sweep().value().swept_versions, SizeIs(2));
}

TEST_F(HeldReadsTest, UsageBesideFoldsAndDeletions) {
  constexpr int kCalls = 60;
  options_.background_sweep = true;
  Reopen();
  std::atomic<bool> done = false;
  std::thread trainer([&] {
    content_ = UserContent({1, 2, 3});
    content_.tensors["w"] = BulkTensor(1);
    for (int64_t step = 0; !done; ++step) {
      if (step % 4 == 0) parent_ = std::nullopt;
      rows()[step] = RowOf(step, 1);
      SaveNext(step);
      if (step % 4 == 3) {
        EXPECT_OK(store_->Fold(step));
        parent_ = std::nullopt;
      }
      if (step >= 4) {
        EXPECT_OK(store_->Delete(step - 4));
      }
    }
  });
  for (int i = 0; i < kCalls; ++i) EXPECT_OK(store_->GetUsage());
  done = true;
  trainer.join();
}

// A sweep that comes while something is held leaves it; the end of the hold
// asks for another.
TEST_F(HeldReadsTest, WhatWasHeldIsSweptAfterwards) {
  PointCount sweeps(point::kSweepDone);
  options_.background_sweep = true;
  options_.on_point = sweeps.hook();
  Reopen();
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK_AND_ASSIGN(auto step, store_->OpenStep(1));
  ASSERT_OK(store_->Delete(1));
  EXPECT_THAT(Swept(), IsEmpty());
  ExpectHolds(*step, {BulkContent(1)});
  step.reset();
  for (int count = 1; !UsageNow().held_versions.empty(); ++count) {
    ASSERT_TRUE(sweeps.WaitFor(count))
        << "the step that was deleted is still there";
  }
  store_.reset();
}

TEST_F(HeldReadsTest, FoldOfAStepThatIsDeletedMeanwhileIsAborted) {
  content_ = UserContent({1, 2, 3});
  SaveNext(1);
  rows()[2] = RowOf(2, 1);
  SaveNext(2);
  ReadOptions fold;
  bool deleted = false;
  fold.cancelled = [&] {
    if (std::exchange(deleted, true)) return false;
    EXPECT_OK(store_->Delete(2));
    EXPECT_OK(store_->Sweep());
    return false;
  };
  EXPECT_THAT(store_->Fold(2, fold), Aborted("was deleted or overwritten"));
  EXPECT_THAT(store_->Fold(2), NotFound("no step 2"));
  ExpectRows(1, history_[1]);
}

}  // namespace
}  // namespace ckptdb::testing
