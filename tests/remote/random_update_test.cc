// SPDX-License-Identifier: Apache-2.0
// A trainer saves, folds, overwrites, removes and ships steps in random order;
// collections run in the remote; a copy is updated with random options, and
// updates are killed at random points. The copy contains only complete steps of
// the trainer's history, and loses only those that it removes itself.
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/internal/crash_points.h"
#include "db/reader.h"
#include "db/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/layout/object_keys.h"
#include "remote/remote_store.h"
#include "schema/records/records.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/row_trainer.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

class RandomUpdates {
 public:
  explicit RandomUpdates(uint64_t seed) : random_(seed) {}

  void Run(int rounds) {
    StoreOptions options;
    options.background_sweep = false;
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(path(), options));
    trainer_.emplace(store_.get());
    Save();
    for (int i = 0; i < rounds && !::testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(absl::StrCat("round ", i));
      for (uint64_t n = Below(4); n > 0; --n) ChangeStore();
      if (OneIn(4)) Collect();
      Push();
      Update();
    }
    Update({.all = true, .update = true});
    ExpectGoesOn();
  }
  int updates() const { return updates_; }
  int interrupted() const { return interrupted_; }

 private:
  std::string path() const { return dir_.path() + "/store"; }
  std::string copy() const { return dir_.path() + "/copy"; }
  uint64_t Below(uint64_t n) { return random_() % n; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

  void NoteVersions() {
    for (const StepRecord& record : store_->Steps()) {
      history_.emplace(record.version, LineageDigest(record));
    }
  }
  void Save() {
    if (last_ < 0 || OneIn(5)) {
      ASSERT_OK(trainer_->SaveFull(++last_ + 1));
    } else {
      const int64_t changed = OneIn(2) ? RowTrainer::kChanged : 5;
      ASSERT_OK(trainer_->SaveDelta(++last_ + 1, changed));
    }
    NoteVersions();
  }
  int64_t RandomStep() {
    const std::vector<StepRecord> steps = store_->Steps();
    return steps[Below(steps.size())].version.step;
  }
  void ChangeStore() {
    const uint64_t what = Below(10);
    if (what == 0) {
      ASSERT_OK(store_->Fold(last_ + 1).status());
    } else if (what == 1) {
      ASSERT_OK(trainer_->Overwrite(last_ + 1));
    } else if (what == 2) {
      const int64_t step = RandomStep();
      // Without the step shipped last, a push after a rollback takes over.
      if (step == last_ + 1 || step == shipped_) return;
      ASSERT_OK(store_->Delete(step));
    } else if (what == 3) {
      ASSERT_OK(store_->AddMetrics(RandomStep(), {{"auc", 0.5}}));
    } else if (what == 4) {
      // A rollback. Later steps stay, on another branch.
      ASSERT_OK(trainer_->Restore(RandomStep()));
      Save();
    } else {
      Save();
    }
    NoteVersions();
    if (!OneIn(3)) return;
    ASSERT_OK(store_->Sweep().status());
  }
  void Push() {
    ASSERT_OK(PushStore(path(), &remote_));
    shipped_ = store_->Latest()->version.step;
    remote_.Advance(absl::Hours(1));
  }
  void Collect() {
    const auto collected = CollectRemote(
        &remote_, {.keep = 1 + Below(4), .grace = absl::Hours(Below(5))});
    ASSERT_TRUE(collected.ok() || absl::IsNotFound(collected.status()))
        << collected.status();
  }

  FetchOptions RandomOptions() {
    FetchOptions options;
    options.update = true;
    options.all = OneIn(3);
    if (OneIn(2)) {
      options.keep = 1 + Below(4);
    } else if (!options.all && OneIn(4)) {
      const auto content = ListRemote(&remote_);
      EXPECT_OK(content);
      options.step = content->steps[Below(content->steps.size())].version.step;
    }
    return options;
  }
  void Update() {
    FetchOptions options = RandomOptions();
    if (OneIn(3)) {
      const absl::string_view crash = kFetchPoints[Below(kFetchPoints.size())];
      options.on_point = [crash](absl::string_view point) {
        if (point == crash) throw std::runtime_error("killed");
      };
    }
    Update(options);
  }
  void Update(const FetchOptions& options) {
    const std::map<int64_t, Version> before = LocalSteps();
    ExpectNoDataOf(before);
    const auto fetched = FetchStore(&remote_, copy(), options);
    remote_.set_before(nullptr);
    ++updates_;
    if (!fetched.ok()) {
      ASSERT_THAT(fetched, Internal("killed"));
      ++interrupted_;
    }
    ExpectSound();
    if (!options.keep.has_value()) ExpectNothingLost(before);
    if (!fetched.ok() || !options.all || options.keep.has_value()) return;
    ExpectHasAllSteps();
  }
  std::map<int64_t, Version> LocalSteps() const {
    std::map<int64_t, Version> steps;
    const auto reader = Reader::Open(copy());
    if (!reader.ok()) return steps;
    for (const StepRecord& record : (*reader)->Steps()) {
      steps[record.version.step] = record.version;
    }
    return steps;
  }
  // Data of a step that the copy has is not downloaded.
  void ExpectNoDataOf(const std::map<int64_t, Version>& steps) {
    std::set<Version> versions;
    for (const auto& [step, version] : steps) versions.insert(version);
    remote_.set_before(
        [versions](absl::string_view call, absl::string_view key) {
          if (call == "get" && absl::StartsWith(key, internal::kDataPrefix)) {
            const auto name = internal::ParseDataObjectKey(key);
            EXPECT_FALSE(versions.contains(name->version)) << key;
          }
          return absl::OkStatus();
        });
  }
  void ExpectSound() {
    const auto reader = Reader::Open(copy());
    if (absl::IsNotFound(reader.status())) return;
    ASSERT_OK(reader);
    for (const StepRecord& record : (*reader)->Steps()) {
      const auto known = history_.find(record.version);
      ASSERT_NE(known, history_.end()) << ToString(record.version);
      EXPECT_EQ(known->second, LineageDigest(record));
      ASSERT_OK_AND_ASSIGN(const auto step,
                           (*reader)->OpenStep(record.version.step));
      EXPECT_OK(step->Verify()) << ToString(record.version);
    }
  }
  void ExpectNothingLost(const std::map<int64_t, Version>& before) {
    const std::map<int64_t, Version> now = LocalSteps();
    for (const auto& [step, version] : before) {
      ASSERT_TRUE(now.contains(step)) << step;
      EXPECT_GE(now.at(step).attempt, version.attempt);
    }
  }
  void ExpectHasAllSteps() {
    const std::map<int64_t, Version> now = LocalSteps();
    ASSERT_OK_AND_ASSIGN(const RemoteContent content, ListRemote(&remote_));
    for (const RemoteStep& step : content.steps) {
      ASSERT_TRUE(now.contains(step.version.step)) << step.version.step;
      EXPECT_EQ(now.at(step.version.step), step.version);
    }
  }
  // A trainer continues the copy, and ships to the same remote.
  void ExpectGoesOn() {
    ASSERT_OK_AND_ASSIGN(const auto local, Store::Open(copy()));
    ASSERT_OK_AND_ASSIGN(const StepRecord latest, local->Latest());
    RowTrainer trainer(local.get());
    ASSERT_OK(trainer.Restore(latest.version.step));
    ASSERT_OK(trainer.SaveDelta(1'000'000));
    ASSERT_OK_AND_ASSIGN(const StepRecord next, local->FindStep(1'000'000));
    for (const auto& [version, lineage] : history_) {
      EXPECT_LT(version.attempt, next.version.attempt);
    }
    ASSERT_OK_AND_ASSIGN(const auto step, local->OpenStep(1'000'000));
    EXPECT_OK(step->Verify());
    EXPECT_OK(PushStore(copy(), &remote_));
  }

  std::mt19937_64 random_;
  TempDir dir_;
  MemoryStore remote_;
  std::unique_ptr<Store> store_;
  std::optional<RowTrainer> trainer_;
  int64_t last_ = -1;
  int64_t shipped_ = -1;
  std::map<Version, uint64_t> history_;
  int updates_ = 0;
  int interrupted_ = 0;
};

// CKPTDB_SEED repeats a run.
TEST(RandomUpdateTest, CopiesHaveCompleteStepsAndLoseNone) {
  constexpr int kRuns = 6;
  constexpr int kTurns = 12;
  int updates = 0;
  int interrupted = 0;
  for (int i = 0; i < kRuns && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("run ", i));
    RandomUpdates run(TestSeed() + i * uint64_t{1'000'003});
    run.Run(kTurns);
    updates += run.updates();
    interrupted += run.interrupted();
  }
  EXPECT_GT(updates, kRuns);
  EXPECT_GT(interrupted, 0);
}

}  // namespace
}  // namespace ckptdb::testing
