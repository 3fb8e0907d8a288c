// SPDX-License-Identifier: Apache-2.0
// Steps are shipped while a trainer saves, whatever the service does.
#include "remote/step_shipper.h"

#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "db/state.h"
#include "db/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "manager/policies.h"
#include "remote/remote_store.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/shared_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

class StepShipperTest : public ::testing::Test {
 protected:
  std::string path() const { return dir_.path() + "/store"; }
  void OpenStore() { ASSERT_OK_AND_ASSIGN(store_, Store::Open(path())); }
  void Save(int64_t step, bool overwrite = false) {
    RankState state;
    state.AddTensor("w", TensorView::Of(values_.data(), {2}));
    ASSERT_OK(
        store_->Save({.step = step, .overwrite = overwrite}, state).status());
  }
  void Start(ShipperOptions options = {}) {
    options.look = absl::Milliseconds(5);
    options.first_retry = absl::Milliseconds(5);
    options.most_retry = absl::Milliseconds(20);
    ASSERT_OK_AND_ASSIGN(
        shipper_,
        internal::StartShipper(path(), std::make_unique<SharedStore>(&remote_),
                               options));
  }
  absl::Status Wait(int64_t step) {
    return shipper_->WaitShipped(step, absl::Now() + absl::Minutes(2));
  }
  size_t RemoteSteps() {
    const auto listed = ListRemote(&remote_);
    return listed.ok() ? listed->steps.size() : 0;
  }

  TempDir dir_;
  const std::vector<float> values_ = {1, 2};
  MemoryStore remote_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<StepShipper> shipper_;
};

TEST_F(StepShipperTest, ShipsEachStepAsTheOneOwner) {
  OpenStore();
  std::atomic<int> shipped = 0;
  ShipperOptions options;
  options.on_shipped = [&](const PushResult& pushed) {
    shipped += static_cast<int>(pushed.shipped.size());
  };
  Start(options);
  for (int64_t step = 1; step <= 5; ++step) {
    Save(step);
    ASSERT_OK(Wait(step));
    EXPECT_EQ(RemoteSteps(), step);
  }
  shipper_.reset();
  EXPECT_EQ(shipped, 5);
  ASSERT_OK_AND_ASSIGN(const RemoteContent content, ListRemote(&remote_));
  EXPECT_EQ(content.epoch, 1);
  // Besides the objects of steps: the format, the first catalog and the probe.
  EXPECT_EQ(remote_.calls()["put versions"], 5);
  EXPECT_EQ(remote_.calls()["put catalog"], 6);
}

TEST_F(StepShipperTest, WaitsForTheStore) {
  Start();
  OpenStore();
  Save(1);
  ASSERT_OK(Wait(1));
  EXPECT_EQ(shipper_->statistics().newest_shipped, 1);
}

TEST_F(StepShipperTest, WaitsForAStepThatIsOverwritten) {
  OpenStore();
  Start();
  Save(1);
  ASSERT_OK(Wait(1));
  Save(1, /*overwrite=*/true);
  ASSERT_OK(Wait(1));
  ASSERT_OK_AND_ASSIGN(const RemoteContent content, ListRemote(&remote_));
  ASSERT_OK_AND_ASSIGN(const StepRecord record, store_->FindStep(1));
  EXPECT_EQ(content.steps.at(0).version, record.version);
}

// Saves go on while the service is down, and all steps are shipped afterwards.
TEST_F(StepShipperTest, OutlastsAServiceThatIsDown) {
  std::atomic<bool> down = true;
  remote_.set_before([&](absl::string_view, absl::string_view) {
    return down ? absl::UnavailableError("down") : absl::OkStatus();
  });
  OpenStore();
  Start();
  for (int64_t step = 1; step <= 3; ++step) Save(step);
  // Until an attempt to ship the first step has failed.
  while (shipper_->statistics().failures == 0 ||
         shipper_->statistics().waiting.empty()) {
    std::this_thread::yield();
  }
  EXPECT_THAT(shipper_->WaitShipped(3, absl::Now() + absl::Milliseconds(200)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("down")));
  const StepShipper::Statistics statistics = shipper_->statistics();
  EXPECT_THAT(statistics.last_error, Unavailable("down"));
  EXPECT_GT(statistics.failures, 0);
  EXPECT_THAT(statistics.waiting, Contains(1));
  EXPECT_GT(statistics.lag, absl::ZeroDuration());
  down = false;
  ASSERT_OK(Wait(3));
  EXPECT_EQ(RemoteSteps(), 3);
  EXPECT_THAT(shipper_->statistics().waiting, IsEmpty());
}

// A wait may end before on_shipped is called, which precedes the end of a look.
TEST_F(StepShipperTest, AShippedStepClearsTheFailures) {
  std::atomic<bool> down = true;
  remote_.set_before([&](absl::string_view, absl::string_view) {
    return down ? absl::UnavailableError("down") : absl::OkStatus();
  });
  OpenStore();
  StepShipper::Statistics noted;
  ShipperOptions options;
  options.on_shipped = [&](const PushResult& /*pushed*/) {
    noted = shipper_->statistics();
  };
  Start(options);
  Save(1);
  while (shipper_->statistics().failures == 0) std::this_thread::yield();
  down = false;
  ASSERT_OK(Wait(1));
  EXPECT_EQ(shipper_->statistics().failures, 0);
  EXPECT_EQ(shipper_->statistics().shipped_steps, 1);
  EXPECT_OK(shipper_->statistics().last_error);
  shipper_->WaitShipped(1, absl::Now() + absl::Minutes(2)).IgnoreError();
  EXPECT_EQ(noted.failures, 0);
  EXPECT_OK(noted.last_error);
}

