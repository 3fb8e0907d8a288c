// SPDX-License-Identifier: Apache-2.0
// Saves of several ranks: staging in threads and processes, publishing what
// they staged, and what is refused.

#include "schema/types.h"
#include "tests/db/child.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

class StagerTest : public StoreFixture {
 protected:
  absl::StatusOr<SaveResult> SaveAll(int64_t step,
                                     const std::vector<RankContent>& ranks) {
    const Store::Attempt save = Begin(
        {.step = step, .world_size = static_cast<uint32_t>(ranks.size())});
    return store_->Publish(save.version, StageAll(save, ranks));
  }
};

std::vector<RankContent> ChildContents(uint32_t ranks) {
  std::vector<RankContent> contents;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    contents.push_back(ChildContent(rank));
  return contents;
}

TEST_F(StagerTest, RanksInThreadsOfThisProcess) {
  constexpr uint32_t kRanks = 4;
  const std::vector<RankContent> contents = ChildContents(kRanks);
  const Store::Attempt save = Begin({.step = 1, .world_size = kRanks});
  ASSERT_THAT(save.tickets, SizeIs(kRanks));
  std::vector<StagedRank> staged(kRanks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      auto result = StageRank(save.tickets[rank], contents[rank]);
      ASSERT_OK(result);
      staged[rank] = *std::move(result);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(store_->Steps(), IsEmpty());
  std::reverse(staged.begin(), staged.end());
  ASSERT_OK(store_->Publish(save.version, staged));
  ExpectStep(1, contents);
  Reopen();
  ExpectStep(1, contents);
}

TEST_F(StagerTest, RanksInProcessesOfTheirOwn) {
  constexpr uint32_t kRanks = 2;
  const Store::Attempt save = Begin({.step = 1, .world_size = kRanks});
  ASSERT_THAT(save.tickets, SizeIs(kRanks));
  std::vector<std::unique_ptr<Child>> children;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    children.push_back(std::make_unique<Child>(
        std::vector<std::string>{"stage", path(), std::to_string(rank)}));
    children.back()->Write(save.tickets[rank].Encode().value());
    children.back()->CloseInput();
  }
  std::vector<StagedRank> staged;
  for (const auto& child : children) {
    ASSERT_EQ(child->ReadLine(), "ok");
    ASSERT_OK_AND_ASSIGN(const StagedRank rank,
                         StagedRank::Decode(child->ReadAll()));
    EXPECT_EQ(child->Wait(), 0);
    staged.push_back(rank);
  }
  ASSERT_OK(store_->Publish(save.version, staged));
  ExpectStep(1, ChildContents(kRanks));
}

TEST_F(StagerTest, SmallRanksAreInline) {
  RankContent large = SmallRank(2, 3);
  large.tensors["bulk"] = BulkTensor(1, kInlineBytes * 5 / 8);
  for (const RankContent& last : {SmallRank(2, 3), large}) {
    const std::vector<RankContent> contents = {SmallRank(0, 3), RankContent(),
                                               last};
    const Store::Attempt save =
        Begin({.step = 1, .overwrite = true, .world_size = 3});
    const std::vector<StagedRank> staged = StageAll(save, contents);
    for (const StagedRank& rank : staged) {
      const bool in_files = !rank.record().files.empty();
      EXPECT_EQ(in_files, &rank == &staged[2] && last == large);
      if (in_files) {
        EXPECT_THAT(rank.record().inline_entries, IsEmpty());
      }
    }
    ASSERT_OK(store_->Publish(save.version, staged));
    Reopen();
    ExpectStep(1, contents);
  }
}

TEST_F(StagerTest, UnchangedTensorsOfEachRankAreReused) {
  ASSERT_OK(SaveAll(1, ChildContents(2)));
  ASSERT_OK_AND_ASSIGN(const SaveResult result, SaveAll(2, ChildContents(2)));
  EXPECT_GE(result.borrowed_bytes, 2 * kBulkTensorBytes);
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectStep(2, ChildContents(2));
  ASSERT_OK(SaveAll(3, ChildContents(3)));
  ASSERT_OK(store_->Delete(2));
  ASSERT_OK(store_->Sweep());
  ExpectStep(3, ChildContents(3));
}

TEST_F(StagerTest, StagesAgainAfterAnError) {
  const Store::Attempt save = Begin({.step = 1});
  RankContent bad = BulkContent(1);
  bad.blobs[""] = "no name";
  EXPECT_THAT(StageRank(save.tickets.at(0), bad), InvalidArgument("empty"));
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       StageRank(save.tickets.at(0), BulkContent(2)));
  ASSERT_OK(store_->Publish(save.version, {staged}));
  ExpectStep(1, {BulkContent(2)});
}

class SliceBoundsTest : public StagerTest {};

TEST_F(SliceBoundsTest, RowsOfTheRanksSlicesAreTaken) {
  const Store::Attempt save =
      Begin({.step = 1, .world_size = 2, .slice_bounds = {0, 100, 65536}});
  const std::vector<Slot> slots = {{"v", DType::kU8, 1}};
  std::vector<RankContent> contents(2);
  contents[0].tables["user"] = {
      slots, SliceHash::kModulo, {{0, "a"}, {99, "a"}, {65536 + 99, "a"}}};
  contents[1].tables["user"] = {
      slots, SliceHash::kModulo, {{100, "b"}, {-1, "b"}, {65536 + 100, "b"}}};
  ASSERT_OK(store_->Publish(save.version, StageAll(save, contents)));
  ExpectStep(1, contents);
  EXPECT_THAT(Record(1).slice_bounds, ElementsAre(0, 100, 65536));
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  for (const auto& content : contents) {
    for (const auto& [id, value] : content.tables.at("user").rows) {
      EXPECT_THAT(step->LookupRow("user", id).value(), ElementsAre(value));
    }
  }
}

TEST_F(SliceBoundsTest, RejectsARowOfOtherSlices) {
  for (const SliceHash hash : {SliceHash::kModulo, SliceHash::kMix}) {
    const std::vector<uint32_t> bounds = EvenSliceBounds(4);
    const Store::Attempt save =
        Begin({.step = 1, .world_size = 4, .slice_bounds = bounds});
    RankContent content;
    TableContent& table = content.tables["user"];
    table.slots = {{"v", DType::kU8, 1}};
    table.hash = hash;
    int64_t foreign = -1'000'000'007;
    while (SliceOf(foreign, hash) < bounds[3]) --foreign;
    for (int64_t id = 0; id < 20000; ++id) {
      const uint16_t slice = SliceOf(id, hash);
      if (slice >= bounds[1] && slice < bounds[2]) table.rows[id] = "v";
    }
    ASSERT_OK(StageRank(save.tickets.at(1), content));
    table.rows[foreign] = "v";
    EXPECT_THAT(
        StageRank(save.tickets.at(1), content),
        InvalidArgument("\"user\"", std::to_string(foreign),
                        std::to_string(bounds[1]), std::to_string(bounds[2])));
    ASSERT_OK(store_->Abandon(save.version));
  }
}

}  // namespace
}  // namespace ckptdb::testing
