// SPDX-License-Identifier: Apache-2.0
// What readers post, and what the owner makes of it.
#include "db/meta/posts.h"

#include <cmath>

#include "db/base/uuid.h"
#include "schema/records/envelope.h"
#include "schema/types.h"
#include "tests/db/child.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

using ::testing::Field;

constexpr char kPostName[] = "01234567-89ab-cdef-0123-456789abcdef";

class PostsTest : public SweptFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    SaveSmall({1, 2});
    Follow();
  }
  void Follow() { ASSERT_OK_AND_ASSIGN(reader_, Reader::Open(path())); }
  double Auc(int64_t step) const { return Record(step).metrics.at("auc"); }
  void Take() { ASSERT_OK(store_->TakePosts()); }
  std::string Posts() const { return path() + "/posts"; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(Posts()))
      names.push_back(entry.path().filename().string());
    return names;
  }
  std::string PostBytes() const {
    EXPECT_THAT(Names(), SizeIs(1));
    return ReadFile(Posts() + "/" + Names().at(0));
  }
  void Put(const std::string& name, const std::string& bytes) const {
    WriteFile(Posts() + "/" + name, bytes);
  }
  // Nothing of this entry reaches a step, and the owner says so.
  void ExpectPassedOver(const std::string& name, const std::string& reason) {
    Take();
    ExpectSkipped("posts/" + name, reason);
    EXPECT_THAT(Record(1).metrics, IsEmpty());
    EXPECT_FALSE(Record(1).pinned);
  }
  void ExpectSkipped(const ::testing::Matcher<std::string>& path,
                     const std::string& reason) {
    EXPECT_THAT(store_->skipped_posts(),
                ElementsAre(AllOf(
                    Field(&Usage::SkippedEntry::path, path),
                    Field(&Usage::SkippedEntry::reason, HasSubstr(reason)))));
  }
  std::unique_ptr<Reader> reader_;
};

TEST_F(PostsTest, MetricsComeInWithTheNextSave) {
  ASSERT_OK(store_->AddMetrics(1, {{"loss", 0.5}, {"old", 7}}));
  ASSERT_OK(reader_->PostMetrics(1, {{"auc", 0.75}, {"loss", 0.25}}));
  EXPECT_THAT(Names(), SizeIs(1));
  EXPECT_THAT(Record(1).metrics, SizeIs(2)) << "not yet";
  // Unless the caller has taken them.
  ASSERT_OK(Save(3, SmallContent(3), {.take_posts = false}));
  EXPECT_THAT(Names(), SizeIs(1));
  EXPECT_THAT(Record(1).metrics, SizeIs(2));
  SaveSmall({4});
  EXPECT_THAT(
      Record(1).metrics,
      ElementsAre(Pair("auc", 0.75), Pair("loss", 0.25), Pair("old", 7)));
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_THAT(store_->skipped_posts(), IsEmpty());
  ASSERT_OK(reader_->Refresh());
  EXPECT_EQ(reader_->FindStep(1).value().metrics.at("auc"), 0.75);
  Reopen();
  EXPECT_EQ(Auc(1), 0.75);
}

// There are more posts than are taken at once, in a folder that lists them in
// no order.
TEST_F(PostsTest, ManyAreTakenInTheOrderInWhichTheyWerePosted) {
  constexpr int64_t kMost = internal::kMaxPostsAtOnce;
  constexpr int64_t kPosts = kMost + 100;
  const Version version = Record(1).version;
  for (int64_t i = 0; i < kPosts; ++i) {
    Post post;
    post.posted_at_micros = 1 + i;
    post.uuid = internal::NewTimeUuid(post.posted_at_micros);
    post.store_uuid = store_->uuid();
    post.version = version;
    post.metrics["auc"] = static_cast<double>(i);
    ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodePost(post));
    Put(post.uuid, bytes);
  }
  Take();
  EXPECT_EQ(Auc(1), kMost - 1);
  EXPECT_THAT(Names(), SizeIs(kPosts - kMost));
  Take();
  EXPECT_EQ(Auc(1), kPosts - 1);
  EXPECT_THAT(Names(), IsEmpty());
}

