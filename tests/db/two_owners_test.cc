// One owner at a time.
#include <gmock/gmock.h>
#include <rocksdb/file_system.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/environment.h"
#include "ckptdb/tests/db/child.h"
#include "ckptdb/tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TwoOwnersTest : public StoreFixture {
 protected:
  static std::string Host() {
    std::array<char, 256> name{};
    EXPECT_EQ(gethostname(name.data(), name.size() - 1), 0);
    return name.data();
  }
};

TEST_F(TwoOwnersTest, SecondOwnerOfTheSameProcess) {
  ASSERT_OK(Save(1, SmallContent(1)));
  EXPECT_THAT(
      Store::Open(path()),
      StatusIs(absl::StatusCode::kUnavailable,
               AllOf(HasSubstr(path()), HasSubstr(std::to_string(getpid())),
                     HasSubstr(Host()))));
  const auto holder = Store::Open(path()).status().GetPayload(kHolderPayload);
  ASSERT_TRUE(holder.has_value());
  EXPECT_EQ(std::string(*holder),
            absl::StrCat("pid ", getpid(), " on host ", Host()));
  ASSERT_OK(Save(2, SmallContent(2)));
  Reopen();
  ExpectStep(1, {SmallContent(1)});
}

TEST_F(TwoOwnersTest, AnErrorOfTheLockHasNoHolder) {
  store_.reset();
  std::filesystem::remove(path() + "/LOCK");
  std::filesystem::create_directory(path() + "/LOCK");
  const absl::Status status = Store::Open(path()).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               AllOf(HasSubstr(path()), HasSubstr("lock"))));
  EXPECT_FALSE(status.GetPayload(kHolderPayload).has_value());
}

// The lock is the folder's, whatever it is called.
TEST_F(TwoOwnersTest, SecondOwnerByAnotherPath) {
  const std::string link = dir_.path() + "/link";
  std::filesystem::create_directory_symlink(path(), link);
  EXPECT_THAT(Store::Open(link), StatusIs(absl::StatusCode::kUnavailable,
                                          HasSubstr(std::to_string(getpid()))));
  EXPECT_THAT(Store::Open(path() + "/../store/"),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr(std::to_string(getpid()))));
  EXPECT_OK(Save(1, SmallContent(1)));
}

TEST_F(TwoOwnersTest, SecondOwnerOfAnotherProcess) {
  Child child({"hold", path()});
  EXPECT_THAT(child.ReadLine(),
              AllOf(HasSubstr("UNAVAILABLE"), HasSubstr(path()),
                    HasSubstr(std::to_string(getpid())), HasSubstr(Host())));
  EXPECT_EQ(child.Wait(), 1);
  // What the other one tried has not loosened our hold.
  Child again({"hold", path()});
  EXPECT_THAT(again.ReadLine(), HasSubstr("UNAVAILABLE"));
  EXPECT_OK(Save(1, SmallContent(1)));
}

TEST_F(TwoOwnersTest, ErrorNamesTheOtherProcess) {
  store_.reset();
  Child child({"hold", path()});
  ASSERT_EQ(child.ReadLine(), "ok");
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Store::Open(path()),
                StatusIs(absl::StatusCode::kUnavailable,
                         AllOf(HasSubstr(std::to_string(child.pid())),
                               HasSubstr(Host()))));
  }
  child.CloseInput();
  EXPECT_EQ(child.Wait(), 0);
  Reopen();
}

TEST_F(TwoOwnersTest, NextOwnerAfterTheHolderWasKilled) {
  ASSERT_OK(Save(1, BulkContent(1)));
  store_.reset();
  Child child({"hold", path()});
  ASSERT_EQ(child.ReadLine(), "ok");
  child.Kill();
  Reopen();
  ExpectStep(1, {BulkContent(1)});
  ASSERT_OK(Save(2, SmallContent(2)));
}

TEST_F(TwoOwnersTest, FailedOpenLeavesNoHold) {
  store_.reset();
  StoreOptions missing;
  missing.create_if_missing = false;
  EXPECT_THAT(Store::Open(dir_.path() + "/other", missing),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("other")));
  EXPECT_OK(Store::Open(dir_.path() + "/other"));
}

// As some network file systems do.
class GrantsEveryLock : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "GrantsEveryLock"; }
  rocksdb::IOStatus LockFile(const std::string& path,
                             const rocksdb::IOOptions& options,
                             rocksdb::FileLock** lock,
                             rocksdb::IODebugContext* debug) override {
    return FileSystemWrapper::LockFile(absl::StrCat(path, ++locks_), options,
                                       lock, debug);
  }

 private:
  std::atomic<int> locks_ = 0;
};

TEST_F(TwoOwnersTest, AnOwnerThatAnotherOneHasFollowedWritesNoMore) {
  const std::shared_ptr<Environment> machine = Environment::Default();
  options_.environment = std::make_shared<Environment>(
      std::make_shared<GrantsEveryLock>(machine->file_system()),
      [machine] { return machine->NowMicros(); }, /*on_disk=*/true);
  Reopen();
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK_AND_ASSIGN(const auto second, Store::Open(path(), options_));
  const auto is_fenced =
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr(path()), HasSubstr("has another owner now"),
                     HasSubstr(std::to_string(getpid()))));
  EXPECT_THAT(Save(2, SmallContent(2)), is_fenced);
  EXPECT_THAT(store_->Pin(1), is_fenced);
  EXPECT_THAT(store_->Delete(1), is_fenced);
  const HeldState held(SmallContent(3));
  EXPECT_OK(second->Save({.step = 3}, held.state()));
  EXPECT_THAT(Save(2, SmallContent(2)), is_fenced);
}

TEST_F(TwoOwnersTest, ANoteThatIsGoneStopsNobody) {
  ASSERT_TRUE(std::filesystem::remove(path() + "/OWNER"));
  EXPECT_OK(Save(1, SmallContent(1)));
}

}  // namespace
}  // namespace ckptdb::testing
