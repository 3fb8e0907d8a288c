// SPDX-License-Identifier: Apache-2.0
// A manager ships what it saves, whatever the service does.
#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "remote/remote_store.h"
#include "remote/step_shipper.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/catalog_steps.h"
#include "tests/manager/manager_fixture.h"
#include "tests/manager/run_ranks.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/remote_steps.h"
#include "tests/remote/shared_store.h"

namespace ckptdb::testing {
namespace {

ShipperOptions QuickShipping() {
  ShipperOptions options;
  options.look = absl::Milliseconds(5);
  options.first_retry = absl::Milliseconds(5);
  options.most_retry = absl::Milliseconds(20);
  return options;
}

internal::StartShipping ShipToMemory(MemoryStore* remote) {
  return internal::ShipWith(
      [remote](const RemoteOptions& /*options*/) {
        return absl::StatusOr<std::unique_ptr<ObjectStore>>(
            std::make_unique<SharedStore>(remote));
      },
      QuickShipping());
}

class ManagerShippingTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    options_.observers.now_micros = nullptr;
    options_.ship.to = ShipToMemory(&remote_);
    options_.observers.on_shipped = [this](const ShipReport& report) {
      const std::lock_guard<std::mutex> lock(mutex_);
      shipped_.insert(shipped_.end(), report.steps.begin(), report.steps.end());
    };
    remote_.set_before([this](absl::string_view, absl::string_view) {
      return down_ ? absl::UnavailableError("the service is down")
                   : absl::OkStatus();
    });
  }
  void TearDown() override {
    ManagerTest::TearDown();
    manager_.reset();  // the thread that ships uses the members below
  }

  static absl::Time Later() { return absl::Now() + absl::Minutes(2); }
  PendingSave SaveStep() {
    model_->Train(manager_->global_step() + 1);
    EXPECT_OK(manager_->Step());
    auto save = manager_->Save();
    EXPECT_OK(save);
    return *std::move(save);
  }
  std::vector<int64_t> RemoteSteps() { return StepsOfRemote(&remote_); }
  // Waits until an attempt to ship `step` has failed.
  void AwaitFailure(int64_t step) {
    const auto has_failed = [&] {
      const auto shipping = manager_->Shipping();
      return shipping->failures > 1 &&
             ::testing::Value(shipping->waiting, Contains(step));
    };
    while (!has_failed()) std::this_thread::yield();
  }
  // Waits for an attempt that begins after this call to fail.
  void AwaitNextFailure() {
    const uint64_t before = manager_->Shipping()->failures;
    while (manager_->Shipping()->failures < before + 2) {
      std::this_thread::yield();
    }
  }

  std::atomic<bool> down_ = false;
  MemoryStore remote_;
  std::vector<int64_t> shipped_;
};

TEST_F(ManagerShippingTest, ShipsEachStep) {
  options_.schedule.permanent = SaveAtSteps({});
  options_.observers.statistics_path = dir_.path() + "/statistics";
  Start();
  for (int64_t step = 1; step <= 3; ++step) {
    ASSERT_OK(SaveStep().WaitShipped(Later()));
    EXPECT_EQ(RemoteSteps().size(), step);
  }
  ASSERT_OK_AND_ASSIGN(const ShippingStatistics shipping, manager_->Shipping());
  EXPECT_THAT(shipping.waiting, IsEmpty());
  EXPECT_EQ(shipping.shipped_steps, 3);
  EXPECT_EQ(shipping.newest_shipped, 3);
  EXPECT_OK(shipping.last_error);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(shipped_, ElementsAre(1, 2, 3));
  const std::vector<std::string> lines = Statistics();
  EXPECT_THAT(lines, Contains(AllOf(StartsWith(R"({"event":"ship",)"),
                                    HasSubstr(R"("steps":[3])"))));
  EXPECT_THAT(lines, Contains(AllOf(StartsWith(R"({"event":"save",)"),
                                    HasSubstr(R"("ship_status":"OK")"))));
}

