// SPDX-License-Identifier: Apache-2.0
// A store is the folder that its path named when it was opened.

#include "db/disk/store_path.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

class StorePathTest : public StoreFixture {
 protected:
  void SetUp() override {
    before_ = fs::current_path();
    fs::create_directories(a());
    fs::create_directories(b());
    fs::current_path(a());
  }
  void TearDown() override { fs::current_path(before_); }
  std::string a() const { return dir_.path() + "/a"; }
  std::string b() const { return dir_.path() + "/b"; }
  std::vector<int64_t> StepsAt(const std::string& path) {
    const auto reader = Reader::Open(path).value();
    for (const int64_t step : StepsOf(*reader))
      EXPECT_OK(reader->OpenStep(step).value()->Verify());
    return StepsOf(*reader);
  }

 private:
  fs::path before_;
};

TEST_F(StorePathTest, ResolvePathTellsTheFolderThatOpenUses) {
  fs::create_directory_symlink(b(), a() + "/link");
  for (const std::string& path :
       {std::string("rel"), a() + "//rel/", std::string("../a/./rel"),
        std::string("link/deep/new")}) {
    ASSERT_OK_AND_ASSIGN(const std::string resolved, Store::ResolvePath(path));
    EXPECT_EQ(fs::exists(resolved), fs::exists(path)) << path;
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(path));
    EXPECT_EQ(store_->path(), resolved) << path;
    store_.reset();
  }
  EXPECT_FALSE(fs::exists(a() + "/none"));
  ASSERT_OK(Store::ResolvePath("none"));
  EXPECT_FALSE(fs::exists(a() + "/none"));
  fs::create_symlink("loop", a() + "/loop");
  for (const std::string& path :
       {std::string(), std::string("x\0y", 3), std::string("loop/x")}) {
    EXPECT_THAT(Store::ResolvePath(path).status(), InvalidArgument("path"))
        << path;
  }
}

// The other folder has a store of that name, too.
TEST_F(StorePathTest, SavesGoWhereTheStoreWasOpenedAfterAChdir) {
  ASSERT_OK_AND_ASSIGN(store_, Store::Open(b() + "/rel"));
  ASSERT_OK(Save(7, BulkContent(7)));
  ASSERT_OK_AND_ASSIGN(store_, Store::Open("rel"));
  EXPECT_EQ(store_->path(), a() + "/rel");
  ASSERT_OK(Save(1, BulkContent(1)));
  fs::current_path(b());
  ASSERT_OK(Save(2, BulkContent(2)));
  ASSERT_OK(Save(3, SmallContent(3)));
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  store_.reset();
  EXPECT_THAT(StepsAt(a() + "/rel"), ElementsAre(2, 3));
  EXPECT_THAT(StepsAt(b() + "/rel"), ElementsAre(7));
  EXPECT_THAT(StepsAt("rel"), ElementsAre(7));
}

TEST_F(StorePathTest, AReaderFollowsTheStoreThatItOpenedAfterAChdir) {
  ASSERT_OK_AND_ASSIGN(store_, Store::Open("rel"));
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open("./rel/"));
  EXPECT_EQ(reader->path(), a() + "/rel");
  fs::current_path(b());
  ASSERT_OK(Save(2, BulkContent(2)));
  ASSERT_OK(reader->Refresh());
  EXPECT_OK(reader->OpenStep(2).value()->Verify());
  EXPECT_TRUE(fs::is_empty(b()));
}

TEST_F(StorePathTest, StagingIsBelowTheFolderOfTheCall) {
  ASSERT_OK_AND_ASSIGN(store_, Store::Open("rel"));
  const Store::Attempt save = Begin({.step = 5});
  ASSERT_OK_AND_ASSIGN(
      const auto staged,
      Stage("../a/rel", save.tickets[0], HeldState(ChildContent(0)).state()));
  ASSERT_OK(store_->Publish(save.version, {&staged, 1}));
  ExpectStep(5, {ChildContent(0)});
}

// A link that is turned elsewhere does not take the store along.
TEST_F(StorePathTest, ALinkIsFollowedOnce) {
  fs::create_directories(a() + "/real");
  fs::create_directory_symlink(a() + "/real", a() + "/link");
  ASSERT_OK_AND_ASSIGN(store_, Store::Open("link/store"));
  EXPECT_EQ(store_->path(), a() + "/real/store");
  ASSERT_OK(Save(1, BulkContent(1)));
  fs::remove(a() + "/link");
  fs::create_directory_symlink(b(), a() + "/link");
  ASSERT_OK(Save(2, BulkContent(2)));
  store_.reset();
  EXPECT_THAT(StepsAt(a() + "/real/store"), ElementsAre(1, 2));
  EXPECT_TRUE(fs::is_empty(b()));
}

TEST_F(StorePathTest, RejectsALinkThatLeadsNowhere) {
  fs::create_directory_symlink(b() + "/none", a() + "/link");
  for (const char* path : {"link", "link/store", "./link/../link"}) {
    const auto dangling =
        FailedPrecondition(absl::StrCat("/a/link\" is a symbolic link to \"",
                                        b(), "/none\", which does not exist"));
    EXPECT_THAT(Store::Open(path).status(), dangling) << path;
    EXPECT_THAT(Reader::Open(path).status(), dangling) << path;
  }
  EXPECT_TRUE(fs::is_empty(b()));
}

TEST_F(StorePathTest, RejectsAPathThatCannotBeResolved) {
  EXPECT_THAT(Store::Open(""), InvalidArgument("path \"\" is empty"));
  EXPECT_THAT(Reader::Open(""), InvalidArgument("path \"\" is empty"));
  EXPECT_THAT(Store::Open(absl::string_view("a\0b", 3)),
              InvalidArgument("NUL byte at position 1"));
  std::ofstream(a() + "/file") << "no folder";
  EXPECT_THAT(Store::Open("file/store"),
              FailedPrecondition("file", "ot a directory"));
  fs::create_symlink("loop", a() + "/loop");
  EXPECT_THAT(Store::Open("loop"), InvalidArgument("loop"));
  const std::string name(256, 'n');
  EXPECT_THAT(Store::Open(name), InvalidArgument(name));
}

TEST_F(StorePathTest, ARelativePathNeedsACurrentFolder) {
  fs::create_directories(a() + "/gone");
  fs::current_path(a() + "/gone");
  fs::remove(a() + "/gone");
  EXPECT_THAT(Store::Open("rel"), Unavailable("path \"rel\""));
  EXPECT_OK(Store::Open(b() + "/absolute"));
}

}  // namespace
}  // namespace ckptdb::testing
