// SPDX-License-Identifier: Apache-2.0
// Power is lost after every change to the disk while a reader posts and the
// owner takes in: what was acknowledged comes in, and nothing older comes back.

#include "absl/strings/match.h"
#include "tests/db/sim_store.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

constexpr int64_t kPostedStep = 10;

struct PostedStore {
  PostedStore() {
    EXPECT_OK(sim.Open());
    EXPECT_OK(sim.Save({.step = kPostedStep}, InlineStep(1)));
  }
  std::unique_ptr<Reader> OpenReader() {
    StoreOptions options{.environment = sim.environment()};
    auto reader = Reader::Open(SimStore::kPath, options);
    EXPECT_OK(reader.status());
    return reader.ok() ? *std::move(reader) : nullptr;
  }
  // Loses power after each operation in [first, last], and calls `check` with
  // the operation, the store that is opened then, and its step.
  void LosePower(size_t first, size_t last,
                 const std::function<void(size_t, Store*, const StepRecord&)>&
                     check) const {
    for (size_t k = first + FirstCase(Stride()); k <= last; k += Stride()) {
      for (const PowerLoss variant : kAllPowerLosses) {
        SCOPED_TRACE(std::string(PowerLossName(variant)) + " after operation " +
                     std::to_string(k) +
                     ", next is: " + files->OperationText(k));
        SimStore after(files->CrashAfter(k, variant));
        ASSERT_OK(after.Open());
        ASSERT_OK_AND_ASSIGN(const StepRecord step,
                             after.store()->FindStep(kPostedStep));
        check(k, after.store(), step);
      }
    }
  }
  std::shared_ptr<SimFileSystem> files = std::make_shared<SimFileSystem>();
  SimStore sim{files};
};

TEST(PostsPowerLossTest, WhatWasAcknowledgedComesIn) {
  PostedStore posted_store;
  SimStore& sim = posted_store.sim;
  const auto& files = posted_store.files;
  auto reader = posted_store.OpenReader();
  ASSERT_NE(reader, nullptr);
  const size_t first = files->operations();
  // For each post, the file operation after which it was acknowledged, and its
  // value.
  std::vector<std::pair<size_t, double>> posted;
  double auc = 0;
  const auto post = [&] {
    auc += 1;
    ASSERT_OK(reader->PostMetrics(kPostedStep, {{"auc", auc}}));
    posted.emplace_back(files->operations(), auc);
  };
  post();
  ASSERT_OK(reader->RequestPin(kPostedStep));
  const size_t pinned = files->operations();
  post();
  ASSERT_OK(sim.store()->TakePosts());
  post();
  ASSERT_OK(sim.store()->TakePosts());
  reader.reset();
  const size_t last = files->operations();
  sim.Close();
  EXPECT_GT(last - first, 20U);
  posted_store.LosePower(
      first, last, [&](size_t k, Store* store, const StepRecord& step) {
        double least = 0;
        for (const auto& [operation, value] : posted) {
          if (operation <= k) least = value;
        }
        const auto metric = step.metrics.find("auc");
        EXPECT_GE(metric == step.metrics.end() ? 0 : metric->second, least);
        if (k >= pinned) {
          EXPECT_TRUE(step.pinned);
        }
        for (const Usage::SkippedEntry& entry : store->skipped_posts())
          ADD_FAILURE() << entry.path << ": " << entry.reason;
      });
}

// Posts that are removed at once come back in any combination.
TEST(PostsPowerLossTest, OlderValuesDoNotComeBack) {
  PostedStore posted_store;
  SimStore& sim = posted_store.sim;
  const auto& files = posted_store.files;
  auto reader = posted_store.OpenReader();
  ASSERT_NE(reader, nullptr);
  ASSERT_OK(reader->RequestPin(kPostedStep));
  ASSERT_OK(reader->PostMetrics(kPostedStep, {{"a", 1}, {"b", 1}}));
  ASSERT_OK(reader->PostMetrics(kPostedStep, {{"b", 2}, {"c", 2}}));
  ASSERT_OK(reader->PostMetrics(kPostedStep, {{"c", 3}, {"a", 3}}));
  ASSERT_OK(reader->RequestUnpin(kPostedStep));
  reader.reset();
  const size_t first = files->operations();
  ASSERT_OK(sim.store()->TakePosts());
  const size_t last = files->operations();
  ASSERT_OK_AND_ASSIGN(const StepRecord taken,
                       sim.store()->FindStep(kPostedStep));
  EXPECT_EQ(taken.metrics.at("a"), 3);
  EXPECT_EQ(taken.metrics.at("b"), 2);
  EXPECT_EQ(taken.metrics.at("c"), 3);
  EXPECT_FALSE(taken.pinned);
  sim.Close();
  posted_store.LosePower(first, last,
                         [&](size_t, Store*, const StepRecord& step) {
                           EXPECT_EQ(step.metrics, taken.metrics);
                           EXPECT_FALSE(step.pinned);
                         });
}

// Each sync takes milliseconds on most disks, during which a save waits.
TEST(PostsPowerLossTest, ManyPostsTakeAsManySyncsAsTwo) {
  const auto syncs_of = [](int posts) {
    PostedStore store;
    const auto& files = store.files;
    auto reader = store.OpenReader();
    for (int i = 0; i < posts; ++i)
      EXPECT_OK(reader->PostMetrics(kPostedStep, {{"auc", i}}));
    reader.reset();
    const size_t first = files->operations();
    EXPECT_OK(store.sim.store()->TakePosts());
    int syncs = 0;
    for (size_t k = first; k < files->operations(); ++k) {
      if (absl::StrContains(files->OperationText(k), "sync")) ++syncs;
    }
    return syncs;
  };
  const int two = syncs_of(2);
  EXPECT_GT(two, 2);
  EXPECT_EQ(syncs_of(100), two);
}

}  // namespace
}  // namespace ckptdb::testing
