// SPDX-License-Identifier: Apache-2.0
// Links, FIFOs, devices and huge files in a store's folder: nothing outside it
// is touched, and nothing waits or takes all memory.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/reader.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kUuid[] = "01234567-89ab-cdef-0123-456789abcdef";
constexpr char kContent[] = "of somebody else";

class HostileStoreTest : public StoreFixture {
 protected:
  HostileStoreTest() { options_.background_sweep = false; }

  void SetUp() override {
    StoreFixture::SetUp();
    ASSERT_OK(Save(1, SmallContent(1)));
    fs::create_directories(outside() + "/below");
    WriteFile(victim());
    WriteFile(outside() + "/below/file");
  }

  std::string outside() const { return dir_.path() + "/outside"; }
  std::string victim() const { return outside() + "/file"; }
  std::string In(const std::string& name) const { return path() + "/" + name; }

  static void WriteFile(const std::string& file) {
    std::ofstream(file) << kContent;
  }
  static std::string ReadFile(const std::string& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  // A file that claims more than any machine has memory.
  static void MakeHuge(const std::string& file) {
    WriteFile(file);
    ASSERT_EQ(truncate(file.c_str(), off_t{1} << 42), 0);
  }

  void ExpectOutsideAsItWas() const {
    EXPECT_EQ(ReadFile(victim()), kContent);
    EXPECT_EQ(ReadFile(outside() + "/below/file"), kContent);
    EXPECT_EQ(std::distance(fs::recursive_directory_iterator(outside()),
                            fs::recursive_directory_iterator()),
              3);
  }
};

TEST_F(HostileStoreTest, AFifoAmongLeasesHoldsNothingUp) {
  for (const std::string& name : {std::string(kUuid), std::string("fifo")}) {
    ASSERT_EQ(mkfifo(In("leases/" + name).c_str(), 0644), 0);
  }
  ASSERT_OK(store_->Sweep());
  ASSERT_OK(store_->GetUsage());
  EXPECT_FALSE(fs::exists(In(absl::StrCat("leases/", kUuid))));
}

TEST_F(HostileStoreTest, AFifoInTheDatabaseIsAnErrorThatNamesIt) {
  store_.reset();
  for (const std::string& name :
       {std::string("WATERMARK"), std::string("db/CURRENT")}) {
    fs::rename(In(name), In(name + ".kept"));
    ASSERT_EQ(mkfifo(In(name).c_str(), 0644), 0);
    const auto names_it =
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr(In(name)), HasSubstr("FIFO")));
    EXPECT_THAT(Reader::Open(path()), names_it);
    EXPECT_THAT(Store::Open(path()), names_it);
    fs::remove(In(name));
    fs::rename(In(name + ".kept"), In(name));
  }
  Reopen();
  ExpectStep(1, {SmallContent(1)});
}

// It is replaced by renaming.
TEST_F(HostileStoreTest, AFifoAsOwnerHoldsNothingUp) {
  store_.reset();
  fs::remove(In("OWNER"));
  ASSERT_EQ(mkfifo(In("OWNER").c_str(), 0644), 0);
  Reopen();
  fs::remove(In("OWNER"));
  ASSERT_EQ(mkfifo(In("OWNER").c_str(), 0644), 0);
  EXPECT_THAT(Store::Open(path()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("unknown")));
}

TEST_F(HostileStoreTest, AHugeFileIsNotReadToItsEnd) {
  MakeHuge(In(absl::StrCat("leases/", kUuid)));
  ASSERT_OK(store_->Sweep());
  EXPECT_FALSE(fs::exists(In(absl::StrCat("leases/", kUuid))));
  MakeHuge(In("OWNER"));
  EXPECT_THAT(Store::Open(path()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("unknown")));
  store_.reset();
  for (const std::string& name :
       {std::string("db/CURRENT"), std::string("db/IDENTITY"),
        std::string("WATERMARK")}) {
    fs::rename(In(name), dir_.path() + "/kept");
    MakeHuge(In(name));
    EXPECT_THAT(Store::Open(path()).status().message(), HasSubstr(In(name)));
    fs::rename(dir_.path() + "/kept", In(name));
  }
  Reopen();
}