// Whatever their number, posts take a bounded part of a save.
TEST_F(PostsTest, LargePostsWaitForLaterLooks) {
  constexpr size_t kMetricsEach = 1800;
  constexpr int kPosts = 10;
  for (int i = 0; i < kPosts; ++i) {
    Metrics large;
    for (size_t m = 0; m < kMetricsEach; ++m)
      large[absl::StrCat(std::string(kMaxNameBytes - 4, 'n'), 1000 + m)] = i;
    ASSERT_OK(reader_->PostMetrics(1, large));
  }
  uint64_t bytes = 0;
  for (const std::string& name : Names())
    bytes += fs::file_size(Posts() + "/" + name);
  ASSERT_GT(bytes, internal::kMaxPostBytesAtOnce);
  Take();
  EXPECT_EQ(Record(1).metrics.begin()->second, kPosts - 3);
  EXPECT_THAT(Names(), SizeIs(2));
  Take();
  EXPECT_EQ(Record(1).metrics.begin()->second, kPosts - 1);
  EXPECT_THAT(Names(), IsEmpty());
}

// Freeing the space of many files may take longer than the save.
TEST_F(PostsTest, TheSweepRemovesPostsThatWereTakenIn) {
  ASSERT_OK(reader_->PostMetrics(1, {{"auc", 0.75}}));
  const std::string name = Names().at(0);
  Take();
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_TRUE(fs::exists(path() + "/staging/0/" + name));
  EXPECT_THAT(store_->Sweep().value().unswept, IsEmpty());
  EXPECT_FALSE(fs::exists(path() + "/staging/0"));
}

TEST_F(PostsTest, ReadersShowPostsThatTheOwnerHasNotTakenIn) {
  ASSERT_OK(store_->AddMetrics(1, {{"auc", 0.5}, {"old", std::nan("")}}));
  ASSERT_OK(reader_->PostMetrics(1, {{"auc", 0.75}, {"old", std::nan("")}}));
  ASSERT_OK(reader_->RequestPin(1));
  ASSERT_OK(reader_->PostMetrics(2, {{"auc", 0.25}}));
  const Reader::Posted expected{{{"auc", 0.75}}, true};
  ASSERT_OK(reader_->Refresh());
  EXPECT_EQ(reader_->FindPosted(1), expected);
  EXPECT_TRUE(reader_->FindPosted(7).empty());
  ASSERT_OK_AND_ASSIGN(const StepRecord first, reader_->FindStep(1));
  EXPECT_EQ(first.metrics.at("auc"), 0.75);
  EXPECT_TRUE(first.pinned);
  EXPECT_EQ(reader_->Steps().at(0).metrics.at("auc"), 0.75);
  EXPECT_EQ(reader_->Latest().value().metrics.at("auc"), 0.25);
  // Any reader does, also after the owner has gone.
  store_.reset();
  Follow();
  EXPECT_EQ(reader_->FindPosted(1), expected);
  Reopen();
  ASSERT_OK(reader_->Refresh());
  EXPECT_TRUE(reader_->FindPosted(1).empty());
  EXPECT_EQ(reader_->Steps().at(0).metrics.at("auc"), 0.75);
  EXPECT_TRUE(reader_->Steps().at(0).pinned);
}

TEST_F(PostsTest, ReadersShowNoPostsThatTheOwnerWillSkip) {
  ASSERT_OK(reader_->PostMetrics(2, {{"auc", 0.5}}));
  const std::string name = Names().at(0);
  const std::string bytes = PostBytes();
  ASSERT_OK(Overwrite(2, SmallContent(9)));
  Put(name, bytes);
  Put(kPostName, "damaged");
  ASSERT_OK(reader_->Refresh());
  EXPECT_TRUE(reader_->FindPosted(2).empty());
  EXPECT_THAT(reader_->FindStep(2).value().metrics, IsEmpty());
}

