// SPDX-License-Identifier: Apache-2.0
// What Publish and Stage refuse, and that it leaves nothing behind.
#include <gmock/gmock.h>

#include <filesystem>
#include <optional>

#include "absl/strings/escaping.h"
#include "schema/records/staged.h"
#include "schema/status.h"
#include "tests/db/delta_content.h"
#include "tests/db/stager_fixture.h"

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

  Store::Attempt save_;
  std::vector<RankContent> contents_;
  std::vector<StagedRank> staged_;
};

TEST_F(PublishErrorsTest, MissingRank) {
  ExpectRefused({staged_[0], staged_[2]}, {"missing ranks 1 of world size 3"});
}

TEST_F(PublishErrorsTest, RejectsAnEmptyListOfRanks) {
  ExpectRefused({}, {"ranks 0, 1, 2"});
}

TEST_F(PublishErrorsTest, RejectsADuplicateRank) {
  ExpectRefused({staged_[0], staged_[1], staged_[1]}, {"rank 1"});
}

TEST_F(PublishErrorsTest, RankOutOfRange) {
  std::vector<StagedRank> ranks = staged_;
  ranks[2].record().rank = 3;
  ExpectRefused(ranks, {"staged rank 3 is not below the world size 3"});
}

TEST_F(PublishErrorsTest, RankRecordOfAnotherRank) {
  std::vector<StagedRank> ranks = staged_;
  ranks[1].record().rank_record = staged_[2].record().rank_record;
  ExpectRefused(ranks, {"staged rank 1 has the record of " +
                        ToString(save_.version) + " rank 2"});
}

TEST_F(PublishErrorsTest, RankRecordOfAnotherAttempt) {
  const Store::Attempt stale = Begin({.step = 7, .world_size = 3});
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       StageRank(stale.tickets[1], contents_[1]));
  std::vector<StagedRank> ranks = staged_;
  ranks[1].record().rank_record = staged.record().rank_record;
  ExpectRefused(ranks, {"staged rank 1 has the record of " +
                        ToString(stale.version) + " rank 1"});
}

TEST_F(PublishErrorsTest, RankRecordThatIsDamaged) {
  const std::string& record = staged_[1].record().rank_record;
  for (size_t at = 0; at < record.size(); at += 7) {
    std::vector<StagedRank> ranks = staged_;
    ranks[1].record().rank_record[at] = static_cast<char>(record[at] ^ 4);
    ExpectPublishFails(save_.version, ranks, absl::StatusCode::kDataLoss,
                       {"staged rank 1: rank record"});
  }
  EXPECT_THAT(store_->Steps(), IsEmpty());
}

TEST_F(PublishErrorsTest, WorldSizeOfAnother) {
  std::vector<StagedRank> ranks = staged_;
  ranks[1].record().world_size = 4;
  ExpectRefused(ranks, {"rank 1", "4", "3"});
}

TEST_F(PublishErrorsTest, StagedForAnotherStore) {
  ASSERT_OK_AND_ASSIGN(const auto other, Store::Open(dir_.path() + "/other"));
  ASSERT_OK_AND_ASSIGN(const Store::Attempt foreign,
                       other->Begin({.step = 7, .world_size = 3}));
  const HeldState held(contents_[0], 100, AnyRank(foreign.tickets[0]));
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       Stage(other->path(), foreign.tickets[0], held.state()));
  ExpectRefused({staged, staged_[1], staged_[2]},
                {"rank 0", other->uuid(), store_->uuid()});
}

TEST_F(PublishErrorsTest, StagedForAnotherAttempt) {
  const Store::Attempt stale = Begin({.step = 7, .world_size = 3});
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       StageRank(stale.tickets[2], contents_[2]));
  ExpectRefused({staged_[0], staged_[1], staged},
                {"rank 2", ToString(stale.version), ToString(save_.version)});
}

TEST_F(PublishErrorsTest, UnknownAttempt) {
  ExpectPublishFails({7, 999}, staged_, absl::StatusCode::kNotFound,
                     {"step 7 attempt 999"});
  // The attempt is that of another step.
  const Version other = {8, save_.version.attempt};
  ExpectPublishFails(other, staged_, absl::StatusCode::kNotFound,
                     {ToString(other)});
  EXPECT_THAT(store_->Abandon(other), StatusIs(absl::StatusCode::kNotFound,
                                               HasSubstr(ToString(other))));
  ASSERT_OK(store_->Publish(save_.version, staged_));
}

