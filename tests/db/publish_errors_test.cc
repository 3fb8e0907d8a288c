// What Publish and Stage refuse, and that it leaves nothing behind.
#include <gmock/gmock.h>

#include <filesystem>

#include "ckptdb/tests/db/stager_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PublishErrorsTest : public StagerFixture {
 protected:
  void SetUp() override {
    StagerFixture::SetUp();
    save_ = Begin({.step = 7, .world_size = 3});
    contents_ = {SmallRank(0, 3), SmallRank(1, 3), SmallRank(2, 3)};
    staged_ = StageAll(save_, contents_);
  }
  void ExpectRefused(const std::vector<StagedRank>& ranks,
                     const std::vector<std::string>& words) {
    ExpectPublishFails(save_.version, ranks, absl::StatusCode::kInvalidArgument,
                       words);
    EXPECT_THAT(store_->Steps(), IsEmpty());
    // The same attempt may be published again.
    ASSERT_OK(store_->Publish(save_.version, staged_));
    ExpectStep(7, contents_);
  }

  SaveHandle save_;
  std::vector<RankContent> contents_;
  std::vector<StagedRank> staged_;
};

TEST_F(PublishErrorsTest, MissingRank) {
  ExpectRefused({staged_[0], staged_[2]}, {"ranks 1 of 3"});
}

TEST_F(PublishErrorsTest, NoRank) { ExpectRefused({}, {"ranks 0, 1, 2"}); }

TEST_F(PublishErrorsTest, RankTwice) {
  ExpectRefused({staged_[0], staged_[1], staged_[1]}, {"rank 1"});
}

TEST_F(PublishErrorsTest, RankOutOfRange) {
  std::vector<StagedRank> ranks = staged_;
  ranks[2].rank = 3;
  ExpectRefused(ranks, {"rank 3"});
}

TEST_F(PublishErrorsTest, WorldSizeOfAnother) {
  std::vector<StagedRank> ranks = staged_;
  ranks[1].world_size = 4;
  ExpectRefused(ranks, {"rank 1", "4", "3"});
}

TEST_F(PublishErrorsTest, StagedForAnotherStore) {
  ASSERT_OK_AND_ASSIGN(const auto other, Store::Open(dir_.path() + "/other"));
  ASSERT_OK_AND_ASSIGN(const SaveHandle foreign,
                       other->Begin({.step = 7, .world_size = 3}));
  const HeldState held(contents_[0], 100, AnyRank(foreign.tickets[0]));
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       Stage(other->path(), foreign.tickets[0], held.state()));
  ExpectRefused({staged, staged_[1], staged_[2]},
                {"rank 0", other->uuid(), store_->uuid()});
}

TEST_F(PublishErrorsTest, StagedForAnotherAttempt) {
  const SaveHandle stale = Begin({.step = 7, .world_size = 3});
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       StageRank(stale.tickets[2], contents_[2]));
  ExpectRefused({staged_[0], staged_[1], staged},
                {"rank 2", ToString(stale.version), ToString(save_.version)});
}

TEST_F(PublishErrorsTest, UnknownAttempt) {
  ExpectPublishFails({7, 999}, staged_, absl::StatusCode::kNotFound,
                     {"step 7 attempt 999"});
}

TEST_F(PublishErrorsTest, PublishTwice) {
  ASSERT_OK(store_->Publish(save_.version, staged_));
  ExpectPublishFails(save_.version, staged_, absl::StatusCode::kNotFound,
                     {ToString(save_.version)});
  ExpectStep(7, contents_);
}

TEST_F(PublishErrorsTest, StageForAStoreThatIsNotTheTickets) {
  ASSERT_OK_AND_ASSIGN(const auto other, Store::Open(dir_.path() + "/other"));
  const HeldState held(BulkContent(1), 100, AnyRank(save_.tickets[0]));
  const auto staged = Stage(other->path(), save_.tickets[0], held.state());
  EXPECT_FALSE(staged.ok());
}

// Two ranks that do not agree on an item of both.
class DisagreeTest : public StagerFixture {
 protected:
  void ExpectDisagree(const RankContent& zero, const RankContent& one,
                      const std::vector<std::string>& words) {
    const SaveHandle save = Begin({.step = 1, .world_size = 2});
    ExpectPublishFails(save.version, StageAll(save, {zero, one}),
                       absl::StatusCode::kInvalidArgument, words);
    EXPECT_THAT(store_->Steps(), IsEmpty());
    ASSERT_OK(store_->Abandon(save.version));
  }
  static RankContent Shard(DType dtype, int64_t offset, Shape global) {
    RankContent content;
    content.tensors["w"] = {
        dtype, {2}, std::string(8, 'x'), {}, std::move(global), {offset}};
    return content;
  }
  static RankContent Table(std::vector<Slot> slots, SliceHash hash,
                           int64_t id) {
    RankContent content;
    TableContent& table = content.tables["user"];
    table = {std::move(slots), hash, {}};
    table.rows[id] = std::string(table.row_bytes(), 'x');
    return content;
  }
};