// The store reports retries as an s3:// store does, before its deadline.
TEST_F(ManagerShippingTest, ShowsWhyAnAttemptTakesLong) {
  RemoteOptions hooked;
  options_.ship.to = internal::ShipWith(
      [&](const RemoteOptions& options) {
        hooked = options;
        return absl::StatusOr<std::unique_ptr<ObjectStore>>(
            std::make_unique<SharedStore>(&remote_));
      },
      QuickShipping());
  options_.schedule.permanent = SaveAtSteps({});
  options_.ship.close_wait = absl::ZeroDuration();
  std::atomic<bool> answers = false;
  remote_.set_before([&](absl::string_view, absl::string_view) {
    while (!answers && !hooked.cancelled()) std::this_thread::yield();
    return absl::OkStatus();
  });
  Start();
  hooked.on_retry(absl::UnavailableError("no route"));
  const PendingSave save = SaveStep();
  ASSERT_OK(save.WaitCommitted().status());
  EXPECT_THAT(save.WaitShipped(absl::Now() + absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("the last error: no route")));
  ASSERT_OK_AND_ASSIGN(ShippingStatistics shipping, manager_->Shipping());
  EXPECT_THAT(shipping.last_error, Unavailable("no route"));
  EXPECT_EQ(shipping.failures, 0);
  answers = true;
  ASSERT_OK(save.WaitShipped(Later()));
  ASSERT_OK_AND_ASSIGN(shipping, manager_->Shipping());
  EXPECT_OK(shipping.last_error);
  ASSERT_OK(manager_->Close());
}

// The last step was saved just before.
TEST_F(ManagerShippingTest, CloseWaitsForTheNewestStep) {
  options_.observers.warn_waiting = absl::InfiniteDuration();
  Start();
  TrainAndClose(4);
  EXPECT_THAT(RemoteSteps(), ElementsAre(2, 4));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ManagerShippingTest, SavesGoOnWhileTheServiceIsDown) {
  options_.ship.close_wait = absl::ZeroDuration();
  down_ = true;
  Start();
  TrainAndWait(4);
  const PendingSave save = SaveStep();
  ASSERT_OK(save.WaitCommitted().status());
  EXPECT_THAT(save.WaitShipped(absl::Now() + absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("5")));
  AwaitFailure(2);
  TrainAndWait(8);
  EXPECT_THAT(warnings_, Contains(HasSubstr("the service is down")).Times(1));
  EXPECT_THAT(reports_.back().shipping->waiting, Contains(2));
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(save.WaitShipped(Later()),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("stopped")));
  EXPECT_THAT(warnings_, Contains(HasSubstr("was closed before step 8")));
  EXPECT_THAT(remote_.objects(), IsEmpty());
  // The next manager ships them all.
  down_ = false;
  options_.ship.close_wait = absl::Minutes(2);
  Start();
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(RemoteSteps(), ElementsAre(2, 4, 5, 6, 8));
}

// The remote is another store's, so the next manager ships nothing, either.
TEST_F(ManagerShippingTest, ARefusalNamesRemediesThatWork) {
  Start();
  TrainAndClose(2);
  options_.path += "-other";
  options_.ship.close_wait = absl::Milliseconds(300);
  Start();
  TrainAndWait(2);
  AwaitFailure(2);
  EXPECT_THAT(manager_->Shipping()->waiting, ElementsAre(2));
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(warnings_,
              Contains(AllOf(HasSubstr("was closed before step 2"),
                             HasSubstr("ship each store to its own URL"),
                             Not(HasSubstr("the next manager")))));
}

// Training goes back to an older step, in another process.
TEST_F(ManagerShippingTest, ShipsAfterAnOlderStepWasRestored) {
  options_.schedule.permanent = SaveEveryNSteps(1);
  options_.ship.close_wait = absl::Minutes(2);
  Start();
  TrainAndClose(6);
  for (const int64_t step : {4, 2, 3}) {
    Start();
    ASSERT_OK(manager_->Restore({.step = step}));
    TrainAndClose(step + 1);
    EXPECT_THAT(warnings_, Not(Contains(HasSubstr("shipped"))));
    ASSERT_OK_AND_ASSIGN(const auto catalog, internal::NewestCatalog(&remote_));
    EXPECT_EQ(internal::NewestStep(*catalog)->version.step, step + 1);
  }
}

