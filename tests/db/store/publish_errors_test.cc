// SPDX-License-Identifier: Apache-2.0
// What Publish and Stage refuse, and that it leaves nothing behind.

#include "absl/strings/escaping.h"
#include "tests/db/delta_content.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

class PublishErrorsTest : public StoreFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    save_ = Begin({.step = 7, .world_size = 3});
    contents_ = {SmallRank(0, 3), SmallRank(1, 3), SmallRank(2, 3)};
    staged_ = StageAll(save_, contents_);
  }
  void ExpectRefused(const std::vector<StagedRank>& ranks,
                     const std::vector<std::string>& words) {
    SCOPED_TRACE(words.front());
    EXPECT_THAT(store_->Publish(save_.version, ranks), InvalidArgument(words));
    EXPECT_THAT(store_->Steps(), IsEmpty());
  }
  // The same attempt may be published again.
  void TearDown() override {
    ASSERT_OK(store_->Publish(save_.version, staged_));
    ExpectStep(7, contents_);
  }
  Store::Attempt save_;
  std::vector<RankContent> contents_;
  std::vector<StagedRank> staged_;
};

TEST_F(PublishErrorsTest, RejectsMissingAndDuplicateRanks) {
  ExpectRefused({staged_[0], staged_[2]}, {"missing ranks 1 of world size 3"});
  ExpectRefused({}, {"ranks 0, 1, 2"});
  ExpectRefused({staged_[0], staged_[1], staged_[1]}, {"rank 1"});
}

TEST_F(PublishErrorsTest, RankRecordThatIsDamaged) {
  const std::string& record = staged_[1].record().rank_record;
  for (size_t at = 0; at < record.size(); at += 7) {
    std::vector<StagedRank> ranks = staged_;
    ranks[1].record().rank_record[at] = static_cast<char>(record[at] ^ 4);
    EXPECT_THAT(store_->Publish(save_.version, ranks),
                DataLoss("staged rank 1: rank record"));
  }
  EXPECT_THAT(store_->Steps(), IsEmpty());
}

TEST_F(PublishErrorsTest, RejectsRanksOfOtherSaves) {
  std::vector<StagedRank> ranks = staged_;
  ranks[2].record().rank = 3;
  ExpectRefused(ranks, {"staged rank 3 is not below the world size 3"});
  ranks = staged_;
  ranks[1].record().world_size = 4;
  ExpectRefused(ranks, {"rank 1", "4", "3"});
  ranks = staged_;
  ranks[1].record().rank_record = staged_[2].record().rank_record;
  ExpectRefused(ranks, {"staged rank 1 has the record of " +
                        ToString(save_.version) + " rank 2"});
  const Store::Attempt stale = Begin({.step = 7, .world_size = 3});
  const auto others = StageAll(stale, contents_);
  ranks[1].record().rank_record = others[1].record().rank_record;
  ExpectRefused(ranks, {"staged rank 1 has the record of " +
                        ToString(stale.version) + " rank 1"});
  ExpectRefused({staged_[0], staged_[1], others[2]},
                {"rank 2", ToString(stale.version), ToString(save_.version)});
  ASSERT_OK_AND_ASSIGN(const auto other, Store::Open(dir_.path() + "/other"));
  const HeldState held(contents_[0], 100, AnyRank(save_.tickets[0]));
  // It has no folder for this save.
  const HeldState bulk(BulkContent(1), 100, AnyRank(save_.tickets[0]));
  EXPECT_FALSE(Stage(other->path(), save_.tickets[0], bulk.state()).ok());
  ASSERT_OK_AND_ASSIGN(const Store::Attempt foreign,
                       other->Begin({.step = 7, .world_size = 3}));
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       Stage(other->path(), foreign.tickets[0], held.state()));
  ExpectRefused({staged, staged_[1], staged_[2]},
                {"rank 0", other->uuid(), store_->uuid()});
}

TEST_F(PublishErrorsTest, RejectsAnUnknownAttemptAndASecondPublish) {
  // One is an attempt of another step.
  for (const Version& version :
       {Version{7, 999}, Version{8, save_.version.attempt}}) {
    const auto unknown = NotFound(ToString(version));
    EXPECT_THAT(store_->Publish(version, staged_), unknown);
    EXPECT_THAT(store_->Abandon(version), unknown);
  }
  const Store::Attempt twice = Begin({.step = 8, .world_size = 3});
  const auto staged = StageAll(twice, contents_);
  ASSERT_OK(store_->Publish(twice.version, staged));
  EXPECT_THAT(store_->Publish(twice.version, staged),
              NotFound(ToString(twice.version)));
  ExpectStep(8, contents_);
}

