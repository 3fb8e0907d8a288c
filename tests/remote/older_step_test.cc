// SPDX-License-Identifier: Apache-2.0
// A store is shipped after a new process restored an older step. A copy of the
// store that lacks steps of the remote is refused.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "remote/remote_store.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/catalog_steps.h"
#include "tests/remote/row_trainer.h"
#include "tests/remote/updated_copy.h"

namespace ckptdb::testing {
namespace {

class OlderStepTest : public UpdatedCopy {
 protected:
  void SetUp() override {
    UpdatedCopy::SetUp();
    Reopen(path());
  }
  // Opens a store as another process would.
  void Reopen(const std::string& path) {
    store_.reset();
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(path));
    trainer_.emplace(store_.get());
    trainer_->set_abandoned(SaveSpec::Abandoned::kRemove);
  }
  // Restores a step in another process, and saves the next ones.
  void GoBack(const std::string& path, int64_t step, int saves = 2) {
    SCOPED_TRACE(step);
    Reopen(path);
    ASSERT_OK(trainer_->Restore(step));
    trainer_->set_salt(++salt_);
    for (int i = 1; i <= saves; ++i) ASSERT_OK(trainer_->Overwrite(step + i));
  }
  void ExpectNewest(int64_t step) {
    ASSERT_OK_AND_ASSIGN(const auto catalog, internal::NewestCatalog(&remote_));
    ASSERT_TRUE(catalog.has_value());
    EXPECT_EQ(internal::NewestStep(*catalog)->version.step, step);
    ASSERT_OK_AND_ASSIGN(const VerifyRemoteResult verified,
                         VerifyRemote(&remote_, {.data = true}));
    EXPECT_THAT(verified.damage, IsEmpty());
  }
  void ExpectShips(const std::string& path, int64_t newest) {
    ASSERT_OK(PushStore(path, &remote_));
    ExpectNewest(newest);
  }
  void ExpectRefusedPush(const std::string& path) {
    EXPECT_THAT(PushStore(path, &remote_), FailedPrecondition("--take-over"));
  }
  void Copy() {
    store_.reset();
    std::filesystem::copy(path(), copy(),
                          std::filesystem::copy_options::recursive);
  }

  // Files that an open store no longer needs may vanish meanwhile.
  static void CopyWhileOpen(const std::string& from, const std::string& to) {
    std::error_code error;
    for (int i = 0; i < 100; ++i) {
      std::filesystem::remove_all(to);
      std::filesystem::copy(from, to, std::filesystem::copy_options::recursive,
                            error);
      if (error != std::errc::no_such_file_or_directory) break;
    }
    EXPECT_FALSE(error) << error.message();
  }

