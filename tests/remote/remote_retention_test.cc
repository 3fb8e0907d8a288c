// SPDX-License-Identifier: Apache-2.0
// The remote has a separate retention policy.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "db/state.h"
#include "db/store.h"
#include "remote/remote_store.h"
#include "remote/step_shipper.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/remote_steps.h"
#include "tests/remote/shared_store.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

class RemoteRetentionTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(store_, Store::Open(path())); }
  std::string path() const { return dir_.path() + "/store"; }
  void Save(int64_t step, double auc) {
    RankState state;
    state.AddTensor("w", TensorView::Of(values_.data(), {2}));
    SaveSpec spec;
    spec.step = step;
    spec.metrics = {{"auc", auc}};
    ASSERT_OK(store_->Save(spec, state).status());
  }
  void SaveFive() {
    const std::vector<double> aucs = {0.5, 0.9, 0.6, 0.8, 0.7};
    for (size_t i = 0; i < aucs.size(); ++i) {
      Save(static_cast<int64_t>(i + 1) * 10, aucs[i]);
    }
  }
  CollectResult Collect(const KeepPolicy& keep) {
    CollectOptions options;
    options.retention = RetentionOptions{.keep = keep};
    const auto collected = CollectRemote(&remote_, options);
    EXPECT_OK(collected);
    return collected.value_or(CollectResult());
  }
  std::vector<int64_t> RemoteSteps() { return StepsOfRemote(&remote_); }

  TempDir dir_;
  const std::vector<float> values_ = {1, 2};
  MemoryStore remote_;
  std::unique_ptr<Store> store_;
};

TEST_F(RemoteRetentionTest, KeepsWhatThePolicyKeeps) {
  SaveFive();
  ASSERT_OK(store_->Pin(10));
  ASSERT_OK(PushStore(path(), &remote_).status());
  // The newest and the pinned step stay besides the best two.
  EXPECT_THAT(Collect(BestN("auc", 2)).dropped, ElementsAre(30));
  EXPECT_THAT(RemoteSteps(), ElementsAre(10, 20, 40, 50));
  EXPECT_THAT(Collect(KeepEveryNSteps(20)).dropped, IsEmpty());
  EXPECT_THAT(Collect(LatestN(3)).dropped, IsEmpty());
  // All saves began within an hour.
  EXPECT_THAT(Collect(KeepForNSeconds(3600)).dropped, IsEmpty());
  EXPECT_THAT(Collect(KeepEveryNSeconds(3600)).dropped, ElementsAre(20, 40));
  // The store still has them, and a push does not ship them again.
  ASSERT_OK_AND_ASSIGN(const PushResult pushed, PushStore(path(), &remote_));
  EXPECT_THAT(pushed.shipped, IsEmpty());
  EXPECT_THAT(RemoteSteps(), ElementsAre(10, 50));
}

// The policy sees the metrics as they were shipped last.
TEST_F(RemoteRetentionTest, UsesMetricsThatWereAddedLater) {
  SaveFive();
  ASSERT_OK(PushStore(path(), &remote_).status());
  ASSERT_OK(store_->AddMetrics(30, {{"auc", 0.95}}));
  ASSERT_OK(PushStore(path(), &remote_).status());
  EXPECT_THAT(Collect(BestN("auc", 1)).dropped, ElementsAre(10, 20, 40));
  EXPECT_THAT(RemoteSteps(), ElementsAre(30, 50));
}

TEST_F(RemoteRetentionTest, QuarantinedStepsStay) {
  SaveFive();
  ASSERT_OK(store_->Quarantine(20));
  ASSERT_OK(PushStore(path(), &remote_).status());
  EXPECT_THAT(Collect(LatestN(1)).dropped, ElementsAre(10, 30, 40));
  EXPECT_THAT(RemoteSteps(), ElementsAre(20, 50));
}

TEST_F(RemoteRetentionTest, RefusesBadOptions) {
  CollectOptions options;
  options.retention = RetentionOptions{.keep = LatestN(-1)};
  EXPECT_THAT(CollectRemote(&remote_, options), InvalidArgument("LatestN"));
  options.retention = RetentionOptions{};
  options.keep = 1;
  EXPECT_THAT(CollectRemote(&remote_, options),
              InvalidArgument("keep", "retention"));
  ShipperOptions shipping;
  shipping.retention = RetentionOptions{.keep_ephemeral = -1};
  EXPECT_THAT(StepShipper::Start(path(), "file:///x", shipping),
              InvalidArgument("keep_ephemeral"));
  shipping = ShipperOptions();
  shipping.collect_every = -absl::Seconds(1);
  EXPECT_THAT(StepShipper::Start(path(), "file:///x", shipping),
              InvalidArgument("collect_every"));
}

TEST_F(RemoteRetentionTest, ADamagedVersionObjectIsNamed) {
  SaveFive();
  ASSERT_OK(PushStore(path(), &remote_).status());
  const auto version = remote_.objects().lower_bound("versions/");
  const std::string key = version->first;
  version->second.bytes[100] ^= 1;
  CollectOptions options;
  options.retention = RetentionOptions{.keep = LatestN(1)};
  EXPECT_THAT(CollectRemote(&remote_, options), DataLoss(key));
  remote_.objects().erase(version);
  EXPECT_THAT(CollectRemote(&remote_, options), DataLoss(key));
  EXPECT_EQ(RemoteSteps().size(), 5);
}

// The owner applies the policy after it has shipped, and reads no record twice.
TEST_F(RemoteRetentionTest, TheShipperCollectsAfterAPush) {
  SaveFive();
  ShipperOptions options;
  options.look = absl::Milliseconds(5);
  options.retention = RetentionOptions{.keep = LatestN(2)};
  options.collect_every = absl::ZeroDuration();
  ASSERT_OK_AND_ASSIGN(
      auto shipper,
      internal::StartShipper(path(), std::make_unique<SharedStore>(&remote_),
                             options));
  const auto wait_for = [&](int64_t step, std::vector<int64_t> steps) {
    ASSERT_OK(shipper->WaitShipped(step, absl::Now() + absl::Minutes(2)));
    // The next look begins after the collection.
    ASSERT_OK(shipper->WaitShipped(step, absl::Now() + absl::Minutes(2)));
    EXPECT_EQ(RemoteSteps(), steps);
  };
  wait_for(50, {40, 50});
  const int before = remote_.calls()["get versions"];
  EXPECT_EQ(before, 5);
  Save(60, 0.1);
  wait_for(60, {50, 60});
  EXPECT_EQ(remote_.calls()["get versions"], before + 1);
  EXPECT_OK(shipper->statistics().last_error);
  shipper.reset();
  ASSERT_OK_AND_ASSIGN(const VerifyRemoteResult verified,
                       VerifyRemote(&remote_, {.data = true}));
  EXPECT_THAT(verified.damage, IsEmpty());
  EXPECT_EQ(verified.steps, 2);
}

}  // namespace
}  // namespace ckptdb::testing