TEST_F(DisagreeTest, Tensors) {
  const RankContent zero = Shard(DType::kF32, 0, {4});
  ExpectDisagree(zero, Shard(DType::kI32, 2, {4}),
                 {"\"w\"", "f32", "i32", "ranks 0 and 1"});
  ExpectDisagree(zero, Shard(DType::kF32, 2, {5}),
                 {"\"w\"", "[4]", "[5]", "ranks 0 and 1"});
}

TEST_F(DisagreeTest, Tables) {
  const RankContent zero =
      Table({{"v", DType::kF32, 2}}, SliceHash::kModulo, 0);
  ExpectDisagree(zero, Table({{"v", DType::kF32, 3}}, SliceHash::kModulo, 1),
                 {"\"user\"", "ranks 0 and 1"});
  ExpectDisagree(zero, Table({{"w", DType::kF32, 2}}, SliceHash::kModulo, 1),
                 {"\"user\"", "ranks 0 and 1"});
  ExpectDisagree(zero, Table({{"v", DType::kF32, 2}}, SliceHash::kMix, 1),
                 {"\"user\"", "ranks 0 and 1"});
}

TEST_F(DisagreeTest, BlobsAreOfEachRank) {
  RankContent zero;
  zero.blobs["reader"] = "a";
  RankContent one;
  one.blobs["reader"] = "another";
  const SaveHandle save = Begin({.step = 1, .world_size = 2});
  ASSERT_OK(store_->Publish(save.version, StageAll(save, {zero, one})));
  ExpectStep(1, {zero, one});
}

class StagedBytesTest : public StagerFixture {};

TEST_F(StagedBytesTest, FileThatIsNotThere) {
  const SaveHandle save = Begin({.step = 1});
  std::vector<StagedRank> staged = StageAll(save, {BulkContent(1)});
  ASSERT_FALSE(staged[0].files.empty());
  const std::string file = path() + "/" + staged[0].files[0].path;
  ASSERT_TRUE(std::filesystem::exists(file)) << file;
  std::filesystem::rename(file, dir_.path() + "/aside");
  ExpectPublishFails(save.version, staged, absl::StatusCode::kDataLoss,
                     {staged[0].files[0].path});
  EXPECT_THAT(store_->Steps(), IsEmpty());
  std::filesystem::rename(dir_.path() + "/aside", file);
  ASSERT_OK(store_->Publish(save.version, staged));
  ExpectStep(1, {BulkContent(1)});
}

TEST_F(StagedBytesTest, FileThatWasCutShort) {
  const SaveHandle save = Begin({.step = 1});
  std::vector<StagedRank> staged = StageAll(save, {BulkContent(1)});
  ASSERT_FALSE(staged[0].files.empty());
  const std::string file = path() + "/" + staged[0].files[0].path;
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  ExpectPublishFails(save.version, staged, absl::StatusCode::kDataLoss,
                     {staged[0].files[0].path});
  EXPECT_THAT(store_->Steps(), IsEmpty());
  ASSERT_OK(store_->Abandon(save.version));
  ASSERT_OK(Save(1, BulkContent(2)));
  ExpectStep(1, {BulkContent(2)});
}

TEST_F(StagedBytesTest, FileOutsideOfStaging) {
  const SaveHandle save = Begin({.step = 1});
  for (const char* outside : {"/etc/passwd", "../elsewhere", "db/CURRENT",
                              "staging/../db/CURRENT", ""}) {
    std::vector<StagedRank> staged = StageAll(save, {BulkContent(1)});
    ASSERT_FALSE(staged[0].files.empty());
    staged[0].files[0].path = outside;
    ExpectPublishFails(save.version, staged, absl::StatusCode::kInvalidArgument,
                       {outside});
  }
  EXPECT_THAT(store_->Steps(), IsEmpty());
}

TEST_F(StagedBytesTest, TicketThatPointsOutsideOfStaging) {
  const SaveHandle save = Begin({.step = 1});
  for (const char* outside : {"/tmp", "../elsewhere", "db", ""}) {
    Ticket ticket = save.tickets.at(0);
    ticket.staging = outside;
    EXPECT_THAT(
        StageRank(ticket, BulkContent(1)),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(outside)));
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/elsewhere"));
}

TEST_F(StagedBytesTest, InlineEntryOfAnotherVersion) {
  const SaveHandle save = Begin({.step = 1});
  std::vector<StagedRank> staged = StageAll(save, {SmallContent(1)});
  ASSERT_FALSE(staged[0].inline_entries.empty());
  staged[0].inline_entries[0].first[7] ^= 1;
  ExpectPublishFails(save.version, staged, absl::StatusCode::kInvalidArgument,
                     {"rank 0"});
  EXPECT_THAT(store_->Steps(), IsEmpty());
}

}  // namespace
}  // namespace ckptdb::testing
