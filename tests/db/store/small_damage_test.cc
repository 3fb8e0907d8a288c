// SPDX-License-Identifier: Apache-2.0
// Damage to one small save leaves the others readable, both those that a
// compaction merged with it and those saved later beside it.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/reader.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RankContent ContentOf(int64_t step) {
  return SmallContent(static_cast<uint64_t>(step));
}

class SmallDamageTest : public StoreFixture {
 protected:
  static constexpr int64_t kSteps = 24;

  // Saves the steps and merges them into one table, whose path it returns.
  std::filesystem::path SaveAndMerge() {
    options_.background_sweep = false;
    Reopen();
    for (int64_t step = 0; step <= kSteps; ++step) {
      EXPECT_OK(Save(step, ContentOf(step)));
    }
    EXPECT_OK(store_->Delete(kSteps));
    EXPECT_OK(store_->Sweep());
    std::filesystem::path merged;
    uintmax_t most = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(path() + "/db")) {
      if (entry.path().extension() != ".sst" || entry.file_size() <= most) {
        continue;
      }
      most = entry.file_size();
      merged = entry.path();
    }
    return merged;
  }

  // Returns the steps that cannot be read.
  std::vector<int64_t> DamagedSteps() const {
    std::vector<int64_t> damaged;
    const auto reader = Reader::Open(path());
    EXPECT_OK(reader.status());
    for (const int64_t step : ListSteps()) {
      const auto read = (*reader)->OpenStep(step);
      EXPECT_OK(read.status());
      const absl::Status verified = (*read)->Verify();
      if (verified.ok()) continue;
      EXPECT_EQ(verified.code(), absl::StatusCode::kDataLoss) << verified;
      damaged.push_back(step);
    }
    return damaged;
  }
};

void FlipByte(const std::filesystem::path& file, uint64_t at) {
  std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
  bytes.seekg(static_cast<std::streamoff>(at));
  const char flipped = static_cast<char>(bytes.get() ^ 1);
  bytes.seekp(static_cast<std::streamoff>(at));
  bytes.put(flipped);
}

TEST_F(SmallDamageTest, AByteOfAMergedTableAffectsOneStep) {
  const std::filesystem::path merged = SaveAndMerge();
  // The last part of a table is its index.
  const uintmax_t values = std::filesystem::file_size(merged) * 3 / 4;
  constexpr uintmax_t kPlaces = 61;
  std::vector<int64_t> met;
  for (uintmax_t place = 0; place < kPlaces; ++place) {
    const uintmax_t at = values * place / kPlaces;
    SCOPED_TRACE(absl::StrCat("byte ", at));
    FlipByte(merged, at);
    const std::vector<int64_t> damaged = DamagedSteps();
    EXPECT_EQ(damaged.size(), 1U) << ::testing::PrintToString(damaged);
    met.insert(met.end(), damaged.begin(), damaged.end());
    FlipByte(merged, at);
  }
  EXPECT_THAT(DamagedSteps(), ElementsAre());
  // Nearly every step was hit.
  std::sort(met.begin(), met.end());
  met.erase(std::unique(met.begin(), met.end()), met.end());
  EXPECT_GE(met.size(), size_t{kSteps} / 2);
}

// After a restore of an older step the numbers of the damaged steps are saved
// again, with keys between those of the damaged table.
TEST_F(SmallDamageTest, StepsSavedAgainBesideADamagedOneAreReadable) {
  const std::filesystem::path merged = SaveAndMerge();
  FlipByte(merged, std::filesystem::file_size(merged) / 2);
  const std::vector<int64_t> damaged = DamagedSteps();
  ASSERT_EQ(damaged.size(), 1U);
  for (int64_t step = damaged[0]; step < kSteps; ++step) {
    ASSERT_OK(store_->Quarantine(step));
  }
  for (int64_t step = damaged[0]; step < kSteps + 4; ++step) {
    ASSERT_OK(Overwrite(step, ContentOf(step + 1000)));
  }
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(DamagedSteps(), ElementsAre());
    for (int64_t step = damaged[0]; step < kSteps + 4; ++step) {
      ExpectStep(step, {ContentOf(step + 1000)});
    }
    Reopen();
    ASSERT_OK(store_->Sweep());
  }
}

// Without the records no step can be found. Which file to bring back is named.
TEST_F(SmallDamageTest, DamagedRecordsNameTheFileAndTheRemedy) {
  for (int64_t step = 0; step < 2; ++step)
    ASSERT_OK(Save(step, ContentOf(step)));
  store_.reset();
  int damaged = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(path() + "/db")) {
    if (entry.path().extension() != ".sst") continue;
    FlipByte(entry.path(), 20);
    const absl::Status status = Reader::Open(path()).status();
    if (!status.ok()) {
      ++damaged;
      EXPECT_THAT(status,
                  StatusIs(absl::StatusCode::kDataLoss,
                           AllOf(HasSubstr(entry.path().filename()),
                                 HasSubstr("from a copy of the store"))));
      EXPECT_EQ(Store::Open(path(), options_).status().code(), status.code());
    }
    FlipByte(entry.path(), 20);
  }
  EXPECT_GE(damaged, 1);
  Reopen();
  ExpectStep(1, {ContentOf(1)});
}

// Its table is never compacted again, so small saves would pile up.
TEST_F(SmallDamageTest, SavesAreStoredInFilesWhileAStepIsQuarantined) {
  const auto placement = [this](int64_t step) {
    const auto read = store_->OpenStep(step);
    EXPECT_OK(read.status());
    return (*read)->ranks().at(0).items.at(0).placement;
  };
  ASSERT_OK(Save(1, ContentOf(1)));
  ASSERT_OK(Save(2, ContentOf(2)));
  EXPECT_EQ(placement(2), Item::Placement::kInline);
  ASSERT_OK(store_->Quarantine(2));
  ASSERT_OK(Save(3, ContentOf(3)));
  EXPECT_EQ(placement(3), Item::Placement::kBulk);
  ExpectStep(3, {ContentOf(3)});
  ASSERT_OK(store_->Delete(2));
  ASSERT_OK(Save(4, ContentOf(4)));
  EXPECT_EQ(placement(4), Item::Placement::kInline);
}

}  // namespace
}  // namespace ckptdb::testing
