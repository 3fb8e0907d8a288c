// SPDX-License-Identifier: Apache-2.0
// Links, FIFOs, devices and huge files in a store's folder: nothing outside it
// is touched, and nothing waits or takes all memory.
#include <fcntl.h>

#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kUuid[] = "01234567-89ab-cdef-0123-456789abcdef";
constexpr char kContent[] = "of somebody else";

class HostileStoreTest : public SweptFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    SaveSmall({1});
    fs::create_directories(outside() + "/below");
    WriteFile(victim(), kContent);
    WriteFile(outside() + "/below/file", kContent);
  }
  std::string outside() const { return dir_.path() + "/outside"; }
  std::string victim() const { return outside() + "/file"; }
  std::string lease() const { return In(absl::StrCat("leases/", kUuid)); }
  // A file that claims more than any machine has memory.
  static void MakeHuge(const std::string& file) {
    WriteFile(file, kContent);
    ASSERT_EQ(truncate(file.c_str(), off_t{1} << 42), 0);
  }
  static void MakeFifo(const std::string& file) {
    ASSERT_EQ(mkfifo(file.c_str(), 0644), 0);
  }
  // Puts what `make` makes in the place of an entry, and back.
  void Exchange(const std::string& name,
                const std::function<void(const std::string&)>& make,
                const std::function<void()>& check) {
    SCOPED_TRACE(name);
    fs::rename(In(name), dir_.path() + "/kept");
    make(In(name));
    check();
    fs::remove(In(name));
    fs::rename(dir_.path() + "/kept", In(name));
  }
  void ExpectOutsideAsItWas() const {
    EXPECT_EQ(ReadFile(victim()), kContent);
    EXPECT_EQ(ReadFile(outside() + "/below/file"), kContent);
    EXPECT_EQ(std::distance(fs::recursive_directory_iterator(outside()),
                            fs::recursive_directory_iterator()),
              3);
  }
};

TEST_F(HostileStoreTest, AFifoHoldsNothingUp) {
  for (const std::string& name : {lease(), In("leases/fifo")}) MakeFifo(name);
  ASSERT_OK(store_->Sweep());
  ASSERT_OK(store_->GetUsage());
  EXPECT_FALSE(fs::exists(lease()));
  store_.reset();
  // A FIFO in the database is an error that names it.
  for (const char* name : {"WATERMARK", "db/CURRENT"}) {
    Exchange(name, MakeFifo, [&] {
      const auto names_it = FailedPrecondition(In(name), "FIFO");
      EXPECT_THAT(Reader::Open(path()), names_it);
      EXPECT_THAT(Store::Open(path()), names_it);
    });
  }
  // A FIFO named OWNER is replaced by renaming.
  fs::remove(In("OWNER"));
  MakeFifo(In("OWNER"));
  Reopen();
  ExpectSmall({1});
  fs::remove(In("OWNER"));
  MakeFifo(In("OWNER"));
  EXPECT_THAT(Store::Open(path()), Unavailable("unknown"));
}

TEST_F(HostileStoreTest, AHugeFileIsNotReadToItsEnd) {
  MakeHuge(lease());
  ASSERT_OK(store_->Sweep());
  EXPECT_FALSE(fs::exists(lease()));
  MakeHuge(In("OWNER"));
  EXPECT_THAT(Store::Open(path()), Unavailable("unknown"));
  store_.reset();
  for (const char* name : {"db/CURRENT", "db/IDENTITY", "WATERMARK"}) {
    Exchange(name, MakeHuge, [&] {
      EXPECT_THAT(Store::Open(path()).status().message(), HasSubstr(In(name)));
    });
  }
  Reopen();
}

TEST_F(HostileStoreTest, ALinkInStagingOrLeasesIsRemovedAndNotFollowed) {
  fs::create_directories(In("staging/78/0"));
  for (const char* name :
       {"staging/link", "staging/77", "staging/78/0/link", "leases/folder"}) {
    fs::create_directory_symlink(outside(), In(name));
  }
  fs::create_symlink(victim(), In("staging/78/file"));
  fs::create_symlink(victim(), In("leases/link"));
  fs::create_symlink(victim(), lease());
  ASSERT_OK(store_->Sweep());
  ExpectOutsideAsItWas();
  EXPECT_TRUE(fs::is_empty(In("staging")));
  EXPECT_TRUE(fs::is_empty(In("leases")));
}

