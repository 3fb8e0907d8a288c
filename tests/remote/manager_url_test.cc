// SPDX-License-Identifier: Apache-2.0
// Managers that start from a remote, and that follow one. Ranks are threads.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "db/base/url_stores.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "manager/checkpoint_manager.h"
#include "manager/internal/url_shipping.h"
#include "remote/object_store.h"
#include "remote/remote_store.h"
#include "remote/step_shipper.h"
#include "remote/urls.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/test_model.h"
#include "tests/manager/test_options.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/shared_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kModelUrl[] = "s3://models/ctr";
constexpr uint32_t kWorld = 3;
constexpr int64_t kIds = 30;

class ManagerUrlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    internal::EnableUrlsWith(
        [this](absl::string_view url, const RemoteOptions& options)
            -> absl::StatusOr<std::unique_ptr<ObjectStore>> {
          EXPECT_EQ(url, kModelUrl);
          deadline_ = options.deadline;
          return std::make_unique<SharedStore>(remote_.get());
        },
        {});
  }
  void TearDown() override {
    internal::SetUrlFunctions({});
    internal::SetMakeShipping(nullptr);
  }

  std::string first() const { return dir_.path() + "/first"; }
  std::string second() const { return dir_.path() + "/second"; }
  ManagerOptions OptionsAt(const std::string& path) {
    ManagerOptions options = TestOptions(path);
    options.observers.on_warning = [this](const std::string& warning) {
      const std::lock_guard<std::mutex> lock(mutex_);
      warnings_.push_back(warning);
    };
    return options;
  }
  ManagerOptions FromRemote() {
    ManagerOptions options = OptionsAt(second());
    options.restore.fetch_from = kModelUrl;
    return options;
  }
  // Trains so many steps, of which each sets all rows of a rank to its number.
  static void Train(int steps, uint32_t rank, CheckpointManager* manager,
                    TestModel* model) {
    for (int i = 0; i < steps; ++i) {
      const auto value = static_cast<float>(manager->global_step() + 1);
      for (int64_t id = rank; id < kIds; id += kWorld) {
        model->users.Set(id, value);
      }
      ASSERT_OK(manager->Step());  // saves it
      ASSERT_OK(manager->WaitUntilFinished());
    }
    ASSERT_OK(manager->Close());
  }
  void TrainAndPush(int steps) {
    const bool again = fs::exists(first());
    RunModels(kWorld, OptionsAt(first()),
              [&](uint32_t rank, CheckpointManager* manager, TestModel* model) {
                if (again) {
                  ASSERT_OK(manager->Restore());
                }
                Train(steps, rank, manager, model);
              });
    ASSERT_OK(PushStore(first(), remote_.get()));
  }
  // Opens a manager of the store at `path` that fetches from the remote,
  // restores rows of this value, and trains so many steps.
  void Continue(const std::string& path, float value, int steps) {
    ManagerOptions options = OptionsAt(path);
    options.restore.fetch_from = kModelUrl;
    RunModels(kWorld, options,
              [&](uint32_t rank, CheckpointManager* manager, TestModel* model) {
                ASSERT_OK(manager->Restore());
                ExpectRows(*model, value);
                Train(steps, rank, manager, model);
              });
  }
  static void ExpectRows(const TestModel& model, float value) {
    EXPECT_EQ(model.users.rows().size(), kIds / kWorld);
    for (const auto& [id, row] : model.users.rows()) {
      EXPECT_EQ(row.weights[0], value);
    }
  }

  TempDir dir_;
  const std::shared_ptr<MemoryStore> remote_ = std::make_shared<MemoryStore>();
  absl::Duration deadline_ = absl::ZeroDuration();  // of the last call
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

TEST_F(ManagerUrlTest, AFreshMachineContinuesTheTraining) {
  TrainAndPush(4);
  remote_->calls().clear();
  RunModels(kWorld, FromRemote(),
            [&](uint32_t rank, CheckpointManager* manager, TestModel* model) {
              ASSERT_OK_AND_ASSIGN(const RestoreReport report,
                                   manager->Restore());
              EXPECT_EQ(report.version.step, 4);
              ExpectRows(*model, 4);
              Train(2, rank, manager, model);
            });
  // One rank has listed and downloaded.
  EXPECT_EQ(remote_->calls()["list"], 1);
  EXPECT_EQ(remote_->calls()["get catalog"], 1);
  EXPECT_EQ(remote_->calls()["get versions"], 4);  // of the deltas' chain
  // A restart continues with what the store has.
  RunModels(kWorld, FromRemote(),
            [&](uint32_t, CheckpointManager* manager, TestModel* model) {
              ASSERT_OK(manager->Restore());
              ExpectRows(*model, 6);
            });
  EXPECT_EQ(remote_->calls()["list"], 2);
  EXPECT_EQ(remote_->calls()["get catalog"], 2);
  EXPECT_EQ(remote_->calls()["get versions"], 4);
  EXPECT_THAT(warnings_, IsEmpty());
  // Later pushes of the fetched store add steps to the same remote.
  ASSERT_OK_AND_ASSIGN(const PushResult pushed,
                       PushStore(second(), remote_.get()));
  EXPECT_THAT(pushed.shipped, ::testing::ElementsAre(5, 6));
}