// Another push of the same store fences it, and it becomes the owner again.
TEST_F(StepShipperTest, GoesOnAfterAnotherPush) {
  OpenStore();
  Start();
  Save(1);
  ASSERT_OK(Wait(1));
  shipper_.reset();
  Start();
  ASSERT_OK(Wait(1));
  Save(2);
  ASSERT_OK(PushStore(path(), &remote_).status());
  Save(3);
  ASSERT_OK(Wait(3));
  EXPECT_EQ(RemoteSteps(), 3);
}

TEST_F(StepShipperTest, EndsWhileItRetries) {
  OpenStore();
  Save(1);
  remote_.set_before([](absl::string_view, absl::string_view) {
    return absl::UnavailableError("down");
  });
  Start();
  EXPECT_THAT(shipper_->WaitShipped(1, absl::Now()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("1")));
  shipper_.reset();
  EXPECT_TRUE(remote_.objects().empty());
}

TEST_F(StepShipperTest, NotesHowFarItIs) {
  OpenStore();
  EXPECT_EQ(ReadShipNote(path()).value(), std::nullopt);
  std::atomic<bool> down = false;
  remote_.set_before([&](absl::string_view, absl::string_view) {
    return down ? absl::UnavailableError("no\nnetwork") : absl::OkStatus();
  });
  Start();
  Save(1);
  ASSERT_OK(Wait(1));
  ASSERT_OK(Wait(1));  // the note is written at the end of a look
  ASSERT_OK_AND_ASSIGN(const auto shipped, ReadShipNote(path()));
  ASSERT_TRUE(shipped.has_value());
  EXPECT_EQ(shipped->url, remote_.Name());
  EXPECT_EQ(shipped->last_attempt, 1);
  EXPECT_EQ(shipped->error, "");
  shipper_.reset();
  down = true;
  Save(2);
  Start();
  while (ReadShipNote(path()).value()->error.empty()) {
    std::this_thread::yield();
  }
  ASSERT_OK_AND_ASSIGN(const auto failed, ReadShipNote(path()));
  EXPECT_EQ(failed->last_attempt, 1);
  EXPECT_THAT(failed->error, HasSubstr("no network"));
  // The store knows the file.
  ASSERT_OK(store_->Sweep().status());
  EXPECT_THAT(store_->unswept(), IsEmpty());
  ASSERT_OK_AND_ASSIGN(const Usage usage, store_->GetUsage());
  EXPECT_EQ(usage.foreign_bytes, 0);
}

// A manager closes its shipper once the newest step is shipped.
TEST_F(StepShipperTest, NotesStepsIfItIsStoppedBeforeACollection) {
  OpenStore();
  Save(1);
  std::atomic<bool> stopped = false;
  ShipperOptions options;
  options.retention = RetentionOptions{.keep = LatestN(100)};
  options.remote.cancelled = [&] { return stopped.load(); };
  options.on_shipped = [&](const PushResult&) { stopped = true; };
  Start(options);
  while (!stopped) std::this_thread::yield();
  shipper_.reset();
  ASSERT_OK_AND_ASSIGN(const auto note, ReadShipNote(path()));
  ASSERT_TRUE(note.has_value());
  EXPECT_EQ(note->last_attempt, 1);
  EXPECT_EQ(note->error, "");
  EXPECT_EQ(remote_.calls()["delete data"], 0);
}

// The service does not answer yet.
TEST_F(StepShipperTest, StepsOfAnEarlierShipperDoNotWait) {
  OpenStore();
  Save(1);
  Save(2);
  Start();
  ASSERT_OK(Wait(2));
  ASSERT_OK(Wait(2));
  shipper_.reset();
  Save(3);
  remote_.set_before([](absl::string_view, absl::string_view) {
    return absl::UnavailableError("down");
  });
  Start();
  while (shipper_->statistics().failures == 0) std::this_thread::yield();
  EXPECT_THAT(shipper_->statistics().waiting, ElementsAre(3));
  shipper_.reset();
  // Another URL lacks them.
  ASSERT_OK_AND_ASSIGN(shipper_,
                       StepShipper::Start(path(), "file:///proc/no-remote"));
  while (shipper_->statistics().failures == 0) std::this_thread::yield();
  EXPECT_THAT(shipper_->statistics().waiting, ElementsAre(1, 2, 3));
}

TEST_F(StepShipperTest, ADamagedNoteIsReported) {
  OpenStore();
  std::ofstream(path() + "/SHIPPED") << "url x\nlast_attempt many\n";
  EXPECT_THAT(ReadShipNote(path()), DataLoss("SHIPPED", "\"many\""));
  std::ofstream(path() + "/SHIPPED") << "hello\n";
  EXPECT_THAT(ReadShipNote(path()), DataLoss("SHIPPED", "URL"));
  std::filesystem::remove(path() + "/SHIPPED");
  ASSERT_EQ(::mkfifo((path() + "/SHIPPED").c_str(), 0600), 0);
  EXPECT_THAT(ReadShipNote(path()), FailedPrecondition("SHIPPED", "is a FIFO"));
  // A shipper writes it anew.
  Start();
  Save(1);
  ASSERT_OK(Wait(1));
  ASSERT_OK(Wait(1));
  ASSERT_OK_AND_ASSIGN(const auto note, ReadShipNote(path()));
  EXPECT_EQ(note->last_attempt, 1);
}

TEST_F(StepShipperTest, RefusesBadOptions) {
  ShipperOptions options;
  options.look = absl::ZeroDuration();
  EXPECT_THAT(StepShipper::Start(path(), "file:///x", options),
              InvalidArgument("look"));
  EXPECT_THAT(StepShipper::Start(path(), "x"), InvalidArgument("file:///"));
}

}  // namespace
}  // namespace ckptdb::testing
