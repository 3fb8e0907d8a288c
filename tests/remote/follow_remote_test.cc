// SPDX-License-Identifier: Apache-2.0
// A copy follows a remote, through outages of the service.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "db/reader.h"
#include "db/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/follow_remote.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/row_trainer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

// Runs FollowRemote on this thread; its callbacks save, push and stop
// meanwhile.
class FollowRemoteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(path()));
    trainer_.emplace(store_.get());
    options_.look = options_.first_retry = absl::Milliseconds(1);
    options_.most_retry = absl::Milliseconds(2);
    options_.fetch.cancelled = [this] { return stopped_; };
  }
  std::string path() const { return dir_.path() + "/store"; }
  std::string copy() const { return dir_.path() + "/copy"; }
  void SaveAndPush(int64_t step) {
    if (step == 1) {
      ASSERT_OK(trainer_->SaveFull(step));
    } else {
      ASSERT_OK(trainer_->SaveDelta(step));
    }
    ASSERT_OK(PushStore(path(), &remote_));
  }
  absl::Status Follow() { return FollowRemote(&remote_, copy(), options_); }

  TempDir dir_;
  std::unique_ptr<Store> store_;
  std::optional<RowTrainer> trainer_;
  MemoryStore remote_;
  FollowOptions options_;
  bool stopped_ = false;
};

TEST_F(FollowRemoteTest, FetchesStepsAsTheyAreShipped) {
  SaveAndPush(1);
  options_.fetch.keep = 2;
  std::vector<int64_t> fetched;
  std::vector<int64_t> removed;
  options_.on_fetched = [&](const FetchResult& result) {
    fetched.insert(fetched.end(), result.steps.begin(), result.steps.end());
    removed.insert(removed.end(), result.removed.begin(), result.removed.end());
    if (fetched.back() == 5) {
      stopped_ = true;
    } else {
      SaveAndPush(fetched.back() + 1);
    }
  };
  EXPECT_OK(Follow());
  EXPECT_THAT(fetched, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(removed, ElementsAre(1, 2, 3));
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(copy()));
  for (const int64_t step : {4, 5}) {
    ASSERT_OK_AND_ASSIGN(const auto opened, reader->OpenStep(step));
    EXPECT_OK(opened->Verify());
  }
}

TEST_F(FollowRemoteTest, ALookThatFindsNothingNewTakesOneRequest) {
  SaveAndPush(1);
  int looks = 0;
  options_.on_fetched = [&](const FetchResult&) {
    remote_.calls().clear();
    remote_.set_before([&](absl::string_view, absl::string_view) {
      stopped_ = ++looks == 5;
      return absl::OkStatus();
    });
  };
  EXPECT_OK(Follow());
  EXPECT_EQ(remote_.calls()["list"], 5);
  EXPECT_EQ(remote_.calls()["get"], 0);
}

TEST_F(FollowRemoteTest, WaitsForTheFirstStepAndForTheService) {
  std::vector<absl::Status> statuses;
  int failures = 3;
  options_.on_status = [&](const absl::Status& status) {
    statuses.push_back(status);
    if (!absl::IsNotFound(status)) return;
    SaveAndPush(1);
    remote_.set_before([&](absl::string_view call, absl::string_view key) {
      const bool fails =
          call == "get" && absl::StartsWith(key, "data/") && --failures >= 0;
      return fails ? absl::UnavailableError("no answer") : absl::OkStatus();
    });
  };
  options_.on_fetched = [&](const FetchResult&) {
    // Stops at the next request, after this look has ended.
    remote_.set_before([&](absl::string_view, absl::string_view) {
      stopped_ = true;
      return absl::OkStatus();
    });
  };
  EXPECT_OK(Follow());
  ASSERT_THAT(statuses, SizeIs(3));
  EXPECT_THAT(statuses[0], NotFound("nothing was shipped"));
  EXPECT_THAT(statuses[1], Unavailable("no answer"));
  EXPECT_OK(statuses[2]);
  EXPECT_LT(failures, 0);
}

TEST_F(FollowRemoteTest, WaitsForAnotherOwner) {
  SaveAndPush(1);
  ASSERT_OK(FetchStore(&remote_, copy()));
  SaveAndPush(2);
  auto owner = Store::Open(copy());
  ASSERT_OK(owner);
  bool waited = false;
  options_.on_status = [&](const absl::Status& status) {
    if (status.ok()) return;
    EXPECT_THAT(status, Unavailable(copy()));
    waited = true;
    owner->reset();
  };
  options_.on_fetched = [&](const FetchResult& fetched) {
    EXPECT_THAT(fetched.steps, ElementsAre(2));
    stopped_ = true;
  };
  EXPECT_OK(Follow());
  EXPECT_TRUE(waited);
}

TEST_F(FollowRemoteTest, ReturnsErrorsThatWaitingDoesNotResolve) {
  SaveAndPush(1);
  ASSERT_OK(Store::Open(copy()).status());
  EXPECT_THAT(Follow(), FailedPrecondition("another folder"));
  options_.look = absl::ZeroDuration();
  EXPECT_THAT(Follow(), InvalidArgument("look", "positive"));
}

}  // namespace
}  // namespace ckptdb::testing
