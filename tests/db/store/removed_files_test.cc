// SPDX-License-Identifier: Apache-2.0
// A store whose files are removed or replaced while it is open: nothing is
// acknowledged that cannot be opened again.
#include "tests/db/odd_files.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

class RemovedFilesTest : public StoreFixture {
 protected:
  std::string ManifestPath() const {
    for (const fs::path& file : FilesIn(In("db"))) {
      if (absl::StartsWith(file.filename().string(), "MANIFEST-")) return file;
    }
    return "";
  }
  // Simulates a cleaner that deletes old files.
  void RemoveAllFiles() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(path())) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    for (const fs::path& file : files) fs::remove(file);
  }
  // A copy takes the place of the store's folder, which becomes `old`.
  void ReplaceByCopy(const std::string& old) const {
    fs::copy(path(), path() + ".copy", fs::copy_options::recursive);
    fs::rename(path(), old);
    fs::rename(path() + ".copy", path());
  }
  void ExpectUnusable(const std::string& text) {
    EXPECT_THAT(Save(2, SmallContent(2)), FailedPrecondition(text));
    EXPECT_THAT(Save(3, BulkContent(3)), FailedPrecondition(text));
    EXPECT_THAT(store_->Pin(1), FailedPrecondition(text));
    EXPECT_THAT(store_->Sweep(), FailedPrecondition(text));
    EXPECT_THAT(store_->Close(), DataLoss(text));
  }
};

TEST_F(RemovedFilesTest, SavesAndCloseFailWithTheFileThatWasRemoved) {
  const std::string current = In("db/CURRENT");
  const std::vector<std::function<std::string()>> removals = {
      [&] {
        const std::string manifest = ManifestPath();
        fs::remove(manifest);
        return manifest;
      },
      [&] { return fs::remove(current) ? current : ""; },
      [&] {
        RemoveAllFiles();
        return In("db/MANIFEST-");
      },
      [&] {
        for (const auto& entry : fs::directory_iterator(path()))
          fs::remove_all(entry.path());
        return In("db/MANIFEST-");
      }};
  for (const auto& remove : removals) {
    SaveSmall({1});
    const std::string removed = remove();
    SCOPED_TRACE(removed);
    ExpectUnusable(absl::StrCat(removed));
    store_.reset();
    fs::remove_all(path());
    Reopen();
  }
}

TEST_F(RemovedFilesTest, TheErrorNamesTheRemedy) {
  fs::remove(ManifestPath());
  EXPECT_THAT(Save(1, SmallContent(1)),
              FailedPrecondition("was removed while the store was open",
                                 "restore a backup or save to another folder"));
}

TEST_F(RemovedFilesTest, SaveFails_WhenFilesAreRemovedDuringIt) {
  for (const absl::string_view at :
       {point::kBegun, point::kStaged, point::kChecked, point::kIngested,
        point::kCommitted, point::kFlushed}) {
    for (const RankContent& content : {SmallContent(2), BulkContent(2)}) {
      SCOPED_TRACE(at);
      bool removes = false;
      options_.on_point = [&](absl::string_view passed) {
        if (passed == at && std::exchange(removes, false)) RemoveAllFiles();
      };
      Reopen();
      SaveSmall({1});
      removes = true;
      EXPECT_FALSE(Save(2, content).ok());
      EXPECT_FALSE(removes);
      EXPECT_THAT(store_->Close(),
                  DataLoss("was removed while the store was open"));
      store_.reset();
      options_.on_point = nullptr;
      fs::remove_all(path());
      Reopen();
    }
  }
}

TEST_F(RemovedFilesTest, CloseFails_WhenFilesWereRemovedAfterTheLastSave) {
  SaveSmall({1});
  RemoveAllFiles();
  EXPECT_THAT(store_->Close(), DataLoss("MANIFEST-", "was removed"));
  EXPECT_OK(store_->Close());
}

TEST_F(RemovedFilesTest, BothFoldersStayWhole_WhenACopyReplacesTheStore) {
  ASSERT_OK(Save(1, BulkContent(1)));
  const std::string old = path() + ".old";
  ReplaceByCopy(old);
  ExpectUnusable("was replaced while the store was open");
  for (const std::string& folder : {path(), old}) {
    SCOPED_TRACE(folder);
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(folder));
    EXPECT_EQ(store->Steps().size(), 1u);
    ASSERT_OK_AND_ASSIGN(const auto step, store->OpenStep(1));
    ExpectHolds(*step, {BulkContent(1)});
  }
}

// The copy may contain any part of the save.
TEST_F(RemovedFilesTest, AcknowledgedStepsStay_WhenACopyReplacesTheStore) {
  for (const absl::string_view at :
       {point::kBegun, point::kStaged, point::kIngested, point::kCommitted,
        point::kFlushed}) {
    SCOPED_TRACE(at);
    const std::string old = path() + ".old";
    bool replaces = false;
    options_.background_sweep = false;
    options_.on_point = [&](absl::string_view passed) {
      if (passed == at && std::exchange(replaces, false)) ReplaceByCopy(old);
    };
    Reopen();
    ASSERT_OK(Save(1, BulkContent(1)));
    replaces = true;
    EXPECT_FALSE(Save(2, BulkContent(2)).ok());
    EXPECT_FALSE(replaces);
    EXPECT_THAT(store_->Close(), DataLoss("was replaced"));
    options_.on_point = nullptr;
    Reopen();
    ExpectStep(1, {BulkContent(1)});
    SaveSmall({3});
    store_.reset();
    fs::remove_all(path());
    fs::remove_all(old);
  }
}

// A new owner removes the former one's MANIFEST, which is not a loss.
TEST_F(RemovedFilesTest, ClosesWithoutAnErrorAfterAnotherOwner) {
  options_.environment = EnvironmentThatGrantsEveryLock();
  Reopen();
  SaveSmall({1});
  ASSERT_OK_AND_ASSIGN(const auto second, Store::Open(path(), options_));
  EXPECT_THAT(Save(2, SmallContent(2)), FailedPrecondition("taken over"));
  EXPECT_OK(store_->Close());
}

}  // namespace
}  // namespace ckptdb::testing
