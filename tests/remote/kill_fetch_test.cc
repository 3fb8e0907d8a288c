// SPDX-License-Identifier: Apache-2.0
// A process that is killed while it adds a step to a store leaves the store as
// it was or with the step, also for readers that have it open, and the next
// call finishes.
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "db/internal/crash_points.h"
#include "db/reader.h"
#include "db/store.h"
#include "remote/remote_store.h"
#include "tests/remote/row_trainer.h"
#include "tests/remote/run_child.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

class KillFetchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(path()));
    trainer_.emplace(store_.get());
    ASSERT_OK_AND_ASSIGN(remote_, OpenObjectStore(url()));
    ASSERT_OK(trainer_->SaveFull(1));
    ASSERT_OK(PushStore(path(), remote_.get()));
    ASSERT_OK(FetchStore(remote_.get(), copy()));
    ASSERT_OK_AND_ASSIGN(reader_, Reader::Open(copy()));
  }
  std::string path() const { return dir_.path() + "/store"; }
  std::string copy() const { return dir_.path() + "/copy"; }
  std::string url() const { return "file://" + dir_.path() + "/remote"; }

  // Returns how the process ended.
  int RunUpdate(const std::string& point) {
    return RunChild({CKPTDB_FETCH_CHILD, url(), copy(), point});
  }
  void ExpectLatest(Reader* reader, int64_t step) {
    ASSERT_OK(reader->Refresh());
    ASSERT_OK_AND_ASSIGN(const StepRecord latest, reader->Latest());
    EXPECT_EQ(latest.version.step, step);
    for (const StepRecord& record : reader->Steps()) {
      ASSERT_OK_AND_ASSIGN(const auto opened,
                           reader->OpenStep(record.version.step));
      EXPECT_OK(opened->Verify()) << record.version.step;
    }
  }
  void KillAt(const std::string& point, int64_t step) {
    SCOPED_TRACE(point);
    ASSERT_OK(trainer_->SaveDelta(step));
    ASSERT_OK(PushStore(path(), remote_.get()));
    const int killed = RunUpdate(point);
    ASSERT_TRUE(WIFSIGNALED(killed)) << killed;
    ASSERT_EQ(WTERMSIG(killed), SIGKILL);
    const bool committed =
        point == point::kFetchCommitted || point == point::kFetchRemoved;
    ExpectLatest(reader_.get(), committed ? step : step - 1);
    const int finished = RunUpdate("no point");
    ASSERT_TRUE(WIFEXITED(finished));
    EXPECT_EQ(WEXITSTATUS(finished), 0);
    ExpectLatest(reader_.get(), step);
    EXPECT_EQ(reader_->Steps().size(), 1);
    EXPECT_FALSE(std::filesystem::exists(copy() + ".unfinished"));
  }

  TempDir dir_;
  std::unique_ptr<Store> store_;
  std::optional<RowTrainer> trainer_;
  std::unique_ptr<ObjectStore> remote_;
  std::unique_ptr<Reader> reader_;
};

TEST_F(KillFetchTest, EachPointLeavesCompleteSteps) {
  int64_t step = 2;
  KillAt("download", step);
  for (const absl::string_view point : kFetchPoints) {
    KillAt(std::string(point), ++step);
  }
  reader_.reset();
  // A trainer continues the copy.
  ASSERT_OK_AND_ASSIGN(const auto local, Store::Open(copy()));
  RowTrainer trainer(local.get());
  ASSERT_OK(trainer.Restore(step));
  ASSERT_OK(trainer.SaveDelta(step + 1));
  ASSERT_OK(PushStore(copy(), remote_.get()));
}

TEST_F(KillFetchTest, ATrainerContinuesTheCopyThatAKilledUpdateLeft) {
  for (const absl::string_view point :
       {point::kFetchBegun, point::kFetchIngested, point::kFetchCommitted}) {
    SCOPED_TRACE(point);
    std::filesystem::remove_all(copy());
    ASSERT_OK(FetchStore(remote_.get(), copy()));
    ASSERT_OK_AND_ASSIGN(const StepRecord before, store_->Latest());
    ASSERT_OK(trainer_->SaveDelta(before.version.step + 1));
    ASSERT_OK(PushStore(path(), remote_.get()));
    ASSERT_TRUE(WIFSIGNALED(RunUpdate(std::string(point))));
    ASSERT_OK_AND_ASSIGN(const auto local, Store::Open(copy()));
    ASSERT_OK_AND_ASSIGN(const StepRecord latest, local->Latest());
    RowTrainer trainer(local.get());
    ASSERT_OK(trainer.Restore(latest.version.step));
    ASSERT_OK(trainer.SaveDelta(1000));
    ASSERT_OK_AND_ASSIGN(const StepRecord saved, local->FindStep(1000));
    ASSERT_OK_AND_ASSIGN(const StepRecord newest, store_->Latest());
    EXPECT_GT(saved.version.attempt, newest.version.attempt);
    ASSERT_OK_AND_ASSIGN(const auto step, local->OpenStep(1000));
    EXPECT_OK(step->Verify());
    EXPECT_THAT(local->Sweep()->quarantined_versions, IsEmpty());
  }
}

}  // namespace
}  // namespace ckptdb::testing
