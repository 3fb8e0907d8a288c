// SPDX-License-Identifier: Apache-2.0
// Saves of several ranks: staging in threads and processes, publishing what
// they staged, and what is refused.
#include "db/state.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "schema/bytes/limits.h"
#include "schema/records/staged.h"
#include "schema/types.h"
#include "tests/db/child.h"
#include "tests/db/child_content.h"
#include "tests/db/stager_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StagerTest : public StagerFixture {};

std::vector<RankContent> ChildContents(uint32_t ranks) {
  std::vector<RankContent> contents;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    contents.push_back(ChildContent(rank));
  }
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
  const Store::Attempt save = Begin({.step = 1, .world_size = 3});
  const std::vector<RankContent> contents = {SmallRank(0, 3), RankContent(),
                                             SmallRank(2, 3)};
  const std::vector<StagedRank> staged = StageAll(save, contents);
  for (const StagedRank& rank : staged)
    EXPECT_THAT(rank.record().files, IsEmpty());
  ASSERT_OK(store_->Publish(save.version, staged));
  Reopen();
  ExpectStep(1, contents);
}

TEST_F(StagerTest, OneRankInlineAndOneInFiles) {
  const Store::Attempt save = Begin({.step = 1, .world_size = 2});
  RankContent large = SmallRank(1, 2);
  large.tensors["bulk"] = BulkTensor(1, kInlineBytes * 5 / 8);
  const std::vector<RankContent> contents = {SmallRank(0, 2), large};
  const std::vector<StagedRank> staged = StageAll(save, contents);
  EXPECT_THAT(staged[0].record().files, IsEmpty());
  EXPECT_THAT(staged[1].record().inline_entries, IsEmpty());
  ASSERT_OK(store_->Publish(save.version, staged));
  Reopen();
  ExpectStep(1, contents);
}

TEST_F(StagerTest, UnchangedTensorsOfEachRankAreReused) {
  const std::vector<RankContent> contents = ChildContents(2);
  const Store::Attempt first = Begin({.step = 1, .world_size = 2});
  ASSERT_OK(store_->Publish(first.version, StageAll(first, contents)));
  const Store::Attempt second = Begin({.step = 2, .world_size = 2});
  ASSERT_OK_AND_ASSIGN(
      const SaveResult result,
      store_->Publish(second.version, StageAll(second, contents)));
  EXPECT_GE(result.borrowed_bytes, uint64_t{18} << 20);
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectStep(2, contents);
}

TEST_F(StagerTest, AnotherWorldSizeAfterwards) {
  const std::vector<RankContent> two = ChildContents(2);
  const std::vector<RankContent> three = ChildContents(3);
  const Store::Attempt first = Begin({.step = 1, .world_size = 2});
  ASSERT_OK(store_->Publish(first.version, StageAll(first, two)));
  const Store::Attempt second = Begin({.step = 2, .world_size = 3});
  ASSERT_OK(store_->Publish(second.version, StageAll(second, three)));
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  ExpectStep(2, three);
}

TEST_F(StagerTest, StagesAgainAfterAnError) {
  const Store::Attempt save = Begin({.step = 1});
  RankContent bad = BulkContent(1);
  bad.blobs[""] = "no name";
  EXPECT_THAT(StageRank(save.tickets.at(0), bad),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty")));
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       StageRank(save.tickets.at(0), BulkContent(2)));
  ASSERT_OK(store_->Publish(save.version, {staged}));
  ExpectStep(1, {BulkContent(2)});
}

class SliceBoundsTest : public StagerTest {};

TEST_F(SliceBoundsTest, RowsOfTheRanksSlicesAreTaken) {
  const Store::Attempt save =
      Begin({.step = 1, .world_size = 2, .slice_bounds = {0, 100, 65536}});
  std::vector<RankContent> contents(2);
  for (RankContent& content : contents) {
    content.tables["user"].slots = {{"v", DType::kU8, 1}};
  }
  for (const int64_t id : {0, 99, 65536 + 99}) {
    contents[0].tables["user"].rows[id] = "a";
  }
  for (const int64_t id : {100, -1, 65536 + 100}) {
    contents[1].tables["user"].rows[id] = "b";
  }
  ASSERT_OK(store_->Publish(save.version, StageAll(save, contents)));
  ExpectStep(1, contents);
  ASSERT_OK_AND_ASSIGN(const StepRecord record, store_->FindStep(1));
  EXPECT_THAT(record.slice_bounds, ElementsAre(0, 100, 65536));
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  for (const auto& content : contents) {
    for (const auto& [id, value] : content.tables.at("user").rows) {
      ASSERT_OK_AND_ASSIGN(const std::vector<std::string> row,
                           step->LookupRow("user", id));
      EXPECT_THAT(row, ElementsAre(value));
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
    EXPECT_THAT(StageRank(save.tickets.at(1), content),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("\"user\""),
                               HasSubstr(std::to_string(foreign)),
                               HasSubstr(std::to_string(bounds[1])),
                               HasSubstr(std::to_string(bounds[2])))));
    ASSERT_OK(store_->Abandon(save.version));
  }
}

}  // namespace
}  // namespace ckptdb::testing
