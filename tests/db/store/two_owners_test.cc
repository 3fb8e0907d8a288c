// SPDX-License-Identifier: Apache-2.0

#include "tests/db/child.h"
#include "tests/db/odd_files.h"

namespace ckptdb::testing {
namespace {

class TwoOwnersTest : public StoreFixture {
 protected:
  static std::string Host() {
    std::array<char, 256> name{};
    EXPECT_EQ(gethostname(name.data(), name.size() - 1), 0);
    return name.data();
  }
};

TEST_F(TwoOwnersTest, SecondOwnerOfTheSameProcess) {
  SaveSmall({1});
  EXPECT_THAT(Store::Open(path()),
              Unavailable(path(), std::to_string(getpid()), Host()));
  const auto holder = Store::Open(path()).status().GetPayload(kHolderPayload);
  ASSERT_TRUE(holder.has_value());
  EXPECT_EQ(std::string(*holder),
            absl::StrCat("pid ", getpid(), " on host ", Host()));
  // The lock is the folder's, whatever it is called.
  const std::string link = dir_.path() + "/link";
  std::filesystem::create_directory_symlink(path(), link);
  for (const std::string& other : {link, path() + "/../store/"})
    EXPECT_THAT(Store::Open(other), Unavailable(std::to_string(getpid())));
  SaveSmall({2});
  ASSERT_TRUE(std::filesystem::remove(In("OWNER")));  // a note stops nobody
  SaveSmall({3});
  Reopen();
  ExpectSmall({1});
}

TEST_F(TwoOwnersTest, AnErrorOfTheLockHasNoHolder) {
  store_.reset();
  std::filesystem::remove(path() + "/LOCK");
  std::filesystem::create_directory(path() + "/LOCK");
  const absl::Status status = Store::Open(path()).status();
  EXPECT_THAT(status, Unavailable(path(), "lock"));
  EXPECT_FALSE(status.GetPayload(kHolderPayload).has_value());
}

// Somebody may take LOCK for left over from a crash.
TEST_F(TwoOwnersTest, AnOwnerWhoseLockFileWasRemovedStaysTheOwner) {
  ASSERT_OK(Save(1, SmallContent(1)));
  for (const bool replaced : {false, true}) {
    ASSERT_TRUE(std::filesystem::remove(path() + "/LOCK"));
    if (replaced) std::ofstream(path() + "/LOCK") << "pid 1\n";
    const absl::Status second = Store::Open(path()).status();
    EXPECT_THAT(second, Unavailable(std::to_string(getpid())));
    EXPECT_TRUE(second.GetPayload(kHolderPayload).has_value());
    Child child({"hold", path()});
    EXPECT_THAT(child.ReadLine(), HasSubstr("UNAVAILABLE"));
    EXPECT_EQ(child.Wait(), 1);
    ASSERT_OK(Save(replaced ? 3 : 2, SmallContent(2)));
  }
  Reopen();
  ExpectStep(1, {SmallContent(1)});
  ExpectStep(3, {SmallContent(2)});
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

TEST_F(TwoOwnersTest, NextOwnerAfterTheHolderIsGone) {
  ASSERT_OK(Save(1, BulkContent(1)));
  for (const bool killed : {false, true}) {
    store_.reset();
    Child child({"hold", path()});
    ASSERT_EQ(child.ReadLine(), "ok");
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(Store::Open(path()),
                  Unavailable(std::to_string(child.pid()), Host()));
    }
    if (killed) child.Kill();
    EXPECT_EQ(child.Wait(), killed ? -1 : 0);
    Reopen();
    ExpectStep(1, {BulkContent(1)});
    SaveSmall({killed ? 3 : 2});
  }
}

TEST_F(TwoOwnersTest, FailedOpenLeavesNoHold) {
  const std::string other = dir_.path() + "/other";
  EXPECT_THAT(Store::Open(other, {.create_if_missing = false}),
              NotFound("other"));
  EXPECT_OK(Store::Open(other));
}

TEST_F(TwoOwnersTest, AnOwnerThatAnotherOneHasFollowedWritesNoMore) {
  options_.environment = EnvironmentThatGrantsEveryLock();
  Reopen();
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK_AND_ASSIGN(const auto second, Store::Open(path(), options_));
  const auto is_fenced = FailedPrecondition(
      path(), "was taken over by another owner", std::to_string(getpid()));
  EXPECT_THAT(Save(2, SmallContent(2)), is_fenced);
  EXPECT_THAT(store_->Pin(1), is_fenced);
  EXPECT_THAT(store_->Delete(1), is_fenced);
  EXPECT_OK(second->Save({.step = 3}, HeldState(SmallContent(3)).state()));
  EXPECT_THAT(Save(2, SmallContent(2)), is_fenced);
}

// It closes while the other one is there, or after it: what it would remove at
// its close is the other one's by then.
TEST_F(TwoOwnersTest, AnOwnerThatAnotherOneHasFollowedClosesWithoutHarm) {
  options_.environment = EnvironmentThatGrantsEveryLock();
  for (const bool first_closes_last : {false, true}) {
    Reopen();
    const int64_t step = first_closes_last ? 10 : 20;
    ASSERT_OK(Save(step, BulkContent(1)));
    ASSERT_OK_AND_ASSIGN(auto second, Store::Open(path(), options_));
    ASSERT_OK(second->Pin(step));
    const HeldState held(SmallContent(3));
    ASSERT_OK(second->Save({.step = step + 1}, held.state()));
    if (first_closes_last) second.reset();
    store_.reset();
    if (second != nullptr) {
      EXPECT_OK(second->Save({.step = step + 2}, held.state()));
      EXPECT_OK(second->Sweep());
    }
    second.reset();
    Reopen();
    ExpectStep(step, {BulkContent(1)});
    ExpectStep(step + 1, {SmallContent(3)});
    ASSERT_OK(store_->Unpin(step));
  }
}

// Bind mounts: the same folder by two paths that no one can tell from their
// names.
TEST_F(TwoOwnersTest, SecondOwnerOverAnotherMount) {
  ASSERT_OK(Save(1, SmallContent(1)));
  store_.reset();
  const std::string first = dir_.path() + "/first";
  const std::string second = dir_.path() + "/second";
  std::filesystem::create_directory(first);
  std::filesystem::create_directory(second);
  Child child(
      {"--mounts", path(), first, path(), second, "hold", first, second});
  const std::string answer = child.ReadLine();
  if (absl::StrContains(answer, "UNIMPLEMENTED")) GTEST_SKIP() << answer;
  ASSERT_EQ(answer, "ok");
  EXPECT_THAT(child.ReadLine(),
              AllOf(HasSubstr("UNAVAILABLE"), HasSubstr(second),
                    HasSubstr(std::to_string(child.pid()))));
  Reopen();
  ExpectStep(1, {SmallContent(1)});
}

// Two owners that act in turns, on a file system that grants every lock: which
// one comes, saves, removes, sweeps, closes or is killed is drawn. What was
// acknowledged is there in the end.
class TurnsTest : public TwoOwnersTest,
                  public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override { random_.seed(TestSeed() + GetParam()); }
  void Turn() {
    const size_t who = random_() % owners_.size();
    std::unique_ptr<Child>& owner = owners_[who];
    if (owner == nullptr) return Come(who);
    switch (random_() % 8) {
      case 0:
        script_ += absl::StrCat(" ", who, ":close");
        owner->CloseInput();
        EXPECT_EQ(owner->Wait(), 0) << script_;
        owner = nullptr;
        break;
      case 1:
        script_ += absl::StrCat(" ", who, ":kill");
        owner->Kill();
        owner = nullptr;
        break;
      case 2:
        Ask(who, "gc");
        break;
      case 3:
        if (!steps_.empty() && Ask(who, absl::StrCat("rm ", *steps_.begin())))
          steps_.erase(steps_.begin());
        break;
      case 4:
        if (!steps_.empty()) Ask(who, absl::StrCat("touch ", *steps_.begin()));
        break;
      default:
        ++step_;
        if (Ask(who, absl::StrCat("save ", step_))) steps_.insert(step_);
    }
  }
  void CloseAll() {
    for (std::unique_ptr<Child>& owner : owners_) {
      if (owner == nullptr) continue;
      owner->CloseInput();
      EXPECT_EQ(owner->Wait(), 0) << script_;
      owner = nullptr;
    }
  }
  std::mt19937_64 random_;
  std::array<std::unique_ptr<Child>, 2> owners_;
  size_t current_ = 0;  // who came last
  int64_t step_ = 0;
  std::set<int64_t> steps_;
  std::string script_;