TEST_F(PostsTest, AnUnpinUndoesAnEarlierPin) {
  ASSERT_OK(reader_->RequestPin(1));
  ASSERT_OK(reader_->RequestUnpin(1));
  ASSERT_OK(store_->Pin(2));
  ASSERT_OK(reader_->RequestUnpin(2));
  ASSERT_OK(reader_->RequestUnpin(2));
  ASSERT_OK(reader_->RequestPin(2));
  Take();
  EXPECT_FALSE(Record(1).pinned);
  EXPECT_TRUE(Record(2).pinned);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(PostsTest, APinComesInWithTheNextSave) {
  ASSERT_OK(reader_->RequestPin(1));
  EXPECT_FALSE(Record(1).pinned);
  EXPECT_THAT(Save(3, SmallContent(3), {.retire = {1}}),
              FailedPrecondition("pinned"));
  EXPECT_TRUE(Record(1).pinned);
  EXPECT_FALSE(Record(2).pinned);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(PostsTest, OpeningTheStoreTakesThemInAndTheLaterOneCounts) {
  store_.reset();
  for (int i = 0; i < 20; ++i)
    ASSERT_OK(reader_->PostMetrics(2, {{"auc", i}, {absl::StrCat("m", i), i}}));
  ASSERT_OK(reader_->RequestPin(2));
  Reopen();
  EXPECT_EQ(Auc(2), 19);
  EXPECT_THAT(Record(2).metrics, SizeIs(21));
  EXPECT_TRUE(Record(2).pinned);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(PostsTest, AFoldIsTheSameStep) {
  const std::vector<int64_t> ids = {1, 2};
  const std::vector<float> values = {1, 2};
  const RowSource::Arrays rows(ids, {{values.data(), sizeof(float)}});
  RankState::Table item{"t", {{"v", DType::kF32, 1}}};
  RankState base;
  base.AddTable("t", item.slots, &rows);
  const Version saved = store_->Save({.step = 10}, base).value().version;
  item.changes = RankState::Changes{&rows, {}};
  RankState changed;
  changed.AddTable(std::move(item));
  ASSERT_OK(store_->Save({.step = 11, .parent = saved}, changed));
  ASSERT_OK(reader_->PostMetrics(11, {{"auc", 0.75}}));
  EXPECT_TRUE(store_->Fold(11).value().folded);
  Take();
  EXPECT_EQ(Auc(11), 0.75);
  EXPECT_NE(Record(11).version, StateOf(Record(11)));
}

TEST_F(PostsTest, WhatCannotBePostedIsAnError) {
  EXPECT_THAT(reader_->PostMetrics(7, {{"auc", 1}}), NotFound("step 7"));
  EXPECT_THAT(reader_->RequestPin(7), NotFound("step 7"));
  EXPECT_THAT(reader_->PostMetrics(1, {{"", 1}}),
              InvalidArgument("name of a metric \"\" is empty"));
  ASSERT_OK(reader_->PostMetrics(1, {}));
  Metrics many;
  for (size_t i = 0; i <= kMaxMetrics; ++i) many[absl::StrCat(i)] = 1;
  EXPECT_THAT(reader_->PostMetrics(1, many),
              InvalidArgument("have 4097 entries; the limit is 4096"));
  Metrics long_names;
  for (int i = 1000; i < 4000; ++i)
    long_names[absl::StrCat(std::string(kMaxNameBytes - 4, 'n'), i)] = 1;
  EXPECT_THAT(reader_->PostMetrics(1, long_names),
              InvalidArgument("the limit is 1048576"));
  EXPECT_THAT(Names(), IsEmpty());
  store_.reset();
  fs::remove_all(path());
  EXPECT_FALSE(reader_->PostMetrics(1, {{"auc", 1}}).ok());
  EXPECT_FALSE(fs::exists(path())) << "no folder is made for a store";
}

TEST_F(PostsTest, PostsOfStepsThatAreGoneOrFullAreToldOf) {
  // An overwrite is another state of the same number.
  ASSERT_OK(reader_->PostMetrics(2, {{"auc", 0.5}}));
  ASSERT_OK(Overwrite(2, SmallContent(9)));
  // The first was taken in before it was written over.
  ASSERT_OK(reader_->PostMetrics(2, {{"auc", 0.25}}));
  Take();
  EXPECT_THAT(Record(2).metrics, IsEmpty());
  ExpectSkipped(HasSubstr("posts/"), "step 2 was overwritten");
  Reopen();
  Follow();
  ASSERT_OK(reader_->PostMetrics(2, {{"auc", 0.5}}));
  ASSERT_OK(store_->Delete(2));
  Take();
  ExpectSkipped(HasSubstr("posts/"), "no step 2");
  // The step has so many by then, from others.
  Reopen();
  Metrics most;
  for (size_t i = 0; i < kMaxMetrics; ++i) most[absl::StrCat(i)] = 1;
  ASSERT_OK(reader_->PostMetrics(1, most));
  ASSERT_OK(reader_->PostMetrics(1, {{"more", 1}}));
  Take();
  EXPECT_THAT(Record(1).metrics, SizeIs(kMaxMetrics));
  ExpectSkipped(HasSubstr("posts/"), "4097 metrics; the limit is");
  EXPECT_THAT(Names(), IsEmpty());
}

// A store that was copied without its empty folders, or made by an older owner.
TEST_F(PostsTest, TheFolderIsMadeWhereItIsMissing) {
  fs::remove(Posts());
  Take();
  ASSERT_OK(reader_->PostMetrics(1, {{"auc", 0.75}}));
  Take();
  EXPECT_EQ(Auc(1), 0.75);
}

TEST_F(PostsTest, DamagedOnesArePassedOver) {
  ASSERT_OK(reader_->PostMetrics(1, {{"auc", 0.75}}));
  const std::string name = Names().at(0);
  const std::string bytes = PostBytes();
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    Put(name, flipped);
    Take();
    EXPECT_THAT(Record(1).metrics, IsEmpty()) << "byte " << at;
    EXPECT_THAT(Names(), IsEmpty()) << "byte " << at;
    Put(name, bytes.substr(0, at));
    Take();
    EXPECT_THAT(Record(1).metrics, IsEmpty()) << "cut at " << at;
  }
  EXPECT_FALSE(store_->skipped_posts().empty());
  Put(name, bytes);
  Take();
  EXPECT_EQ(Auc(1), 0.75);
}

TEST_F(PostsTest, OnesOfOtherNamesStoresAndFormatsArePassedOver) {
  ASSERT_OK(reader_->PostMetrics(1, {{"auc", 0.75}}));
  fs::rename(Posts() + "/" + Names().at(0), Posts() + "/" + kPostName);
  ExpectPassedOver(kPostName, "does not match its file name");
  Reopen();
  const std::string other = dir_.path() + "/other";
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(other));
  ASSERT_OK(store->Save({.step = 1}, HeldState(SmallContent(1)).state()));
  ASSERT_OK(Reader::Open(other).value()->RequestPin(1));
  const fs::path foreign = FilesIn(other + "/posts").at(0);
  fs::rename(foreign, fs::path(Posts()) / foreign.filename());
  ExpectPassedOver(foreign.filename(), "the post belongs to store ");
  Reopen();
  ASSERT_OK(reader_->RequestPin(1));
  const std::string name = Names().at(0);
  const std::string body = PostBytes().substr(internal::kEnvelopeBytes);
  Put(name,
      internal::Seal(internal::RecordKind::kPost, body, kFormatVersion + 1));
  ExpectPassedOver(name, "is newer than");
}

// Nothing outside is touched, and nothing waits or takes all memory.
TEST_F(PostsTest, LinksFifosAndHugeFilesArePassedOver) {
  ASSERT_OK(reader_->RequestPin(1));
  const std::string real = Names().at(0);
  const std::string victim = dir_.path() + "/victim";
  fs::rename(Posts() + "/" + real, victim);
  const auto size = fs::file_size(victim);
  fs::create_symlink(victim, Posts() + "/" + real);
  ExpectPassedOver(real, "is a symbolic link");
  EXPECT_EQ(fs::file_size(victim), size);
  Reopen();
  ASSERT_EQ(mkfifo((Posts() + "/" + kPostName).c_str(), 0644), 0);
  ExpectPassedOver(kPostName, "regular files");
  Reopen();
  Put(kPostName, "");
  ASSERT_EQ(truncate((Posts() + "/" + kPostName).c_str(), off_t{1} << 42), 0);
  ExpectPassedOver(kPostName, "has more than 1048576 bytes");
  EXPECT_THAT(Names(), IsEmpty());
  Reopen();
  fs::create_directory(Posts() + "/" + kPostName);
  Take();
  EXPECT_FALSE(store_->skipped_posts().empty());
  EXPECT_THAT(Names(), SizeIs(1));
  // None of them keeps others away.
  ASSERT_OK(reader_->PostMetrics(1, {{"auc", 0.75}}));
  ASSERT_OK(Save(3, SmallContent(3)));
  EXPECT_EQ(Auc(1), 0.75);
}

TEST_F(PostsTest, AFolderThatIsALinkIsAnErrorThatNamesIt) {
  const std::string outside = dir_.path() + "/outside";
  fs::create_directory(outside);
  fs::remove(Posts());
  fs::create_directory_symlink(outside, Posts());
  EXPECT_THAT(store_->TakePosts(), FailedPrecondition(Posts()));
  EXPECT_THAT(reader_->RequestPin(1), FailedPrecondition(Posts()));
  EXPECT_TRUE(fs::is_empty(outside));
  // A save does without.
  ASSERT_OK(Save(3, SmallContent(3)));
  EXPECT_THAT(store_->skipped_posts(),
              ElementsAre(Field(&Usage::SkippedEntry::path, "posts")));
  store_.reset();
  EXPECT_THAT(Store::Open(path(), options_).status(),
              FailedPrecondition(Posts()));
}

TEST_F(PostsTest, SweepsTellWhatIsNoPost) {
  Put("notes.txt", "mine");
  Put(absl::StrCat(kPostName, ".0123456789abcdef.tmp"), "on its way");
  fs::create_symlink(dir_.path(), Posts() + "/link");
  ASSERT_OK(reader_->PostMetrics(1, {{"auc", 0.75}}));
  EXPECT_THAT(
      store_->Sweep().value().unswept,
      ElementsAre(AllOf(Field(&Usage::SkippedEntry::path, "posts/notes.txt"),
                        Field(&Usage::SkippedEntry::foreign, true))));
  EXPECT_FALSE(fs::is_symlink(Posts() + "/link"));
  EXPECT_THAT(Names(), SizeIs(3)) << "the post waits for a save";
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(2);
  const std::string temporary =
      absl::StrCat(Posts(), "/", kPostName, ".0123456789abcdef.tmp");
  fs::last_write_time(temporary, old);
  ASSERT_OK(store_->Sweep());
  EXPECT_FALSE(fs::exists(temporary));
}

TEST_F(PostsTest, ModesLetAnOwnerOfAnotherUserRead) {
  const mode_t mask = umask(0077);
  ASSERT_OK(reader_->RequestPin(1));
  umask(mask);
  struct stat found {};
  ASSERT_EQ(stat((Posts() + "/" + Names().at(0)).c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777U, 0644U);
}

TEST_F(PostsTest, FromAnotherProcess) {
  Child evaluator({"post", path(), "1", "auc", "0.75"});
  EXPECT_EQ(evaluator.ReadLine(), "ok");
  EXPECT_EQ(evaluator.Wait(), 0);
  EXPECT_THAT(Record(1).metrics, IsEmpty());
  SaveSmall({3});
  EXPECT_EQ(Auc(1), 0.75);
  EXPECT_TRUE(Record(1).pinned);
  // A process that may not write to the folder gets an error.
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  store_.reset();
  fs::permissions(dir_.path(), fs::perms(0755));
  for (const auto& entry : fs::recursive_directory_iterator(path())) {
    fs::permissions(entry.path(),
                    fs::perms(entry.is_directory() ? 0755 : 0644));
  }
  fs::permissions(path(), fs::perms(0755));
  Child nobody({"--nobody", "post", path(), "1", "auc", "0.5"});
  EXPECT_THAT(nobody.ReadLine(), HasSubstr("PERMISSION_DENIED"));
  EXPECT_EQ(nobody.Wait(), 1);
  EXPECT_THAT(Names(), IsEmpty());
}

}  // namespace
}  // namespace ckptdb::testing
