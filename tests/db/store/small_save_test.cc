// SPDX-License-Identifier: Apache-2.0
// What a small save asks of the disk: few syncs, and little more room than its
// bytes take.
#include <pthread.h>

#include "tests/db/sim_store.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

// The log, the tables it is flushed to, the MANIFEST, and their folders.
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
  // Oldest first.
  std::vector<std::filesystem::path> FilesOfSaves() const {
    auto files = TableFiles();
    std::erase_if(files, [](const auto& file) {
      return !absl::StrContains(ReadFile(file), "ckptdb.greatest_key");
    });
    return files;
  }
  void SaveRange(int64_t begin, int64_t end) {
    for (int64_t step = begin; step < end; ++step) SaveSmall({step});
  }
};

// The middle of the first third of it, which is a block of values.
void DamageFile(const std::filesystem::path& file) {
  std::string bytes = ReadFile(file);
  bytes[bytes.size() / 3] ^= 1;
  WriteFile(file, bytes);
}

// Besides what it sets aside for a full disk.
TEST_F(SmallStoreTest, TakesNoRoomInAdvance) {
  const uint64_t max_bytes = options_.spare_bytes + (uint64_t{1} << 20);
  SaveSmall({1});
  ASSERT_OK(store_->Pin(1));
  EXPECT_LE(AllocatedBytes(), max_bytes);
  ASSERT_OK(store_->Unpin(1));
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  EXPECT_LE(AllocatedBytes(), max_bytes);
}

// A descriptor is held for each file. However late the compactions are, RocksDB
// lets at most 36 files of a family wait for them.
TEST_F(SmallStoreTest, HasFewFilesForManySteps) {
  constexpr int64_t kSteps = 300;
  SaveRange(0, kSteps);
  Reopen();
  EXPECT_LE(TableFiles().size(), 90U);
  EXPECT_THAT(store_->Steps(), SizeIs(kSteps));
  ExpectSmall({0, kSteps / 2, kSteps - 1});
}

// A pass over one step looks into the files of others only where they have
// something of its keys.
TEST_F(SmallStoreTest, DamageInOneSaveLeavesTheOthersWhole) {
  constexpr int64_t kSteps = 3;
  SaveRange(0, kSteps);
  const std::vector<std::filesystem::path> files = FilesOfSaves();
  ASSERT_EQ(files.size(), size_t{kSteps});
  for (int64_t damaged = 0; damaged < kSteps; ++damaged) {
    SCOPED_TRACE(absl::StrCat("step ", damaged, " is damaged"));
    const std::filesystem::path& file = files[static_cast<size_t>(damaged)];
    const std::string whole = ReadFile(file);
    DamageFile(file);
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto verified = reader->OpenStep(step).value()->Verify();
      EXPECT_EQ(absl::IsDataLoss(verified), step == damaged) << verified;
      EXPECT_EQ(verified.ok(), step != damaged) << "step " << step;
    }
    WriteFile(file, whole);
  }
}

// Compactions come upon the damage, in the background and on demand, before and
// after the store is opened again.
TEST_F(SmallStoreTest, DamageInOneSaveStopsNoOther) {
  constexpr int64_t kSteps = 40;  // more files than RocksDB lets wait
  options_.background_sweep = false;
  constexpr int64_t kDamaged = 1;
  SaveRange(0, kDamaged + 1);
  const std::vector<std::filesystem::path> files = FilesOfSaves();
  ASSERT_EQ(files.size(), size_t{kDamaged + 1});
  store_.reset();
  DamageFile(files.back());
  Reopen();
  SaveRange(kDamaged + 1, kSteps);
  Reopen();
  SaveRange(kSteps, 2 * kSteps);
  for (const int64_t removed : {int64_t{0}, kDamaged + 1}) {
    SCOPED_TRACE(removed);
    ASSERT_OK(store_->Delete(removed));
    EXPECT_THAT(store_->Sweep().value().inline_retained_reason,
                HasSubstr(files.back().filename()));
  }
  SaveSmall({2 * kSteps});
  for (int64_t each = 0; each <= 2 * kSteps; ++each) {
    SCOPED_TRACE(each);
    if (each == 0 || each == kDamaged + 1) {
      EXPECT_THAT(store_->OpenStep(each), NotFound());
    } else if (each == kDamaged) {
      EXPECT_THAT(store_->OpenStep(each).value()->Verify(), DataLoss());
    } else {
      ExpectSmall({each});
    }
  }
  ASSERT_OK(store_->Delete(kDamaged));
  ASSERT_OK(store_->Sweep());
}

// The disk is full for RocksDB's threads that compact, and for nobody else.
class NoRoomToCompact : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "NoRoomToCompact"; }
  rocksdb::IOStatus NewWritableFile(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSWritableFile>* made,
      rocksdb::IODebugContext* debug) override {
    std::array<char, 16> thread{};
    pthread_getname_np(pthread_self(), thread.data(), thread.size());
    if (full && absl::EndsWith(path, ".sst") &&
        absl::StartsWith(thread.data(), "rocksdb:low")) {
      ++refused;
      return rocksdb::IOStatus::NoSpace(path);
    }
    return FileSystemWrapper::NewWritableFile(path, options, made, debug);
  }
  std::atomic<bool> full = true;
  std::atomic<int> refused = 0;
};

TEST_F(SmallStoreTest, GoesOnWhenThereIsNoRoomToCompact) {
  const auto files = OnDisk<NoRoomToCompact>();
  options_.environment = EnvironmentOf(files);
  options_.background_sweep = false;
  Reopen();
  constexpr int64_t kSteps = 24;
  for (int64_t step = 0; step < kSteps; ++step) {
    SaveSmall({step});
    ASSERT_OK(store_->Pin(step));
    ASSERT_OK(store_->Unpin(step));
  }
  EXPECT_GT(files->refused, 0);
  const size_t most = TableFiles().size();
  files->full = false;
  ASSERT_OK(store_->Sweep());
  // RocksDB's thread waits for a second before it tries again.
  constexpr int64_t kMostSteps = 5000;
  int64_t step = kSteps;
  for (; TableFiles().size() >= most && step < kMostSteps; ++step)
    SaveSmall({step});
  EXPECT_LT(TableFiles().size(), most);
  Reopen();
  ExpectSmall({0, kSteps - 1, step - 1});
}

}  // namespace
}  // namespace ckptdb::testing