TEST_F(ManagerUrlTest, BeginsWithAnEmptyStoreIfNothingWasShipped) {
  RunModels(kWorld, FromRemote(),
            [&](uint32_t, CheckpointManager* manager, TestModel*) {
              EXPECT_THAT(manager->Restore(),
                          StatusIs(absl::StatusCode::kNotFound, HasSubstr("")));
            });
  EXPECT_THAT(warnings_, ::testing::Contains(HasSubstr("nothing was shipped")));
}

TEST_F(ManagerUrlTest, FailsOnAllRanksIfTheFetchFails) {
  TrainAndPush(1);
  remote_->set_before([](absl::string_view call, absl::string_view) {
    return call == "get" ? absl::UnavailableError("no answer")
                         : absl::OkStatus();
  });
  const auto statuses =
      OnRanks(kWorld, [&](uint32_t rank, auto ranks) -> absl::Status {
        TestModel model;
        model.owns = [=](int64_t id) { return id % kWorld == rank; };
        ManagerOptions options = FromRemote();
        options.ranks.sharding = TableSharding::ByModulo();
        return CheckpointManager::Open(options, &model.state, std::move(ranks))
            .status();
      });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                                 AllOf(HasSubstr("fetch_from"),
                                       HasSubstr("no answer"))));
  }
  EXPECT_FALSE(fs::exists(second()));
}

// A machine comes back after another one has continued the training.
TEST_F(ManagerUrlTest, WarnsIfTheRemoteIsNewerThanTheStore) {
  TrainAndPush(3);
  Continue(second(), 3, 2);
  ASSERT_OK(PushStore(second(), remote_.get()).status());
  EXPECT_THAT(warnings_, IsEmpty());
  Continue(first(), 3, 0);
  EXPECT_THAT(warnings_,
              ElementsAre(AllOf(HasSubstr(first()), HasSubstr("step 5"),
                                HasSubstr("move the store away"))));
  // Follows the remedy in the warning.
  warnings_.clear();
  fs::rename(first(), first() + ".old");
  Continue(first(), 5, 1);
  // The store is newer than the remote now.
  Continue(first(), 6, 0);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ManagerUrlTest, AServiceThatIsDownDoesNotStopAStoreWithSteps) {
  TrainAndPush(2);
  remote_->set_before([](absl::string_view, absl::string_view) {
    return absl::UnavailableError("no answer");
  });
  Continue(first(), 2, 0);
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("fetch_from"),
                                           HasSubstr("no answer"))));
  EXPECT_LE(deadline_, absl::Seconds(10));
}

// A machine whose training failed before its first save gets the job back from
// another one.
TEST_F(ManagerUrlTest, ReplacesAStoreWithoutSteps) {
  TrainAndPush(3);
  ASSERT_OK(Store::Open(second()).status());
  RunModels(kWorld, FromRemote(),
            [&](uint32_t rank, CheckpointManager* manager, TestModel* model) {
              ASSERT_OK_AND_ASSIGN(const RestoreReport report,
                                   manager->Restore());
              EXPECT_EQ(report.version.step, 3);
              ExpectRows(*model, 3);
              Train(1, rank, manager, model);
            });
  EXPECT_FALSE(fs::exists(second() + ".unfinished"));
  ASSERT_OK_AND_ASSIGN(const PushResult pushed,
                       PushStore(second(), remote_.get()));
  EXPECT_THAT(pushed.shipped, ::testing::ElementsAre(4));
}

TEST_F(ManagerUrlTest, KeepsAStoreThatIsInTheWay) {
  TrainAndPush(1);
  TestModel model;
  const auto open = [&] {
    return CheckpointManager::Open(FromRemote(), &model.state, SingleProcess())
        .status();
  };
  {
    ASSERT_OK_AND_ASSIGN(const auto owner, Store::Open(second()));
    EXPECT_THAT(open(),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("owner")));
  }
  fs::create_directory(second() + "/notes");
  EXPECT_THAT(open(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("/notes"), HasSubstr("move it away"))));
  // The store was shipped before its steps were removed.
  fs::remove_all(second());
  fs::copy(first(), second(), fs::copy_options::recursive);
  {
    ASSERT_OK_AND_ASSIGN(const auto owner, Store::Open(second()));
    ASSERT_OK(owner->Delete(1));
  }
  EXPECT_THAT(open(),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("nothing was"), HasSubstr("--update"))));
  FetchOptions update;
  update.update = true;
  ASSERT_OK(FetchStore(remote_.get(), second(), update));
  EXPECT_OK(open());
}