TEST_F(HostileStoreTest, ALinkInStagingIsRemovedAndNotFollowed) {
  for (const std::string& name : {std::string("link"), std::string("77")}) {
    fs::create_directory_symlink(outside(), In("staging/" + name));
  }
  fs::create_directories(In("staging/78/0"));
  fs::create_directory_symlink(outside(), In("staging/78/0/link"));
  fs::create_symlink(victim(), In("staging/78/file"));
  ASSERT_OK(store_->Sweep());
  ExpectOutsideAsItWas();
  EXPECT_TRUE(fs::is_empty(In("staging")));
}

TEST_F(HostileStoreTest, ALinkAmongLeasesIsRemovedAndNotFollowed) {
  fs::create_symlink(victim(), In("leases/link"));
  fs::create_symlink(victim(), In(absl::StrCat("leases/", kUuid)));
  fs::create_directory_symlink(outside(), In("leases/folder"));
  ASSERT_OK(store_->Sweep());
  ExpectOutsideAsItWas();
  EXPECT_TRUE(fs::is_empty(In("leases")));
}

TEST_F(HostileStoreTest, AFolderThatIsALinkIsAnErrorThatNamesIt) {
  for (const std::string& name :
       {std::string("db"), std::string("staging"), std::string("leases")}) {
    store_.reset();
    fs::rename(In(name), dir_.path() + "/kept");
    fs::create_directory_symlink(outside(), In(name));
    EXPECT_THAT(
        Store::Open(path(), options_),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr(In(name)), HasSubstr("symbolic link"))));
    ExpectOutsideAsItWas();
    fs::remove(In(name));
    fs::rename(dir_.path() + "/kept", In(name));
    Reopen();
  }
  // One that comes while the store is open.
  fs::rename(In("leases"), dir_.path() + "/kept");
  WriteFile(outside() + "/below/" + kUuid);
  fs::create_directory_symlink(outside() + "/below", In("leases"));
  EXPECT_THAT(store_->Sweep(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr(In("leases"))));
  EXPECT_EQ(ReadFile(outside() + "/below/" + kUuid), kContent);
}

TEST_F(HostileStoreTest, NotesAreNotWrittenThroughALink) {
  store_.reset();
  for (const std::string& name :
       {std::string("OWNER"), std::string("WATERMARK")}) {
    fs::create_symlink(victim(), In(name + ".tmp"));
  }
  fs::remove(In("OWNER"));
  fs::create_symlink(victim(), In("OWNER"));
  Reopen();
  ASSERT_OK(Save(2, SmallContent(2)));
  ExpectOutsideAsItWas();
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(In("OWNER"))));
}

TEST_F(HostileStoreTest, DatabaseFilesAreNotWrittenThroughALink) {
  store_.reset();
  fs::remove(In("db/LOG"));
  fs::create_symlink(outside() + "/new", In("db/LOG"));
  for (int number = 1; number < 100; ++number) {
    for (const std::string& name :
         {absl::StrCat("db/MANIFEST-", absl::Dec(number, absl::kZeroPad6)),
          absl::StrCat("db/OPTIONS-", absl::Dec(number, absl::kZeroPad6),
                       ".dbtmp"),
          absl::StrCat("db/", absl::Dec(number, absl::kZeroPad6), ".dbtmp")}) {
      if (!fs::exists(In(name))) fs::create_symlink(victim(), In(name));
    }
  }
  Reopen();
  ASSERT_OK(Save(2, BulkContent(2)));
  ASSERT_OK(Save(3, SmallContent(3)));
  store_.reset();
  ExpectOutsideAsItWas();
  Reopen();
  ExpectStep(2, {BulkContent(2)});
}

TEST_F(HostileStoreTest, ALogThatIsALinkIsAnErrorOrReplaced) {
  ASSERT_OK(Save(2, BulkContent(2)));
  store_.reset();
  fs::create_symlink(victim(), In("db/000099.log"));
  const auto opened = Store::Open(path(), options_);
  EXPECT_THAT(opened, StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr(In("db/000099.log")),
                                     HasSubstr("symbolic link"))));
  ExpectOutsideAsItWas();
}