TEST_F(PublishErrorsTest, RejectsASecondPublish) {
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
    const Store::Attempt save = Begin({.step = 1, .world_size = 2});
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
  const Store::Attempt save = Begin({.step = 1, .world_size = 2});
  ASSERT_OK(store_->Publish(save.version, StageAll(save, {zero, one})));
  ExpectStep(1, {zero, one});
}

class StagedBytesTest : public StagerFixture {};

TEST_F(StagedBytesTest, MissingFile) {
  const Store::Attempt save = Begin({.step = 1});
  std::vector<StagedRank> staged = StageAll(save, {BulkContent(1)});
  ASSERT_FALSE(staged[0].record().files.empty());
  const std::string file = path() + "/" + staged[0].record().files[0].path;
  ASSERT_TRUE(std::filesystem::exists(file)) << file;
  std::filesystem::rename(file, dir_.path() + "/aside");
  ExpectPublishFails(save.version, staged, absl::StatusCode::kDataLoss,
                     {staged[0].record().files[0].path});
  EXPECT_THAT(store_->Steps(), IsEmpty());
  std::filesystem::rename(dir_.path() + "/aside", file);
  ASSERT_OK(store_->Publish(save.version, staged));
  ExpectStep(1, {BulkContent(1)});
}

TEST_F(StagedBytesTest, FileThatWasCutShort) {
  const Store::Attempt save = Begin({.step = 1});
  std::vector<StagedRank> staged = StageAll(save, {BulkContent(1)});
  ASSERT_FALSE(staged[0].record().files.empty());
  const std::string file = path() + "/" + staged[0].record().files[0].path;
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  ExpectPublishFails(save.version, staged, absl::StatusCode::kDataLoss,
                     {staged[0].record().files[0].path});
  EXPECT_THAT(store_->Steps(), IsEmpty());
  ASSERT_OK(store_->Abandon(save.version));
  ASSERT_OK(Save(1, BulkContent(2)));
  ExpectStep(1, {BulkContent(2)});
}

TEST_F(StagedBytesTest, FileOutsideOfStaging) {
  const Store::Attempt save = Begin({.step = 1});
  for (const char* outside : {"/etc/passwd", "../elsewhere", "db/CURRENT",
                              "staging/../db/CURRENT", ""}) {
    std::vector<StagedRank> staged = StageAll(save, {BulkContent(1)});
    ASSERT_FALSE(staged[0].record().files.empty());
    staged[0].record().files[0].path = outside;
    ExpectPublishFails(save.version, staged, absl::StatusCode::kInvalidArgument,
                       {outside});
  }
  // Up again from the right folder, to a file that has the right bytes.
  std::vector<StagedRank> staged = StageAll(save, {BulkContent(1)});
  const std::string inside = staged[0].record().files[0].path;
  std::filesystem::copy(path() + "/" + inside, path() + "/copy");
  staged[0].record().files[0].path =
      inside.substr(0, inside.rfind('/')) + "/../../../copy";
  ExpectPublishFails(save.version, staged, absl::StatusCode::kInvalidArgument,
                     {staged[0].record().files[0].path});
  EXPECT_THAT(store_->Steps(), IsEmpty());
}

TEST_F(StagedBytesTest, TicketThatPointsOutsideOfStaging) {
  const Store::Attempt save = Begin({.step = 1});
  for (const char* outside : {"/tmp", "../elsewhere", "db", ""}) {
    Ticket ticket = save.tickets.at(0);
    ticket.record().staging = outside;
    EXPECT_THAT(
        StageRank(ticket, BulkContent(1)),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(outside)));
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/elsewhere"));
}

TEST_F(StagedBytesTest, InlineEntryOfAnotherVersion) {
  const Store::Attempt save = Begin({.step = 1});
  std::vector<StagedRank> staged = StageAll(save, {SmallContent(1)});
  ASSERT_FALSE(staged[0].record().inline_entries.empty());
  staged[0].record().inline_entries[0].first[7] ^= 1;
  ExpectPublishFails(save.version, staged, absl::StatusCode::kInvalidArgument,
                     {"rank 0"});
  EXPECT_THAT(store_->Steps(), IsEmpty());
}