TEST_F(HostileStoreTest, AFolderThatIsALinkIsAnErrorThatNamesIt) {
  const auto link = [&](const std::string& name) {
    fs::create_directory_symlink(outside(), name);
  };
  for (const char* name : {"db", "staging", "leases"}) {
    store_.reset();
    Exchange(name, link, [&] {
      EXPECT_THAT(Store::Open(path(), options_),
                  FailedPrecondition(In(name), "symbolic link"));
      ExpectOutsideAsItWas();
    });
    Reopen();
  }
  // One that comes while the store is open.
  WriteFile(outside() + "/below/" + kUuid, kContent);
  fs::rename(In("leases"), dir_.path() + "/kept");
  fs::create_directory_symlink(outside() + "/below", In("leases"));
  EXPECT_THAT(store_->Sweep(), FailedPrecondition(In("leases")));
  EXPECT_EQ(ReadFile(outside() + "/below/" + kUuid), kContent);
}

TEST_F(HostileStoreTest, NothingIsWrittenThroughALink) {
  store_.reset();
  for (const char* name : {"OWNER", "OWNER.tmp", "WATERMARK.tmp"}) {
    fs::remove(In(name));
    fs::create_symlink(victim(), In(name));
  }
  fs::remove(In("db/LOG"));
  fs::create_symlink(outside() + "/new", In("db/LOG"));
  for (int number = 1; number < 100; ++number) {
    const std::string digits = absl::StrCat(absl::Dec(number, absl::kZeroPad6));
    for (const std::string& name :
         {"db/MANIFEST-" + digits, "db/OPTIONS-" + digits + ".dbtmp",
          "db/" + digits + ".dbtmp"}) {
      if (!fs::exists(In(name))) fs::create_symlink(victim(), In(name));
    }
  }
  Reopen();
  ASSERT_OK(Save(2, BulkContent(2)));
  ASSERT_OK(Save(3, SmallContent(3)));
  store_.reset();
  ExpectOutsideAsItWas();
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(In("OWNER"))));
  Reopen();
  ExpectStep(2, {BulkContent(2)});
}

TEST_F(HostileStoreTest, AFileThatIsALinkIsAnErrorThatNamesIt) {
  ASSERT_OK(Save(2, BulkContent(2)));
  store_.reset();
  std::string table;
  for (const fs::path& file : TableFiles()) {
    if (fs::file_size(file) > 1 << 20) table = file.string();
  }
  ASSERT_NE(table, "");
  fs::create_symlink(victim(), In("db/000099.log"));
  EXPECT_THAT(Store::Open(path(), options_),
              FailedPrecondition(In("db/000099.log"), "symbolic link"));
  fs::remove(In("db/000099.log"));
  fs::rename(table, dir_.path() + "/table");
  fs::create_symlink(dir_.path() + "/table", table);
  EXPECT_THAT(Store::Open(path(), options_),
              FailedPrecondition(table, "symbolic link"));
  EXPECT_TRUE(fs::exists(dir_.path() + "/table"));
  fs::remove(In("LOCK"));
  fs::create_symlink(outside() + "/lock", In("LOCK"));
  EXPECT_THAT(Store::Open(path(), options_),
              FailedPrecondition(In("LOCK"), "link"));
  ExpectOutsideAsItWas();
}

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

TEST_F(HostileStoreTest, ANameThatIsTooLongIsAnInvalidArgument) {
  const std::string name = dir_.path() + "/" + std::string(256, 'x');
  std::string deep = dir_.path();
  for (int i = 0; i < 3000; ++i) deep += "/x";
  for (const std::string& too_long : {name, name + "/store", deep}) {
    EXPECT_THAT(Store::Open(too_long), InvalidArgument("name too long"));
    EXPECT_THAT(Reader::Open(too_long), InvalidArgument("name too long"));
  }
  EXPECT_OK(Store::Open(dir_.path() + "/" + std::string(255, 'x')));
}

}  // namespace
}  // namespace ckptdb::testing