TEST_F(HostileStoreTest, ADataFileThatIsALinkIsNotRead) {
  ASSERT_OK(Save(2, BulkContent(2)));
  store_.reset();
  std::string table;
  for (const auto& entry : fs::directory_iterator(In("db"))) {
    if (entry.path().extension() == ".sst" && entry.file_size() > 1 << 20) {
      table = entry.path().string();
    }
  }
  ASSERT_NE(table, "");
  fs::rename(table, outside() + "/table");
  fs::create_symlink(outside() + "/table", table);
  EXPECT_THAT(Store::Open(path(), options_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(table), HasSubstr("symbolic link"))));
  EXPECT_TRUE(fs::exists(outside() + "/table"));
}

TEST_F(HostileStoreTest, ALockThatIsALinkIsAnError) {
  store_.reset();
  fs::remove(In("LOCK"));
  fs::create_symlink(outside() + "/lock", In("LOCK"));
  EXPECT_THAT(Store::Open(path(), options_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(In("LOCK")), HasSubstr("link"))));
  ExpectOutsideAsItWas();
}

// A file that has another name elsewhere is not written to either.
TEST_F(HostileStoreTest, AHardLinkIsReplaced) {
  store_.reset();
  fs::remove(In("db/LOG"));
  for (int number = 1; number < 100; ++number) {
    const std::string name =
        absl::StrCat("db/MANIFEST-", absl::Dec(number, absl::kZeroPad6));
    if (!fs::exists(In(name))) fs::create_hard_link(victim(), In(name));
  }
  Reopen();
  store_.reset();
  ExpectOutsideAsItWas();
}

// A file that has another name keeps its mode.
TEST_F(HostileStoreTest, ALockThatIsAHardLinkKeepsItsMode) {
  store_.reset();
  const fs::perms before =
      fs::perms::owner_read | fs::perms::owner_write | fs::perms::others_read;
  fs::permissions(victim(), before);
  for (const std::string name : {"LOCK", "db/LOCK"}) {
    fs::remove(In(name));
    fs::create_hard_link(victim(), In(name));
    Reopen();
    ASSERT_OK(store_->Pin(1));
    store_.reset();
    fs::remove(In(name));
    EXPECT_EQ(fs::status(victim()).permissions(), before) << name;
  }
  ExpectOutsideAsItWas();
}

TEST_F(HostileStoreTest, AStoreIsOpenedByAPathThatLeadsThroughLinks) {
  store_.reset();
  fs::create_directory_symlink(dir_.path(), dir_.path() + "/way");
  fs::create_directory_symlink("way/store", dir_.path() + "/link");
  ASSERT_OK_AND_ASSIGN(store_, Store::Open(dir_.path() + "/link", options_));
  ASSERT_OK(Save(2, BulkContent(2)));
  ASSERT_OK_AND_ASSIGN(const auto reader,
                       Reader::Open(dir_.path() + "/way/store"));
  ASSERT_OK(reader->OpenStep(2));
  store_.reset();
  ASSERT_OK_AND_ASSIGN(store_, Store::Open(dir_.path() + "/way/new/store"));
  EXPECT_TRUE(fs::is_directory(dir_.path() + "/new/store/db"));
}

TEST_F(HostileStoreTest, ANameThatIsTooLongIsAnInvalidArgument) {
  const std::string name = dir_.path() + "/" + std::string(256, 'x');
  const std::string deep = dir_.path() + "/" + [] {
    std::string folders;
    for (int i = 0; i < 3000; ++i) folders += "x/";
    return folders;
  }();
  for (const std::string& too_long : {name, name + "/store", deep}) {
    EXPECT_THAT(Store::Open(too_long),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("name too long")));
    EXPECT_THAT(Reader::Open(too_long),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("name too long")));
  }
  const std::string longest = dir_.path() + "/" + std::string(255, 'x');
  EXPECT_OK(Store::Open(longest));
}

}  // namespace
}  // namespace ckptdb::testing