TEST_F(StagedBytesTest, InlineEntryOfAnotherRank) {
  const Store::Attempt save = Begin({.step = 1});
  std::vector<StagedRank> staged = StageAll(save, {SmallContent(1)});
  constexpr size_t kLastOfRank = 15;  // of the 16 bytes of version and rank
  staged[0].record().inline_entries.at(0).first[kLastOfRank] ^= 1;
  ExpectPublishFails(save.version, staged, absl::StatusCode::kInvalidArgument,
                     {"staged rank 0 has an entry of", "rank 1"});
  EXPECT_THAT(store_->Steps(), IsEmpty());
}

TEST_F(StagedBytesTest, InlineEntryUnderNoKey) {
  const Store::Attempt save = Begin({.step = 1});
  std::vector<StagedRank> staged = StageAll(save, {SmallContent(1)});
  std::string& key = staged[0].record().inline_entries.at(0).first;
  key.pop_back();
  ExpectPublishFails(save.version, staged, absl::StatusCode::kDataLoss,
                     {"staged rank 0", absl::BytesToHexString(key)});
  EXPECT_THAT(store_->Steps(), IsEmpty());
}

// Runs of changes that a stager was led to write by the ticket of another save.
class ForeignChangesTest : public StagerFixture {
 protected:
  // Saves rows 1 and 2 whole.
  SaveResult SaveTable(int64_t step, const std::string& name,
                       const Slot& slot) {
    RankContent content;
    TableContent& table = content.tables[name];
    table.slots = {slot};
    for (const int64_t id : {1, 2}) {
      table.rows[id] = std::string(slot.row_bytes(), 'x');
    }
    const auto saved = Save(step, content);
    EXPECT_OK(saved);
    return saved.ok() ? *saved : SaveResult();
  }
  // Row 1 of table "user", whose slot is `slot_`, with the tables of a save
  // over `told` for those of the parent.
  absl::Status PublishOver(const std::optional<Version>& parent,
                           const Version& told) {
    SaveSpec spec{.step = 9, .parent = parent};
    spec.abandoned = SaveSpec::Abandoned::kKeep;
    const Store::Attempt save = Begin(spec);
    spec.parent = told;
    const Store::Attempt other = Begin(spec);
    Ticket ticket = save.tickets.at(0);
    ticket.record().parent_tables = other.tickets.at(0).record().parent_tables;
    const std::string row(slot_.row_bytes(), 'y');
    RankContent content;
    content.tables["user"] = {{slot_}, SliceHash::kModulo, {{1, row}}};
    const HeldChanges held(content, {{"user", {{{1, row}}, {}}}},
                           /*whole=*/false);
    CKPTDB_ASSIGN_OR_RETURN(const StagedRank staged,
                            Stage(path(), ticket, held.state()));
    return store_->Publish(save.version, {staged}).status();
  }

  const Slot slot_{"v", DType::kU8, 3};
};

TEST_F(ForeignChangesTest, OverNoParent) {
  const SaveResult user = SaveTable(1, "user", slot_);
  EXPECT_THAT(PublishOver(std::nullopt, user.version),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a delta save requires SaveSpec::parent")));
}

TEST_F(ForeignChangesTest, OverAParentWithoutTheTable) {
  const SaveResult user = SaveTable(1, "user", slot_);
  const SaveResult item = SaveTable(2, "item", slot_);
  EXPECT_THAT(
      PublishOver(item.version, user.version),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("changes of table \"user\" over parent " +
                         ToString(item.version) + ": it has no such table")));
}

TEST_F(ForeignChangesTest, OverAParentWithOtherSlots) {
  const SaveResult user = SaveTable(1, "user", slot_);
  const SaveResult wider = SaveTable(2, "user", {"v", DType::kU8, 4});
  EXPECT_THAT(PublishOver(wider.version, user.version),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("its schema differs from the parent's")));
  EXPECT_OK(PublishOver(user.version, user.version));
}

}  // namespace
}  // namespace ckptdb::testing