  float salt_ = 0;
};

TEST_F(OlderStepTest, IsShippedByTheNextProcesses) {
  SaveAndPush(6);
  for (const int64_t step : {3, 2, 1, 2, 3}) {
    GoBack(path(), step);
    ExpectShips(path(), step + 2);
  }
  // Abandons every step of the process that shipped last.
  GoBack(path(), 5);
  ExpectShips(path(), 7);
  GoBack(path(), 3);
  ExpectShips(path(), 5);
}

TEST_F(OlderStepTest, IsShippedAfterStepsWereRemoved) {
  SaveAndPush(3);
  Reopen(path());
  ASSERT_OK(trainer_->Restore(3));
  PushDeltas(4, 6);
  Reopen(path());
  for (const int64_t step : {6, 5, 4, 3}) ASSERT_OK(store_->Delete(step));
  ASSERT_OK(store_->Sweep());
  ExpectRefusedPush(path());
  Reopen(path());
  ASSERT_OK(trainer_->Restore(2));
  ASSERT_OK(trainer_->SaveDelta(3));
  ExpectShips(path(), 3);
}

TEST_F(OlderStepTest, IsShippedAfterFolds) {
  SaveAndPush(4);
  Reopen(path());
  ASSERT_OK(trainer_->Restore(4));
  PushDeltas(5, 7);
  ASSERT_OK(store_->Fold(7));
  ASSERT_OK(store_->Fold(4));
  Push();
  GoBack(path(), 4);
  ASSERT_OK(store_->Fold(5));
  ExpectShips(path(), 6);
}

TEST_F(OlderStepTest, IsShippedFromFetchedAndUpdatedCopies) {
  SaveAndPush(4);
  Update({.all = true});
  GoBack(path(), 2);
  ExpectShips(path(), 4);
  Reopen(path());
  ASSERT_OK(trainer_->Restore(4));
  PushDeltas(5, 6);
  store_.reset();
  Update({.all = true});
  GoBack(copy(), 1);
  ExpectShips(copy(), 3);
  GoBack(path(), 2);
  ExpectRefusedPush(path());
  GoBack(copy(), 2);
  ExpectShips(copy(), 4);
}

// A copy of the disk that was made before the newest steps were shipped.
TEST_F(OlderStepTest, IsRefusedFromStaleCopies) {
  SaveAndPush(3);
  Copy();
  Reopen(path());
  ASSERT_OK(trainer_->Restore(3));
  PushDeltas(4, 6);
  for (const int64_t step : {3, 2, 1, 2, 3}) {
    GoBack(copy(), step);
    ExpectRefusedPush(copy());
    ASSERT_OK(store_->Fold(step + 2));
    ExpectRefusedPush(copy());
  }
  GoBack(copy(), 1, 12);
  for (int64_t step = 1; step < 12; ++step) {
    EXPECT_TRUE(store_->Delete(step).ok() || step > 1);
  }
  ASSERT_OK(store_->Sweep());
  ExpectRefusedPush(copy());
  ExpectNewest(6);
}

// The copies were made at the newest step. The first one that ships continues.
TEST_F(OlderStepTest, IsShippedByOneOfTwoCopies) {
  SaveAndPush(4);
  Copy();
  GoBack(copy(), 2);
  ExpectShips(copy(), 4);
  for (const int64_t step : {3, 1}) {
    GoBack(path(), step);
    ExpectRefusedPush(path());
  }
  ExpectNewest(4);
}

// An update that was killed after it had begun added no step, so the copy does
// not continue the steps that it lacks.
TEST_F(OlderStepTest, IsRefusedFromAnInterruptedUpdate) {
  FetchOptions options;
  options.all = true;
  SaveAndPush(3);
  Update(options);
  Reopen(path());
  ASSERT_OK(trainer_->Restore(3));
  PushDeltas(4, 6);
  int copies = 0;
  options.on_point = [&](absl::string_view point) {
    if (point == point::kFetchBegun) {
      CopyWhileOpen(copy(), absl::StrCat(copy(), "-", ++copies));
    }
  };
  Update(options);
  ASSERT_EQ(copies, 3);
  for (int i = 1; i <= copies; ++i) {
    const std::string cut = absl::StrCat(copy(), "-", i);
    Reopen(cut);
    ASSERT_OK(trainer_->Restore(2 + i));
    ASSERT_OK(trainer_->SaveDelta(9));
    ExpectRefusedPush(cut);
  }
  GoBack(copy(), 3);
  ExpectShips(copy(), 5);
}

// The remote has newer steps than the one that was fetched.
TEST_F(OlderStepTest, IsRefusedFromAFetchedOlderStep) {
  SaveAndPush(4);
  FetchOptions options;
  options.step = 2;
  ASSERT_OK(FetchStore(&remote_, copy(), options));
  Reopen(copy());
  ASSERT_OK(trainer_->Restore(2));
  ASSERT_OK(trainer_->SaveDelta(5));
  ExpectRefusedPush(copy());
  PushOptions take_over;
  take_over.take_over = true;
  ASSERT_OK(PushStore(copy(), &remote_, take_over));
  ExpectNewest(5);
}

// Fetching skips quarantined steps.
TEST_F(OlderStepTest, IsShippedInPlaceOfAQuarantinedOne) {
  SaveAndPush(4);
  ASSERT_OK(store_->Quarantine(4));
  Push();
  Update();
  Reopen(copy());
  ASSERT_OK(trainer_->Restore(3));
  ASSERT_OK(trainer_->SaveDelta(5));
  ExpectShips(copy(), 5);
}

// The copy was made while a step was being saved, which the original shipped.
TEST_F(OlderStepTest, IsRefusedFromACopyMadeDuringASave) {
  SaveAndPush(3);
  StoreOptions options;
  bool once = false;
  options.on_point = [&](absl::string_view point) {
    if (point != point::kBegun || once) return;
    once = true;
    CopyWhileOpen(path(), copy());
  };
  store_.reset();
  ASSERT_OK_AND_ASSIGN(store_, Store::Open(path(), options));
  trainer_.emplace(store_.get());
  ASSERT_OK(trainer_->Restore(3));
  PushDeltas(4, 4);
  ASSERT_TRUE(once);
  GoBack(copy(), 3, 3);
  ExpectRefusedPush(copy());
  GoBack(copy(), 2);
  ExpectRefusedPush(copy());
  ExpectNewest(4);
}

}  // namespace
}  // namespace ckptdb::testing