class DisagreeTest : public StoreFixture {
 protected:
  void ExpectDisagree(const RankContent& zero, const RankContent& one,
                      const std::vector<std::string>& words) {
    const Store::Attempt save = Begin({.step = 1, .world_size = 2});
    EXPECT_THAT(store_->Publish(save.version, StageAll(save, {zero, one})),
                InvalidArgument(words));
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
  for (const RankContent& one :
       {Table({{"v", DType::kF32, 3}}, SliceHash::kModulo, 1),
        Table({{"w", DType::kF32, 2}}, SliceHash::kModulo, 1),
        Table({{"v", DType::kF32, 2}}, SliceHash::kMix, 1)}) {
    ExpectDisagree(zero, one, {"\"user\"", "ranks 0 and 1"});
  }
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

class StagedBytesTest : public StoreFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    save_ = Begin({.step = 1});
    small_ = StageAll(save_, {SmallContent(1)});
    bulk_ = StageAll(save_, {BulkContent(1)});
    ASSERT_FALSE(small_[0].record().inline_entries.empty());
    ASSERT_FALSE(bulk_[0].record().files.empty());
    file_ = bulk_[0].record().files[0].path;
  }
  absl::Status Publish(const std::vector<StagedRank>& staged) {
    const absl::Status status = store_->Publish(save_.version, staged).status();
    EXPECT_EQ(store_->Steps().empty(), !status.ok());
    return status;
  }
  Store::Attempt save_;
  std::vector<StagedRank> small_;
  std::vector<StagedRank> bulk_;
  std::string file_;  // of bulk_
};

TEST_F(StagedBytesTest, MissingFile) {
  std::filesystem::rename(In(file_), dir_.path() + "/aside");
  EXPECT_THAT(Publish(bulk_), DataLoss(file_));
  std::filesystem::rename(dir_.path() + "/aside", In(file_));
  ASSERT_OK(Publish(bulk_));
  ExpectStep(1, {BulkContent(1)});
}

TEST_F(StagedBytesTest, FileThatWasCutShort) {
  std::filesystem::resize_file(In(file_),
                               std::filesystem::file_size(In(file_)) - 1);
  EXPECT_THAT(Publish(bulk_), DataLoss(file_));
  ASSERT_OK(store_->Abandon(save_.version));
  ASSERT_OK(Save(1, BulkContent(2)));
  ExpectStep(1, {BulkContent(2)});
}

TEST_F(StagedBytesTest, FileOutsideOfStaging) {
  std::filesystem::copy(In(file_), In("copy"));
  for (const std::string& outside :
       {std::string("/etc/passwd"), std::string("../elsewhere"),
        std::string("db/CURRENT"), std::string("staging/../db/CURRENT"),
        std::string(),
        // Up again from the right folder, to a file that has the right bytes.
        file_.substr(0, file_.rfind('/')) + "/../../../copy"}) {
    bulk_[0].record().files[0].path = outside;
    EXPECT_THAT(Publish(bulk_), InvalidArgument(outside));
  }
}

TEST_F(StagedBytesTest, TicketThatPointsOutsideOfStaging) {
  for (const char* outside : {"/tmp", "../elsewhere", "db", ""}) {
    Ticket ticket = save_.tickets.at(0);
    ticket.record().staging = outside;
    EXPECT_THAT(StageRank(ticket, BulkContent(1)), InvalidArgument(outside));
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/elsewhere"));
}

TEST_F(StagedBytesTest, InlineEntryOfAnotherVersionOrRankOrUnderNoKey) {
  std::string& key = small_[0].record().inline_entries[0].first;
  key[7] ^= 1;
  EXPECT_THAT(Publish(small_), InvalidArgument("rank 0"));
  key[7] ^= 1;
  constexpr size_t kLastOfRank = 15;  // of the 16 bytes of version and rank
  key[kLastOfRank] ^= 1;
  EXPECT_THAT(Publish(small_),
              InvalidArgument("staged rank 0 has an entry of", "rank 1"));
  key[kLastOfRank] ^= 1;
  key.pop_back();
  EXPECT_THAT(Publish(small_),
              DataLoss("staged rank 0", absl::BytesToHexString(key)));
}

// Runs of changes that a stager was led to write by the ticket of another save.
class ForeignChangesTest : public StoreFixture {
 protected:
  Version SaveTable(int64_t step, const std::string& name, const Slot& slot) {
    const std::string row(slot.row_bytes(), 'x');
    RankContent content;
    content.tables[name] = {{slot}, SliceHash::kModulo, {{1, row}, {2, row}}};
    return Save(step, content).value().version;
  }
  // Row 1 of table "user", whose slot is `slot_`, with the tables of a save
  // over `told` for those of the parent.
  absl::Status PublishOver(const std::optional<Version>& parent,
                           const Version& told) {
    SaveSpec spec{
        .step = 9, .parent = parent, .abandoned = SaveSpec::Abandoned::kKeep};
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

TEST_F(ForeignChangesTest, NeedAParentWithTheTable) {
  const Version user = SaveTable(1, "user", slot_);
  const Version item = SaveTable(2, "item", slot_);
  const Version wider = SaveTable(3, "user", {"v", DType::kU8, 4});
  EXPECT_THAT(PublishOver(std::nullopt, user),
              InvalidArgument("a delta save requires SaveSpec::parent"));
  EXPECT_THAT(PublishOver(item, user),
              FailedPrecondition("changes of table \"user\" over parent " +
                                 ToString(item) + ": it has no such table"));
  EXPECT_THAT(PublishOver(wider, user),
              FailedPrecondition("its schema differs from the parent's"));
  EXPECT_OK(PublishOver(user, user));
}

}  // namespace
}  // namespace ckptdb::testing
