// SPDX-License-Identifier: Apache-2.0
// A trainer's store, a remote that it is pushed to, and a copy that is updated
// from the remote.
#ifndef CKPTDB_TESTS_REMOTE_UPDATED_COPY_H_
#define CKPTDB_TESTS_REMOTE_UPDATED_COPY_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "db/reader.h"
#include "db/store.h"
#include "remote/remote_store.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/row_trainer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {

class UpdatedCopy : public ::testing::Test {
 protected:
  std::string path() const { return dir_.path() + "/store"; }
  std::string copy() const { return dir_.path() + "/copy"; }

  void SetUp() override {
    StoreOptions options;
    options.background_sweep = false;
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(path(), options));
    trainer_.emplace(store_.get());
  }
  void Push(const PushOptions& options = {}) {
    ASSERT_OK(PushStore(path(), &remote_, options));
  }
  // Saves these deltas, and pushes them.
  void PushDeltas(int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      ASSERT_OK(trainer_->SaveDelta(step));
    }
    Push();
  }
  void PushDelta(int64_t step) { PushDeltas(step, step); }
  // Saves the full step 1 and deltas up to `last`, and pushes them.
  void SaveAndPush(int64_t last) {
    ASSERT_OK(trainer_->SaveFull(1));
    PushDeltas(2, last);
  }
  // Does the same, and creates the copy with step `last`.
  void MakeCopy(int64_t last) {
    SaveAndPush(last);
    Update();
  }
  // Closes the store, copies its folder to `to`, and continues from step 2.
  void SnapshotStore(const std::string& to) {
    store_.reset();
    std::filesystem::copy(path(), to, std::filesystem::copy_options::recursive);
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(path()));
    trainer_.emplace(store_.get());
    ASSERT_OK(trainer_->Restore(2));
  }
  // Continues from step 2 in the copy, with one delta.
  void SaveInCopy(int64_t step, float salt = 0) {
    ASSERT_OK_AND_ASSIGN(const auto local, Store::Open(copy()));
    RowTrainer trainer(local.get());
    trainer.set_salt(salt);
    ASSERT_OK(trainer.Restore(2));
    ASSERT_OK(trainer.SaveDelta(step));
  }
  // Removes all but the newest step from the remote, and their objects.
  void CollectAllButNewest() {
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(CollectRemote(&remote_, {.keep = 1, .grace = absl::Hours(1)}));
      remote_.Advance(absl::Hours(3));
    }
  }
  absl::StatusOr<FetchResult> TryUpdate(FetchOptions options = {}) {
    options.update = true;
    return FetchStore(&remote_, copy(), options);
  }
  FetchResult Update(const FetchOptions& options = {}) {
    const auto fetched = TryUpdate(options);
    EXPECT_OK(fetched);
    EXPECT_FALSE(std::filesystem::exists(copy() + ".unfinished"));
    return fetched.value_or(FetchResult());
  }
  static std::vector<int64_t> StepsOf(const std::string& path) {
    std::vector<int64_t> steps;
    const auto reader = Reader::Open(path);
    EXPECT_OK(reader);
    if (!reader.ok()) return steps;
    for (const StepRecord& record : (*reader)->Steps()) {
      steps.push_back(record.version.step);
    }
    return steps;
  }
  // Digests of records cover all bytes, which Verify compares with them.
  void ExpectSteps(const std::vector<int64_t>& steps) {
    EXPECT_EQ(StepsOf(copy()), steps);
    ASSERT_OK_AND_ASSIGN(const auto expected, Reader::Open(path()));
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(copy()));
    EXPECT_EQ(reader->uuid(), expected->uuid());
    for (const int64_t step : steps) {
      SCOPED_TRACE(step);
      ASSERT_OK_AND_ASSIGN(const auto opened, reader->OpenStep(step));
      EXPECT_OK(opened->Verify());
      const auto want = expected->FindStep(step);
      if (!want.ok()) continue;  // removed there
      EXPECT_EQ(reader->FindStep(step).value(), *want);
      EXPECT_EQ(reader->FindRanks(step).value(),
                expected->FindRanks(step).value());
    }
  }
  // Returns the bytes of the data objects of a step's own version.
  uint64_t DataBytes(int64_t step) {
    EXPECT_OK(store_->FindStep(step));
    const std::string name =
        absl::StrCat(absl::Dec(step, absl::kZeroPad19), "-");
    uint64_t bytes = 0;
    for (const auto& [key, object] : remote_.objects()) {
      if (absl::StartsWith(key, "data/") &&
          absl::StrContains(key, "/" + name)) {
        bytes += object.bytes.size();
      }
    }
    return bytes;
  }
  void ExpectRefused(const std::vector<std::string>& words) {
    const std::vector<int64_t> before = StepsOf(copy());
    const auto fetched = TryUpdate();
    ASSERT_TRUE(absl::IsFailedPrecondition(fetched.status()))
        << fetched.status();
    for (const std::string& word : words) {
      EXPECT_THAT(std::string(fetched.status().message()), HasSubstr(word));
    }
    EXPECT_EQ(StepsOf(copy()), before);
    EXPECT_FALSE(std::filesystem::exists(copy() + ".unfinished"));
  }

  TempDir dir_;
  std::unique_ptr<Store> store_;
  std::optional<RowTrainer> trainer_;
  MemoryStore remote_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_UPDATED_COPY_H_
