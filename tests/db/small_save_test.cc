// What a small save asks of the disk: few syncs, and little more room than its
// bytes take.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "ckptdb/tests/db/sim_store.h"
#include "ckptdb/tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

// Of the log, of the tables it is flushed to, of the manifest and of the
// folders that have their names.
TEST(SmallSaveTest, SyncsAtMostTenTimes) {
  constexpr size_t kMaxSyncs = 10;
  SimStore sim(std::make_shared<SimFileSystem>());
  ASSERT_OK(sim.Open());
  const auto save = [&](int64_t step) {
    return SaveAction(step, InlineStep(static_cast<double>(step))).run(&sim);
  };
  ASSERT_OK(save(1));
  const size_t begin = sim.files()->operations();
  ASSERT_OK(save(2));
  size_t syncs = 0;
  for (size_t k = begin; k < sim.files()->operations(); ++k) {
    const std::string text = sim.files()->OperationText(k);
    if (!absl::StartsWith(text, "sync")) continue;
    std::cout << text << std::endl;
    ++syncs;
  }
  EXPECT_GT(syncs, 0U);
  EXPECT_LE(syncs, kMaxSyncs);
}

class SmallStoreTest : public StoreFixture {
 protected:
  // Given to files in advance, and used, alike.
  uint64_t AllocatedBytes() const {
    constexpr uint64_t kBlockBytes = 512;  // the unit of st_blocks
    uint64_t bytes = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path())) {
      struct stat file {};
      EXPECT_EQ(lstat(entry.path().c_str(), &file), 0) << entry.path();
      bytes += static_cast<uint64_t>(file.st_blocks) * kBlockBytes;
    }
    return bytes;
  }
};

TEST_F(SmallStoreTest, TakesNoRoomInAdvance) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK(store_->Pin(1));
  EXPECT_LE(AllocatedBytes(), kMaxBytes);
  ASSERT_OK(store_->Unpin(1));
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  EXPECT_LE(AllocatedBytes(), kMaxBytes);
}

// A descriptor is held for each file. However late the compactions are, RocksDB
// lets at most 36 files of a family wait for them.
TEST_F(SmallStoreTest, HasFewFilesForManySteps) {
  constexpr int64_t kSteps = 300;
  constexpr int64_t kMaxFiles = 90;
  for (int64_t step = 0; step < kSteps; ++step) {
    ASSERT_OK(Save(step, SmallContent(static_cast<uint64_t>(step))));
  }
  const auto tables = [&] {
    return std::count_if(
        std::filesystem::directory_iterator(path() + "/db"),
        std::filesystem::directory_iterator(),
        [](const auto& entry) { return entry.path().extension() == ".sst"; });
  };
  Reopen();
  EXPECT_LE(tables(), kMaxFiles);
  for (const int64_t step : {int64_t{0}, kSteps / 2, kSteps - 1}) {
    ExpectStep(step, {SmallContent(static_cast<uint64_t>(step))});
  }
}

}  // namespace
}  // namespace ckptdb::testing
