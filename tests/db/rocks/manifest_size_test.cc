// SPDX-License-Identifier: Apache-2.0
// The MANIFEST stays small however long a store is open, and an opening asks
// for no more room than it needs.
#include "db/rocks/manifest_size.h"

#include "db/disk/files.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

class ManifestSizeTest : public StoreFixture {
 protected:
  static constexpr uint64_t kMiB = uint64_t{1} << 20;
  ManifestSizeTest()
      : environment_(
            EnvironmentOf(internal::Environment::Default()->file_system())) {
    options_.environment = environment_;
  }
  std::string database() const { return path() + "/db"; }
  rocksdb::FileSystem* files() const {
    return environment_->file_system().get();
  }
  uint64_t ManifestBytes() const {
    uint64_t bytes = 0;
    for (const auto& file : FilesIn(database())) {
      if (file.filename().string().rfind("MANIFEST-", 0) != 0) continue;
      bytes = std::max<uint64_t>(bytes, std::filesystem::file_size(file));
    }
    return bytes;
  }
  void MakeFile(const std::string& name, uint64_t bytes = 0) {
    const std::string file = absl::StrCat(database(), "/", name);
    std::ofstream(file).close();
    std::filesystem::resize_file(file, bytes);
  }
  std::shared_ptr<internal::Environment> environment_;
};

// Beside a follower, and with sweeps that write to it as well.
TEST_F(ManifestSizeTest, BeginsAnewWhileTheStoreIsOpen) {
  constexpr uint64_t kMost = uint64_t{8} << 10;
  constexpr uint64_t kOneRecord = uint64_t{4} << 10;
  environment_->set_max_manifest_bytes(kMost);
  Reopen();
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
  constexpr int64_t kSaves = 60;
  uint64_t largest = 0;
  for (int64_t step = 1; step <= kSaves; ++step) {
    const auto seed = static_cast<uint64_t>(step);
    const std::vector<int64_t> old =
        step > 2 ? std::vector<int64_t>{step - 2} : std::vector<int64_t>();
    ASSERT_OK(Save(step, step % 8 == 0 ? BulkContent(seed) : SmallContent(seed),
                   {.retire = old}));
    largest = std::max(largest, ManifestBytes());
    ASSERT_OK(reader->Refresh());
    EXPECT_EQ(reader->Latest()->version.step, step);
  }
  EXPECT_LE(largest, kMost + kOneRecord);
  ASSERT_OK(store_->Sweep());
  Reopen();
  EXPECT_THAT(ListSteps(), ::testing::ElementsAre(kSaves - 1, kSaves));
  ExpectStep(kSaves, {SmallContent(kSaves)});
}

// What it begins with grows with the tables, and must not be all that fits.
TEST_F(ManifestSizeTest, HasRoomForAllTables) {
  EXPECT_EQ(internal::MaxManifestBytes(files(), database()).value(), 2 * kMiB);
  constexpr int kTables = 5000;
  for (int i = 0; i < kTables; ++i) MakeFile(absl::StrCat(100'000 + i, ".sst"));
  EXPECT_GE(internal::MaxManifestBytes(files(), database()).value(),
            uint64_t{kTables} * 1024);
}

TEST_F(ManifestSizeTest, AnOpeningPassesOverManifestsThatAreNotInUse) {
  ASSERT_OK(Save(1, SmallContent(1)));
  store_.reset();
  MakeFile("MANIFEST-999999", uint64_t{1} << 40);
  EXPECT_LT(internal::BytesToOpen(files(), database()).value().bytes, kMiB);
  Reopen();
  ExpectStep(1, {SmallContent(1)});
}

// It is written anew without what it has grown by.
TEST_F(ManifestSizeTest, AnOpeningNeedsNoRoomForWhatTheManifestHasGrownBy) {
  store_.reset();
  ASSERT_OK_AND_ASSIGN(const std::string current,
                       internal::ReadFile(files(), database() + "/CURRENT"));
  std::filesystem::resize_file(
      database() + "/" + current.substr(0, current.size() - 1), 100 * kMiB);
  ASSERT_OK_AND_ASSIGN(const internal::OpeningBytes needed,
                       internal::BytesToOpen(files(), database()));
  EXPECT_LT(needed.bytes, kMiB);
  EXPECT_EQ(needed.largest_bytes, 100 * kMiB);
}

TEST_F(ManifestSizeTest, AnOpeningWithoutRoomNamesTheLargestFile) {
  store_.reset();
  MakeFile("999999.log", uint64_t{1} << 40);
  EXPECT_THAT(Store::Open(path(), options_),
              ResourceExhausted("\"999999.log\"", "1099511627776 bytes"));
}

}  // namespace
}  // namespace ckptdb::testing