TEST_F(ManagerShippingTest, WarnsOfTheLagOnceUntilItIsWell) {
  options_.ship.warn_lag = absl::Nanoseconds(1);
  options_.ship.close_wait = absl::ZeroDuration();
  down_ = true;
  Start();
  TrainAndWait(2);
  AwaitFailure(2);
  TrainAndWait(6);
  EXPECT_THAT(warnings_, Contains(AllOf(HasSubstr("wait to be shipped"),
                                        HasSubstr("ship.warn_lag is 1ns")))
                             .Times(1));
}

TEST_F(ManagerShippingTest, CloseWarnsOfTheStepThatItWaitsFor) {
  options_.observers.warn_waiting = absl::ZeroDuration();
  options_.ship.close_wait = absl::Milliseconds(300);
  down_ = true;
  Start();
  TrainAndWait(2);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(warnings_,
              Contains(AllOf(HasSubstr("waits for step 2 to be shipped"),
                             HasSubstr("close_wait, 300ms")))
                  .Times(1));
  // A warning of the request that closing waits for may follow.
  EXPECT_THAT(warnings_, Contains(HasSubstr("was closed before step 2")));
}

TEST_F(ManagerShippingTest, CloseCanBeCancelled) {
  std::atomic<bool> cancelled = false;
  options_.observers.cancelled = [&] { return cancelled.load(); };
  options_.ship.close_wait = absl::InfiniteDuration();
  down_ = true;
  Start();
  TrainAndWait(2);
  cancelled = true;
  EXPECT_THAT(manager_->Close(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("shipped")));
  EXPECT_EQ(manager_->store(), nullptr);
}

// A removed step that only this disk has is lost with the disk.
TEST_F(ManagerShippingTest, RetentionLeavesTheNewestUnshippedSteps) {
  options_.retention.keep = LatestN(1);
  options_.ship.keep_unshipped = 2;
  down_ = true;
  Start();
  TrainAndWait(10);
  EXPECT_THAT(Steps(), ElementsAre(6, 8, 10));
  EXPECT_EQ(WhyKept(8), "kept: it is not shipped yet");
  down_ = false;
  ASSERT_OK(SaveStep().WaitShipped(Later()));
  TrainAndWait(12);
  EXPECT_THAT(Steps(), Not(Contains(8)));
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(RemoteSteps(), AllOf(Contains(8), Contains(10), Contains(12)));
}

TEST_F(ManagerShippingTest, RetentionMayIgnoreShipping) {
  options_.retention.keep = LatestN(1);
  options_.ship.keep_unshipped = 0;
  options_.ship.close_wait = absl::ZeroDuration();
  down_ = true;
  Start();
  TrainAndWait(6);
  EXPECT_THAT(Steps(), ElementsAre(6));
}

TEST_F(ManagerShippingTest, WaitShippedReportsRemovedSteps) {
  options_.schedule.permanent = SaveAtSteps({});
  down_ = true;
  Start();
  const PendingSave removed = SaveStep();
  ASSERT_OK(SaveStep().WaitCommitted());
  ASSERT_OK(manager_->Delete(1));
  AwaitNextFailure();
  down_ = false;
  EXPECT_THAT(removed.WaitShipped(Later()), NotFound("step 1 was removed"));
}

TEST_F(ManagerShippingTest, WaitShippedReturnsTheErrorOfTheSave) {
  Start();
  FailSaves();
  const PendingSave save = SaveStep();
  EXPECT_THAT(save.WaitShipped(Later()), Unavailable("no rows today"));
  FailSaves(false);
}

TEST_F(ManagerShippingTest, ManagersThatShipNothingSaySo) {
  options_.ship.to = nullptr;
  Start();
  EXPECT_THAT(SaveStep().WaitShipped(Later()),
              FailedPrecondition("step 1", "only the owner", "ship.to"));
  EXPECT_THAT(manager_->Shipping(), FailedPrecondition("ship.to"));
}

