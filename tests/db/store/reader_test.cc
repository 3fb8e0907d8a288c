// SPDX-License-Identifier: Apache-2.0
// A reader beside an owner, and leases.

#include "db/meta/lease.h"
#include "tests/db/child.h"
#include "tests/db/store_fixture.h"
#include "tests/support/as_nobody.h"

namespace ckptdb::testing {
namespace {

class ReaderTest : public SweptFixture {
 protected:
  std::unique_ptr<Reader> OpenReader(const StoreOptions& options = {}) {
    auto reader = Reader::Open(path(), options);
    EXPECT_OK(reader);
    return reader.ok() ? *std::move(reader) : nullptr;
  }
};

TEST_F(ReaderTest, NoStoreIsNotFound) {
  const std::string none = dir_.path() + "/none";
  EXPECT_THAT(Reader::Open(none), NotFound(none));
  EXPECT_FALSE(std::filesystem::exists(none));
  std::filesystem::create_directory(none);
  EXPECT_THAT(Reader::Open(none), NotFound(none));
  EXPECT_TRUE(std::filesystem::is_empty(none));
}

TEST_F(ReaderTest, ReadsBesideTheOwnerAndWithoutOne) {
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK(Save(2, SmallContent(2)));
  auto reader = OpenReader();
  EXPECT_EQ(reader->path(), path());
  const std::string& uuid = reader->uuid();
  ASSERT_OK(reader->Refresh());
  EXPECT_EQ(uuid, store_->uuid());
  EXPECT_THAT(StepsOf(*reader), ElementsAre(1, 2));
  EXPECT_EQ(reader->Latest().value(), store_->Latest().value());
  for (const bool owned : {true, false}) {
    if (!owned) store_.reset();
    if (!owned) reader = OpenReader();
    for (const int64_t number : {1, 2}) {
      ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(number));
      ExpectHolds(*step, {number == 1 ? BulkContent(1) : SmallContent(2)});
      EXPECT_OK(step->Verify());
    }
  }
}

// Steps of the one must not be taken for those of the other.
TEST_F(ReaderTest, AnotherStoreInItsPlaceIsAnError) {
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK(Save(2, SmallContent(2)));
  const auto reader = OpenReader();
  ASSERT_OK(reader->Refresh());
  store_.reset();
  std::filesystem::remove_all(path());
  const auto replaced = FailedPrecondition(path(), "removed or replaced");
  EXPECT_THAT(reader->Refresh(), replaced);
  Reopen();
  EXPECT_THAT(reader->Refresh(), replaced);
  ASSERT_OK(Save(1, SmallContent(3)));
  EXPECT_THAT(reader->Refresh(), replaced);
  EXPECT_THAT(reader->OpenStep(7), replaced);
  EXPECT_THAT(StepsOf(*reader), ElementsAre(1, 2));
  const auto another = OpenReader();
  EXPECT_THAT(StepsOf(*another), ElementsAre(1));
}

TEST_F(ReaderTest, AnswersAsOfTheLastRefresh) {
  const auto reader = OpenReader();
  const UserMetadata metadata = {{"run", "a"}};
  EXPECT_THAT(reader->Latest(), NotFound(path()));
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK(store_->SetUserMetadata(metadata));
  EXPECT_THAT(reader->Steps(), IsEmpty());
  EXPECT_THAT(reader->user_metadata(), IsEmpty());
  ASSERT_OK(reader->Refresh());
  EXPECT_THAT(StepsOf(*reader), ElementsAre(1));
  EXPECT_EQ(reader->user_metadata(), metadata);
  ASSERT_OK(Save(2, SmallContent(2)));
  ASSERT_OK(store_->Pin(1));
  ASSERT_OK(store_->Quarantine(2));
  ASSERT_OK(reader->Refresh());
  EXPECT_TRUE(reader->FindStep(1).value().pinned);
  EXPECT_EQ(reader->Latest().value().version.step, 1);
  ASSERT_OK(store_->Unpin(1));
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(reader->Refresh());
  EXPECT_THAT(StepsOf(*reader), ElementsAre(2));
  EXPECT_THAT(reader->FindStep(1), NotFound("step 1"));
}

TEST_F(ReaderTest, OpenStepCatchesUp) {
  const auto reader = OpenReader();
  ASSERT_OK(Save(1, BulkContent(1)));
  {
    ASSERT_OK_AND_ASSIGN(const auto before, reader->OpenStep(1));
    ASSERT_OK(Overwrite(1, BulkContent(2)));
    ASSERT_OK(store_->Sweep());
    ASSERT_OK_AND_ASSIGN(const auto after, reader->OpenStep(1));
    ExpectHolds(*before, {BulkContent(1)});
    ExpectHolds(*after, {BulkContent(2)});
  }
  ASSERT_OK(store_->Delete(1));
  EXPECT_THAT(reader->OpenStep(1), NotFound("step 1"));
  EXPECT_EQ(LeaseFiles(), 0u);
}

class LeaseTest : public ReaderTest {
 protected:
  void ExpectFreed() {
    EXPECT_THAT(UsageNow().held_versions, IsEmpty());
    EXPECT_LT(UsageNow().disk_bytes, kBulkTensorBytes);
  }
};

TEST_F(LeaseTest, RetiredStepStaysWholeWhileItIsOpen) {
  ASSERT_OK_AND_ASSIGN(const SaveResult saved, Save(1, BulkContent(1)));
  const auto reader = OpenReader();
  ASSERT_OK_AND_ASSIGN(auto step, reader->OpenStep(1));
  ASSERT_OK(Save(2, SmallContent(2), {.retire = {1}}));
  EXPECT_THAT(Swept(), IsEmpty());
  const Usage usage = UsageNow();
  ASSERT_THAT(usage.held_versions, SizeIs(1));
  EXPECT_EQ(usage.held_versions[0].version, saved.version);
  EXPECT_EQ(usage.held_versions[0].reason, Usage::Held::Reason::kLeased);
  ExpectHolds(*step, {BulkContent(1)});
  EXPECT_OK(step->Verify());
  step.reset();
  EXPECT_EQ(LeaseFiles(), 0u);
  EXPECT_THAT(Swept(), ElementsAre(saved.version));
  ExpectFreed();
}

TEST_F(LeaseTest, InlineStepStaysToo) {
  ASSERT_OK_AND_ASSIGN(const SaveResult saved, Save(1, SmallContent(1)));
  const auto reader = OpenReader();
  ASSERT_OK_AND_ASSIGN(auto step, reader->OpenStep(1));
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  ASSERT_OK(reader->Refresh());
  ExpectHolds(*step, {SmallContent(1)});
  step.reset();
  EXPECT_THAT(Swept(), ElementsAre(saved.version));
}

TEST_F(LeaseTest, HoldsWhatTheStepRefersTo) {
  RankContent content;
  content.tensors["bulk"] = BulkTensor(1);
  for (const int64_t step : {1, 2}) ASSERT_OK(Save(step, content));
  const auto reader = OpenReader();
  ASSERT_OK_AND_ASSIGN(auto step, reader->OpenStep(2));
  DeleteSteps({1, 2});
  EXPECT_THAT(Swept(), IsEmpty());
  ExpectHolds(*step, {content});
  step.reset();
  EXPECT_THAT(Swept(), SizeIs(2));
  ExpectFreed();
}

TEST_F(LeaseTest, OutlivesTheOwnerAndOtherReaders) {
  ASSERT_OK(Save(1, BulkContent(1)));
  const auto reader1 = OpenReader();
  const auto reader2 = OpenReader();
  ASSERT_OK_AND_ASSIGN(auto step1, reader1->OpenStep(1));
  ASSERT_OK_AND_ASSIGN(auto step2, reader2->OpenStep(1));
  ASSERT_OK_AND_ASSIGN(auto step3, reader2->OpenStep(1));
  ASSERT_OK(store_->Delete(1));
  Reopen();
  step1.reset();
  step3.reset();
  ASSERT_OK(store_->Sweep());
  ExpectHolds(*step2, {BulkContent(1)});
  step2.reset();
  ASSERT_OK(store_->Sweep());
  ExpectFreed();
}

TEST_F(LeaseTest, ReaderOfAnotherProcess) {
  ASSERT_OK(Save(1, BulkContent(1)));
  Child child({"lease", path(), "1"});
  ASSERT_EQ(child.ReadLine(), "ok");
  ASSERT_OK(store_->Delete(1));
  EXPECT_THAT(Swept(), IsEmpty());
  child.Write("verify\n");
  EXPECT_EQ(child.ReadLine(), "ok");
  EXPECT_EQ(child.Wait(), 0);
  ASSERT_OK(store_->Sweep());
  ExpectFreed();
}

TEST_F(LeaseTest, RefreshOfAnotherProcess) {
  Child child({"steps", path()});
  ASSERT_EQ(child.ReadLine(), "ok");
  child.Write("\n");
  EXPECT_EQ(child.ReadLine(), "");
  ASSERT_OK(Save(3, BulkContent(3)));
  ASSERT_OK(Save(5, SmallContent(5)));
  child.Write("\n");
  EXPECT_EQ(child.ReadLine(), "3 5 ");
  ASSERT_OK(store_->Delete(3));
  ASSERT_OK(store_->Sweep());
  child.Write("\n");
  EXPECT_EQ(child.ReadLine(), "5 ");
}

// The owner's clock runs ahead of the lease of a reader that was killed.
TEST_F(LeaseTest, LeaseOfADeadReaderExpires) {
  std::atomic<int64_t> ahead_micros{0};
  options_.environment =
      EnvironmentOf(internal::Environment::Default()->file_system(), [&] {
        return internal::Environment::Default()->NowMicros() + ahead_micros;
      });
  Reopen();
  ASSERT_OK_AND_ASSIGN(const SaveResult saved, Save(1, BulkContent(1)));
  Child child({"lease", path(), "1"});
  ASSERT_EQ(child.ReadLine(), "ok");
  child.Kill();
  ASSERT_OK(store_->Delete(1));
  EXPECT_THAT(Swept(), IsEmpty());
  EXPECT_EQ(LeaseFiles(), 1u);
  ahead_micros = 61'000'000;
  EXPECT_THAT(Swept(), ElementsAre(saved.version));
  EXPECT_EQ(LeaseFiles(), 0u);
  ExpectFreed();
  store_.reset();
}

TEST_F(LeaseTest, LeasesThatCannotBeWritten) {
  options_.directory_mode = 0755;
  options_.file_mode = 0644;
  store_.reset();
  std::filesystem::remove_all(path());
  Reopen();
  ASSERT_OK(Save(1, SmallContent(1)));
  chmod(dir_.path().c_str(), 0755);
  chmod((path() + "/leases").c_str(), 0555);
  Child child({"--nobody", "lease", path(), "1"});
  const std::string line = child.ReadLine();
  chmod((path() + "/leases").c_str(), 0755);
  if (line.find("UNIMPLEMENTED") != std::string::npos) GTEST_SKIP() << line;
  EXPECT_THAT(line, AllOf(HasSubstr("PERMISSION_DENIED"),
                          HasSubstr(path() + "/leases")));
}

// Copying programs leave empty folders out; and whoever the reader's user is,
// the owner's may read its leases. What is no lease holds nothing up.
TEST_F(LeaseTest, FolderOfLeases) {
  ASSERT_OK_AND_ASSIGN(const SaveResult saved, Save(1, BulkContent(1)));
  store_.reset();
  std::filesystem::remove(In("leases"));
  const mode_t before = umask(077);
  const auto reader = OpenReader();
  ASSERT_OK_AND_ASSIGN(auto step, reader->OpenStep(1));
  umask(before);
  ASSERT_EQ(LeaseFiles(), 1u);
  for (const auto& lease : FilesIn(In("leases"))) {
    EXPECT_EQ(std::filesystem::status(lease).permissions(),
              std::filesystem::perms(0644));
  }
  step.reset();
  WriteFile(In("leases/notes.txt"), "not a lease");
  std::filesystem::create_directory(In("leases/folder"));
  Reopen();
  ASSERT_OK(store_->Delete(1));
  EXPECT_THAT(Swept(), ElementsAre(saved.version));
}

TEST_F(LeaseTest, AnUnreadableLeaseStopsTheSweep) {
  const std::string folder = path() + "/leases";
  const std::string lease = folder + "/01234567-89ab-cdef-0123-456789abcdef";
  const std::string on_its_way =
      folder + "/11234567-89ab-cdef-0123-456789abcdef.tmp";
  { std::ofstream(on_its_way) << "on its way"; }
  chmod(on_its_way.c_str(), 0);
  { std::ofstream(lease) << "hidden"; }
  for (const std::string& way : {dir_.path(), path(), folder})
    chmod(way.c_str(), 0755);
  chmod(lease.c_str(), 0);
  const auto read = [&](int64_t now_micros = 0) {
    return internal::ReadLeases(
               internal::Environment::Default()->file_system().get(), path(),
               now_micros,
               /*remove_expired=*/false)
        .status();
  };
  {
    const AsNobody nobody;
    if (nobody.failed()) GTEST_SKIP() << "cannot become nobody";
    EXPECT_THAT(read(), PermissionDenied(lease));
    // A lease that its reader would have renewed by then.
    constexpr int64_t kLongestMicros = (kMaxLeaseMs + kMaxClockSkewMs) * 1000;
    constexpr int64_t kMinuteMicros = 60'000'000;
    const int64_t ends =
        internal::Environment::Default()->NowMicros() + kLongestMicros;
    EXPECT_THAT(read(ends - kMinuteMicros), PermissionDenied(lease));
    EXPECT_OK(read(ends + kMinuteMicros));
  }
  chmod(lease.c_str(), 0644);
  {
    const AsNobody nobody;
    EXPECT_OK(read());
  }
  chmod(folder.c_str(), 0);
  {
    const AsNobody nobody;
    EXPECT_THAT(read(), PermissionDenied("\"" + folder + "\""));
  }
  chmod(folder.c_str(), 0700);
}

TEST_F(LeaseTest, LengthAndModeAreChecked) {
  EXPECT_OK(Reader::Open(path(), {.lease_ms = kMaxLeaseMs}));
  EXPECT_THAT(Reader::Open(path(), {.lease_ms = 0}),
              InvalidArgument("lease_ms is 0"));
  EXPECT_THAT(Reader::Open(path(), {.lease_ms = kMaxLeaseMs + 1}),
              InvalidArgument(std::to_string(kMaxLeaseMs)));
  const auto mode = static_cast<StoreOptions::LeaseMode>(3);
  EXPECT_THAT(Reader::Open(path(), {.leases = mode}),
              InvalidArgument("StoreOptions::leases is 3; it must be an "
                              "enumerator, 0 to 2"));
}

TEST_F(ReaderTest, FileThatCannotBeReadIsNamed) {
  ASSERT_OK(Save(1, SmallContent(1)));
  const std::string current = path() + "/db/CURRENT";
  for (const std::string& way : {dir_.path(), path(), path() + "/db"})
    chmod(way.c_str(), 0755);
  chmod(current.c_str(), 0600);
  if (geteuid() != 0) chmod(current.c_str(), 0);
  Child child({"--nobody", "steps", path()});
  const std::string line = child.ReadLine();
  if (line.find("UNIMPLEMENTED") != std::string::npos) GTEST_SKIP() << line;
  EXPECT_THAT(line, AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr(current)));
}

