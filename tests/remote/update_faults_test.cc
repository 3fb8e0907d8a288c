// SPDX-License-Identifier: Apache-2.0
// Updates that are interrupted, or find damaged or deleted objects, leave a
// copy with complete steps.
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "db/internal/crash_points.h"
#include "db/reader.h"
#include "remote/remote_store.h"
#include "tests/remote/updated_copy.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

class UpdateFaultsTest : public UpdatedCopy {};

// A collection deletes the objects after the catalog was read.
TEST_F(UpdateFaultsTest, IsAbortedWhenTheStepIsDeletedMeanwhile) {
  MakeCopy(2);
  PushDelta(3);
  ASSERT_OK(trainer_->SaveFull(4));
  bool collected = false;
  remote_.set_before([&](absl::string_view call, absl::string_view key) {
    if (call != "get" || !absl::StartsWith(key, "data/") || collected) {
      return absl::OkStatus();
    }
    collected = true;
    EXPECT_OK(PushStore(path(), &remote_));
    CollectAllButNewest();
    return absl::OkStatus();
  });
  EXPECT_THAT(TryUpdate({.step = 3}), Aborted());
  EXPECT_THAT(StepsOf(copy()), ElementsAre(2));
  EXPECT_THAT(Update().steps, ElementsAre(4));
  ExpectSteps({2, 4});
}

TEST_F(UpdateFaultsTest, DetectsDamageBeforeItChangesTheStore) {
  MakeCopy(2);
  ASSERT_OK(trainer_->SaveDelta(3));
  const auto before = remote_.objects();
  Push();
  const auto sound = remote_.objects();
  for (const auto& [key, object] : sound) {
    if (before.contains(key) || key == "format") continue;
    SCOPED_TRACE(key);
    remote_.objects() = sound;
    std::string& bytes = remote_.objects()[key].bytes;
    bytes[bytes.size() / 2] ^= 1;
    if (absl::StartsWith(key, "catalog/") &&
        key != remote_.objects().lower_bound("catalog/")->first) {
      continue;
    }
    EXPECT_THAT(TryUpdate(), DataLoss(key));
    EXPECT_THAT(StepsOf(copy()), ElementsAre(2));
  }
  remote_.objects() = sound;
  Update();
  ExpectSteps({2, 3});
}

// A process that is killed at any point leaves the store as it was or with the
// step; nothing is downloaded twice.
TEST_F(UpdateFaultsTest, EachPointLeavesCompleteSteps) {
  MakeCopy(2);
  int64_t step = 2;
  for (const absl::string_view crash : kFetchPoints) {
    SCOPED_TRACE(crash);
    ++step;
    PushDelta(step);
    FetchOptions options;
    options.keep = 1;
    options.on_point = [&](absl::string_view point) {
      if (point == crash) throw std::runtime_error("killed");
    };
    EXPECT_THAT(TryUpdate(options), Internal("killed"));
    const bool committed =
        crash == point::kFetchCommitted || crash == point::kFetchRemoved;
    EXPECT_EQ(StepsOf(copy()).back(), committed ? step : step - 1);
    const FetchResult fetched = Update({.keep = 1});
    EXPECT_EQ(fetched.data_bytes, 0);
    EXPECT_EQ(fetched.steps.empty(), committed);
    ExpectSteps({step});
  }
}

// The damaged step of the copy is after the one that is added.
TEST_F(UpdateFaultsTest, AddsAStepBeforeADamagedOne) {
  ASSERT_OK(trainer_->SaveFull(1));
  ASSERT_OK(trainer_->SaveFull(5));
  Push();
  Update({.all = true});
  std::filesystem::path last;
  for (const auto& entry :
       std::filesystem::directory_iterator(copy() + "/db")) {
    if (entry.path().extension() == ".sst" && entry.file_size() > 100'000 &&
        entry.path() > last) {
      last = entry.path();
    }
  }
  ASSERT_FALSE(last.empty());
  std::filesystem::resize_file(last, 1000);
  trainer_.emplace(store_.get());  // has no parent
  ASSERT_OK(trainer_->SaveFull(3));
  Push();
  EXPECT_THAT(Update().steps, ElementsAre(3));
  EXPECT_THAT(StepsOf(copy()), ElementsAre(1, 3, 5));
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(copy()));
  for (const int64_t step : {1, 3}) {
    ASSERT_OK_AND_ASSIGN(const auto opened, reader->OpenStep(step));
    EXPECT_OK(opened->Verify());
  }
}

TEST_F(UpdateFaultsTest, ContinuesAnInterruptedDownload) {
  MakeCopy(1);
  PushDeltas(2, 6);
  int reads = 0;
  remote_.set_before([&](absl::string_view call, absl::string_view key) {
    const bool fails =
        call == "get" && absl::StartsWith(key, "data/") && ++reads == 4;
    return fails ? absl::UnavailableError("cut") : absl::OkStatus();
  });
  EXPECT_THAT(TryUpdate({.connections = 1}), Unavailable("cut"));
  EXPECT_THAT(StepsOf(copy()), ElementsAre(1));
  const FetchResult fetched = Update();
  EXPECT_EQ(fetched.data_files, 2);
  EXPECT_EQ(fetched.data_bytes, DataBytes(4) + DataBytes(5));
  ExpectSteps({1, 6});
}

}  // namespace
}  // namespace ckptdb::testing
