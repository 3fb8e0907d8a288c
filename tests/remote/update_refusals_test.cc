// SPDX-License-Identifier: Apache-2.0
// Updates that are refused leave the copy as it was.
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "db/store.h"
#include "remote/remote_store.h"
#include "tests/remote/row_trainer.h"
#include "tests/remote/updated_copy.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

class UpdateRefusalsTest : public UpdatedCopy {};

TEST_F(UpdateRefusalsTest, RefusesAnotherStore) {
  SaveAndPush(2);
  ASSERT_OK(Store::Open(copy()).status());
  ExpectRefused({copy(), store_->uuid(), "another folder"});
}

TEST_F(UpdateRefusalsTest, RefusesAFolderThatIsNotAStore) {
  SaveAndPush(2);
  fs::create_directories(copy() + "/other");
  EXPECT_THAT(TryUpdate(), AlreadyExists(copy()));
}

TEST_F(UpdateRefusalsTest, RefusesAStoreOfParts) {
  SaveAndPush(2);
  ASSERT_OK(FetchStore(&remote_, copy(), {.tables = {"t"}}));
  PushDelta(3);
  ExpectRefused({"was fetched with only", "t"});
}

TEST_F(UpdateRefusalsTest, RefusesAStoreWithAnotherOwner) {
  MakeCopy(2);
  ASSERT_OK_AND_ASSIGN(const auto owner, Store::Open(copy()));
  EXPECT_THAT(Update().steps, IsEmpty());  // no step is missing
  PushDelta(3);
  EXPECT_THAT(TryUpdate(), Unavailable(copy(), "pid"));
  EXPECT_THAT(StepsOf(copy()), ElementsAre(2));
}

TEST_F(UpdateRefusalsTest, RefusesAStoreThatIsAhead) {
  MakeCopy(2);
  SaveInCopy(3);
  ExpectRefused({"ahead", "3 (attempt 3)", "2 (attempt 2)"});
}

// Both copies continued from step 2, so their attempts 3 differ.
TEST_F(UpdateRefusalsTest, RefusesAStoreThatDiverged) {
  MakeCopy(2);
  SaveInCopy(3, /*salt=*/9);
  PushDeltas(3, 4);
  ExpectRefused({"step 3 attempt 3", "another version", "separately"});
}

TEST_F(UpdateRefusalsTest, RefusesAnAttemptOfAnotherStep) {
  MakeCopy(2);
  SaveInCopy(17);
  PushDelta(3);
  ExpectRefused({"step 17 attempt 3", "step 3 attempt 3"});
}

// The remote no longer has an attempt 3 that would differ from the copy's.
TEST_F(UpdateRefusalsTest, RefusesAStepThatWasSavedHere) {
  MakeCopy(2);
  SaveInCopy(3);
  ASSERT_OK(trainer_->SaveDelta(3));
  ASSERT_OK(store_->Delete(3));
  ASSERT_OK(trainer_->Restore(2));
  ASSERT_OK(trainer_->SaveFull(4));
  Push();
  ExpectRefused({"step 3 attempt 3", "saved here"});
}

TEST_F(UpdateRefusalsTest, RefusesARemoteThatWasTakenOver) {
  SaveAndPush(2);
  const std::string other = dir_.path() + "/other";
  SnapshotStore(other);
  PushDelta(3);
  Update();
  ASSERT_OK_AND_ASSIGN(const auto copied, Store::Open(other));
  RowTrainer trainer(copied.get());
  trainer.set_salt(5);
  ASSERT_OK(trainer.Restore(2));
  ASSERT_OK(trainer.SaveDelta(3));
  ASSERT_OK(trainer.SaveDelta(4));
  ASSERT_OK(PushStore(other, &remote_, {.take_over = true}));
  ExpectRefused({"step 3 attempt 3", "another version", "separately"});
}

TEST_F(UpdateRefusalsTest, RefusesOptionsThatContradict) {
  SaveAndPush(1);
  EXPECT_THAT(FetchStore(&remote_, copy(), {.keep = 1}),
              InvalidArgument("keep", "update"));
  EXPECT_THAT(TryUpdate({.keep = 0}), InvalidArgument("keep", "at least 1"));
  EXPECT_THAT(TryUpdate({.step = 1, .keep = 1}),
              InvalidArgument("keep", "step"));
  EXPECT_THAT(TryUpdate({.tables = {"t"}}), InvalidArgument("update"));
  Update();
  EXPECT_THAT(FetchStore(&remote_, copy()), AlreadyExists(copy(), "--update"));
}

TEST_F(UpdateRefusalsTest, AMistypedPartLeavesNothing) {
  SaveAndPush(1);
  EXPECT_THAT(FetchStore(&remote_, copy(), {.tables = {"nope"}}),
              InvalidArgument("nope"));
  EXPECT_FALSE(fs::exists(copy()));
  EXPECT_FALSE(fs::exists(copy() + ".unfinished"));
}

}  // namespace
}  // namespace ckptdb::testing