// A follower needs no disk.
TEST_F(ManagerUrlTest, AReadOnlyManagerFollowsTheRemote) {
  TrainAndPush(2);
  ManagerOptions options = OptionsAt(kModelUrl);
  options.read_only = true;
  options.follow.poll_every = absl::Milliseconds(5);
  RunModels(kWorld, options,
            [&](uint32_t rank, CheckpointManager* manager, TestModel* model) {
              ASSERT_OK(manager->Restore());
              ExpectRows(*model, 2);
              if (rank == 0) TrainAndPush(3);
              ASSERT_OK_AND_ASSIGN(const RestoreReport report,
                                   manager->WaitForStep(absl::Minutes(1)));
              EXPECT_EQ(report.version.step, 5);
              ExpectRows(*model, 5);
            });
}

TEST_F(ManagerUrlTest, RestoresAnotherStoreThroughItsUrl) {
  TrainAndPush(2);
  RunModels(kWorld, OptionsAt(second()),
            [&](uint32_t, CheckpointManager* manager, TestModel* model) {
              RestoreRequest request;
              request.path = kModelUrl;
              ASSERT_OK(manager->Restore(request));
              ExpectRows(*model, 2);
            });
}

// A trainer and its successor on another machine use the same configuration.
TEST_F(ManagerUrlTest, AConfigurationShipsAndFetches) {
  EnableUrls();
  const std::string url = "file://" + dir_.path() + "/remote";
  fs::create_directory(dir_.path() + "/remote");
  const std::string config = absl::StrCat(
      R"({"fetch_from": ")", url, R"(", "ship": {"to": ")", url,
      R"(", "look": 0.01, "connections": 2, "bytes_per_second": 1000000000}})");
  for (const std::string& path : {first(), second()}) {
    ManagerOptions options = OptionsAt(path);
    ASSERT_OK(ReadManagerConfig(config, &options));
    RunModels(kWorld, options,
              [&](uint32_t rank, CheckpointManager* manager, TestModel* model) {
                ASSERT_OK_AND_ASSIGN(const RestoreReport start,
                                     manager->RestoreOrStart());
                EXPECT_EQ(start.fresh, path == first());
                EXPECT_EQ(manager->global_step(), path == first() ? 0 : 4);
                if (path == second()) ExpectRows(*model, 4);
                Train(4, rank, manager, model);
              });
  }
  ASSERT_OK_AND_ASSIGN(const auto remote, OpenObjectStore(url));
  ASSERT_OK_AND_ASSIGN(const RemoteContent content, ListRemote(remote.get()));
  EXPECT_EQ(content.latest_step, 8);
  EXPECT_EQ(content.steps.size(), 8);
}

TEST_F(ManagerUrlTest, ConfigurationsShipWithTheDefaultsOfShipperOptions) {
  const internal::UrlShipping config;
  const ShipperOptions options;
  EXPECT_EQ(config.deadline, options.remote.deadline);
  EXPECT_EQ(config.connections, options.remote.connections);
  EXPECT_EQ(config.bytes_per_second, options.remote.bytes_per_second);
  EXPECT_EQ(config.take_over, options.take_over);
  EXPECT_EQ(config.look, options.look);
  EXPECT_EQ(config.first_retry, options.first_retry);
  EXPECT_EQ(config.most_retry, options.most_retry);
  EXPECT_EQ(config.retention.has_value(), options.retention.has_value());
  EXPECT_EQ(config.grace, options.grace);
  EXPECT_EQ(config.collect_every, options.collect_every);
}

TEST_F(ManagerUrlTest, OpenRefusesUnknownSchemes) {
  EnableUrls();
  TestModel model;
  ManagerOptions options = FromRemote();
  options.restore.fetch_from = "s4://models/ctr";
  EXPECT_THAT(CheckpointManager::Open(options, &model.state),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("fetch_from"), HasSubstr("s4://"))));
  options = OptionsAt(second());
  ASSERT_OK(ReadManagerConfig(R"({"ship": "s4://models/ctr"})", &options));
  EXPECT_THAT(CheckpointManager::Open(options, &model.state),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("ship"), HasSubstr("s4://"))));
  // No folder "gs:" was created.
  EXPECT_THAT(CheckpointManager::Open(OptionsAt("gs://models"), &model.state),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("gs://models")));
  EXPECT_THAT(
      Reader::Open("gs://models"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gs://models")));
}

TEST_F(ManagerUrlTest, RefusesToWriteToAUrl) {
  TestModel model;
  EXPECT_THAT(
      CheckpointManager::Open(OptionsAt(kModelUrl), &model.state,
                              SingleProcess()),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("URL")));
}

}  // namespace
}  // namespace ckptdb::testing