 private:
  void Come(size_t who) {
    script_ += absl::StrCat(" ", who, ":come");
    owners_[who] = std::make_unique<Child>(
        std::vector<std::string>{"--grants-locks", "own", path()});
    ASSERT_EQ(owners_[who]->ReadLine(), "ok") << script_;
    current_ = who;
  }
  // Whether it was done: by the owner that came last it always is.
  bool Ask(size_t who, const std::string& command) {
    script_ += absl::StrCat(" ", who, ":", command);
    owners_[who]->Write(command + "\n");
    const std::string answer = owners_[who]->ReadLine();
    if (who == current_) {
      EXPECT_EQ(answer, "ok") << script_;
      return true;
    }
    // It may not have heard of a step of the other one.
    EXPECT_THAT(answer,
                AnyOf(AllOf(HasSubstr("FAILED_PRECONDITION"),
                            HasSubstr("was taken over by another owner")),
                      HasSubstr("NOT_FOUND")))
        << script_;
    return false;
  }
};

TEST_P(TurnsTest, NothingAcknowledgedIsLost) {
  constexpr int kTurns = 24;
  for (int i = 0; i < kTurns && !HasFailure(); ++i) Turn();
  CloseAll();
  SCOPED_TRACE(script_);
  Reopen();
  EXPECT_EQ(ListSteps(), std::vector<int64_t>(steps_.begin(), steps_.end()));
  for (const int64_t step : steps_) {
    const auto seed = static_cast<uint64_t>(step);
    ExpectStep(step, {step % 2 == 0 ? BulkContent(seed) : SmallContent(seed)});
  }
  ASSERT_OK(store_->Sweep());
}

INSTANTIATE_TEST_SUITE_P(Scripts, TurnsTest, ::testing::Range(0, 16));

}  // namespace
}  // namespace ckptdb::testing