TEST_F(ReaderTest, UsageByNameAddsUpToTheSteps) {
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK(Save(2, BulkContent(1)));
  const auto reader = OpenReader();
  ASSERT_OK_AND_ASSIGN(const Usage usage, reader->GetUsage(/*by_name=*/true));
  ASSERT_THAT(usage.steps, SizeIs(2));
  EXPECT_EQ(usage.steps[0].version.step, 1);
  EXPECT_GE(usage.steps[0].exclusive_bytes, kBulkTensorBytes);
  EXPECT_GE(usage.disk_bytes, kBulkTensorBytes);
  ASSERT_THAT(usage.names, SizeIs(3));
  const Usage::Name& tensors = usage.names[0];
  EXPECT_EQ(tensors.kind, Item::Kind::kTensor);
  EXPECT_EQ(tensors.name, "");
  EXPECT_EQ(tensors.step_count, 1U);  // the second save uses those of the first
  EXPECT_GE(tensors.exclusive_bytes, kBulkTensorBytes);
  const Usage::Name& user = usage.names[1];
  EXPECT_EQ(user.kind, Item::Kind::kRows);
  EXPECT_EQ(user.name, "user");
  EXPECT_EQ(user.step_count, 2U);
  EXPECT_EQ(user.delta_bytes, 0U);
  EXPECT_EQ(usage.names[2].kind, Item::Kind::kBlob);
  EXPECT_EQ(tensors.exclusive_bytes + user.exclusive_bytes +
                usage.names[2].exclusive_bytes,
            usage.steps[0].exclusive_bytes + usage.steps[1].exclusive_bytes);
  EXPECT_THAT(usage.names,
              Each(::testing::Field(&Usage::Name::referenced_bytes, 0U)));
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(reader->Refresh());
  ASSERT_OK_AND_ASSIGN(const Usage kept, reader->GetUsage(/*by_name=*/true));
  ASSERT_THAT(kept.names, SizeIs(3));
  EXPECT_EQ(kept.names[0].referenced_bytes, tensors.exclusive_bytes);
  EXPECT_EQ(kept.names[0].exclusive_bytes, 0U);
  EXPECT_EQ(kept.names[1].referenced_bytes, 0U);
  EXPECT_EQ(kept.names[1].exclusive_bytes, user.exclusive_bytes / 2);
  EXPECT_THAT(reader->GetUsage().value().names, IsEmpty());
}

// An owner that saves, overwrites, retires and sweeps all the time, and a
// reader that opens whatever is the latest: it is there and whole, or gone.
TEST_F(ReaderTest, FollowsABusyOwner) {
  std::atomic<bool> done{false};
  SaveSmall({0});
  const auto reader = OpenReader();
  const auto content = [](int64_t number) {
    return number % 5 == 0 ? SmallContent(number) : BulkContent(number);
  };
  std::thread follower([&] {
    while (!done) {
      EXPECT_OK(Reader::Open(path()));
      ASSERT_OK(reader->Refresh());
      const auto latest = reader->Latest();
      ASSERT_OK(latest);
      const int64_t number = latest->version.step;
      const auto step = reader->OpenStep(number);
      if (step.ok()) {
        ExpectHolds(**step, {content(number)});
      } else {
        EXPECT_THAT(step, NotFound(std::to_string(number)));
      }
    }
  });
  for (int64_t number = 1; number < 40; ++number) {
    EXPECT_OK(Save(number, content(number), {.retire = {number - 1}}));
    EXPECT_OK(store_->Sweep());
  }
  done = true;
  follower.join();
}

}  // namespace
}  // namespace ckptdb::testing