TEST_F(ManagerShippingTest, AnExceptionOfOnShippedIsReturnedByALaterCall) {
  options_.observers.on_shipped = [](const ShipReport&) {
    throw std::runtime_error("no disk for the log");
  };
  Start();
  ASSERT_OK(SaveStep().WaitShipped(Later()));
  absl::Status status;
  while (status.ok()) status = TrainStep().status();
  EXPECT_THAT(status, Internal("on_shipped", "no disk for the log"));
}

// Close would wait for the thread that calls on_shipped.
TEST_F(ManagerShippingTest, OnShippedCannotCallTheManager) {
  std::vector<absl::Status> refused;
  std::promise<void> called;
  options_.observers.on_shipped = [&](const ShipReport&) {
    if (!refused.empty()) return;
    refused = {manager_->WaitUntilFinished(), manager_->Save().status(),
               manager_->Close()};
    // The calls that any thread may make.
    EXPECT_OK(manager_->Shipping());
    EXPECT_OK(manager_->Explain(1));
    called.set_value();
  };
  Start();
  const PendingSave save = SaveStep();
  called.get_future().wait();
  EXPECT_THAT(refused, SizeIs(3));
  EXPECT_THAT(refused, Each(FailedPrecondition("must not call the manager")));
  EXPECT_OK(manager_->Close());
}

TEST_F(ManagerShippingTest, OnlyTheOwnerShips) {
  ManagerOptions options = options_;
  options.store.on_point = nullptr;
  RunModels(2, options,
            [&](uint32_t rank, CheckpointManager* manager, TestModel* model) {
              model->Train(1);
              ASSERT_OK(manager->Step());
              ASSERT_OK_AND_ASSIGN(const PendingSave save, manager->Save());
              const absl::Status shipped = save.WaitShipped(Later());
              if (rank == 0) {
                EXPECT_OK(shipped);
                EXPECT_OK(manager->Shipping());
              } else {
                EXPECT_THAT(shipped,
                            FailedPrecondition("only the owner, rank 0"));
                EXPECT_THAT(manager->Shipping(), FailedPrecondition("rank 1"));
              }
              EXPECT_OK(manager->Close());
            });
  EXPECT_THAT(RemoteSteps(), ElementsAre(1));
}

TEST_F(ManagerShippingTest, ReadOnlyManagersShipNothing) {
  Start();
  TrainAndClose(2);
  ManagerOptions options = options_;
  options.read_only = true;
  TestModel copy;
  ASSERT_OK_AND_ASSIGN(const auto follower,
                       CheckpointManager::Open(options, &copy.state));
  EXPECT_THAT(follower->Shipping(), FailedPrecondition("ship.to"));
}

TEST_F(ManagerShippingTest, OpenRefusesBadOptions) {
  model_ = std::make_unique<TestModel>();
  const auto open = [&](const ManagerOptions& options) {
    return CheckpointManager::Open(options, &model_->state).status();
  };
  ManagerOptions options = options_;
  options.ship.to = ShipTo("ftp://x");
  EXPECT_THAT(open(options), InvalidArgument("ship.to", "file:///"));
  options = options_;
  options.ship.warn_lag = absl::ZeroDuration();
  EXPECT_THAT(open(options), InvalidArgument("warn_lag"));
  options = options_;
  options.ship.keep_unshipped = -1;
  EXPECT_THAT(open(options), InvalidArgument("keep_unshipped"));
  options = options_;
  options.ship.close_wait = -absl::Seconds(1);
  EXPECT_THAT(open(options), InvalidArgument("close_wait"));
}

TEST_F(ManagerShippingTest, ShipsToAUrl) {
  const std::string url = "file://" + dir_.path() + "/remote";
  options_.ship.to = ShipTo(url, QuickShipping());
  Start();
  TrainAndClose(4);
  ASSERT_OK_AND_ASSIGN(const auto remote, OpenObjectStore(url));
  ASSERT_OK_AND_ASSIGN(const RemoteContent content, ListRemote(remote.get()));
  EXPECT_EQ(content.latest_step, 4);
}

}  // namespace
}  // namespace ckptdb::testing
