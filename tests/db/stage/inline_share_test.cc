// SPDX-License-Identifier: Apache-2.0
// What goes into the write batch: each rank's share, keys and headers included.
#include <gmock/gmock.h>

#include "schema/bytes/keys.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/page.h"
#include "schema/records/staged.h"
#include "schema/types.h"
#include "tests/db/stager_fixture.h"
#include "tests/support/long_run.h"

namespace ckptdb::testing {
namespace {

using ::testing::IsEmpty;

uint64_t InlineBytesOf(const StagedRank& staged) {
  uint64_t bytes = 0;
  for (const auto& [key, value] : staged.record().inline_entries) {
    bytes += key.size() + value.size();
  }
  return bytes;
}

class InlineShareTest : public StagerFixture {
 protected:
  // A rank with one blob of so many bytes.
  absl::StatusOr<StagedRank> StageBlob(const Ticket& ticket, uint64_t bytes) {
    RankContent content;
    content.blobs["b"] = std::string(bytes, 'b');
    return StageRank(ticket, content);
  }
};

TEST(InlineShare, DividesTheLimitUntilRanksAreMany) {
  EXPECT_EQ(InlineShareBytes(1), kInlineBytes);
  EXPECT_EQ(InlineShareBytes(2), kInlineBytes / 2);
  const auto even =
      static_cast<uint32_t>(kInlineBytes / kLeastInlineShareBytes);
  EXPECT_EQ(InlineShareBytes(even), kLeastInlineShareBytes);
  EXPECT_EQ(InlineShareBytes(even - 1), kInlineBytes / (even - 1));
  EXPECT_EQ(InlineShareBytes(even + 1), kLeastInlineShareBytes);
  EXPECT_EQ(InlineShareBytes(kMaxWorldSize), kLeastInlineShareBytes);
}

TEST_F(InlineShareTest, KeysAndHeadersCount) {
  constexpr uint32_t kWorld = 4096;
  const uint64_t share = InlineShareBytes(kWorld);
  const Store::Attempt save = Begin({.step = 1, .world_size = kWorld});
  ASSERT_OK_AND_ASSIGN(const StagedRank least, StageBlob(save.tickets[0], 1));
  const uint64_t most = share - (InlineBytesOf(least) - 1);
  for (const uint64_t bytes : {most - 1, most, most + 1}) {
    ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                         StageBlob(save.tickets[1], bytes));
    EXPECT_EQ(staged.record().files.empty(), bytes <= most) << bytes;
    EXPECT_EQ(InlineBytesOf(staged), bytes <= most ? share - most + bytes : 0);
  }
}

// Staging and publishing have one bound.
TEST_F(InlineShareTest, PublishTakesWhatStagingMakesAndNoMore) {
  constexpr uint64_t kBlobBytes = uint64_t{16} << 10;
  const Store::Attempt save = Begin({.step = 1, .world_size = 2});
  ASSERT_OK_AND_ASSIGN(const StagedRank least, StageBlob(save.tickets[0], 1));
  const uint64_t share = InlineShareBytes(2);
  std::vector<StagedRank> staged;
  for (const Ticket& ticket : save.tickets) {
    // With several blobs, keys and headers count more than once.
    RankContent content;
    const uint64_t entry = kBlobBytes - 1 + InlineBytesOf(least);
    for (uint64_t blob = 0; blob < share / entry; ++blob) {
      content.blobs[std::string(1, static_cast<char>('a' + blob))] =
          std::string(kBlobBytes, 'b');
    }
    ASSERT_OK_AND_ASSIGN(staged.emplace_back(), StageRank(ticket, content));
    EXPECT_THAT(staged.back().record().files, IsEmpty());
    EXPECT_LE(InlineBytesOf(staged.back()), share);
    EXPECT_GT(InlineBytesOf(staged.back()), share - entry);
  }
  std::vector<StagedRank> more = staged;
  more[1].record().inline_entries.push_back(
      more[1].record().inline_entries.back());
  more[1].record().inline_entries.push_back(
      more[1].record().inline_entries.back());
  ExpectPublishFails(save.version, more, absl::StatusCode::kInvalidArgument,
                     {"staged rank 1", std::to_string(InlineBytesOf(more[1])),
                      std::to_string(share)});
  EXPECT_OK(store_->Publish(save.version, staged));
}

// Their keys and headers are many times as large as they are.
TEST_F(InlineShareTest, ManyScalarsAreSaved) {
  constexpr size_t kScalars = 200'000;
  std::vector<float> values(kScalars);
  RankState state;
  for (size_t i = 0; i < kScalars; ++i) {
    values[i] = static_cast<float>(i);
    state.AddTensor("scalar." + std::to_string(i),
                    TensorView::Of(&values[i], {}));
  }
  const Store::Attempt save = Begin({.step = 1});
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       Stage(path(), save.tickets[0], state));
  // They share a file: a scalar counts as what it has.
  EXPECT_EQ(staged.record().files.size(), 1U);
  ASSERT_OK(store_->Publish(save.version, {staged}));
  Reopen();
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  EXPECT_EQ(step->record().items, kScalars);
  for (const size_t i : {size_t{0}, size_t{123'456}, kScalars - 1}) {
    float value = -1;
    EXPECT_OK(
        step->ReadTensor("scalar." + std::to_string(i), &value, sizeof(value)));
    EXPECT_EQ(value, values[i]);
  }
}

TEST_F(InlineShareTest, TwoSmallItemsOnEachOfTheMostRanks) {
  // Under a sanitizer the limit itself takes half a minute.
  const uint32_t ranks =
      kSanitized && !IsLongRun() ? kMaxWorldSize / 16 : kMaxWorldSize;
  const Store::Attempt save = Begin({.step = 1, .world_size = ranks});
  std::vector<StagedRank> staged;
  staged.reserve(ranks);
  for (const Ticket& ticket : save.tickets) {
    const int64_t number = ticket.rank();
    RankState state;
    state.AddTensor("rank." + std::to_string(number),
                    TensorView::Of(&number, {}));
    state.AddBlob("reader", "position");
    ASSERT_OK_AND_ASSIGN(staged.emplace_back(), Stage(path(), ticket, state));
    ASSERT_THAT(staged.back().record().files, IsEmpty());
  }
  ASSERT_OK(store_->Publish(save.version, staged));
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  for (const int64_t rank : {int64_t{0}, int64_t{ranks} - 1}) {
    int64_t number = -1;
    EXPECT_OK(step->ReadTensor("rank." + std::to_string(rank), &number,
                               sizeof(number)));
    EXPECT_EQ(number, rank);
    ASSERT_OK_AND_ASSIGN(const std::string blob,
                         step->ReadBlob(static_cast<uint32_t>(rank), "reader"));
    EXPECT_EQ(blob, "position");
  }
}

// A part that lost something on its way is not published.
class IncompletePartTest : public StagerFixture {
 protected:
  void ExpectIncomplete(const Store::Attempt& save,
                        const std::vector<StagedRank>& whole,
                        const std::vector<StagedRank>& cut,
                        const std::vector<std::string>& words) {
    ExpectPublishFails(save.version, cut, absl::StatusCode::kDataLoss, words);
    EXPECT_THAT(store_->Steps(), IsEmpty());
    // The same attempt may be published again.
    EXPECT_OK(store_->Publish(save.version, whole));
  }
};

TEST_F(IncompletePartTest, RejectsRemovedInlineEntries) {
  const Store::Attempt save = Begin({.step = 1, .world_size = 2});
  const std::vector<RankContent> contents = {SmallRank(0, 2), SmallRank(1, 2)};
  const std::vector<StagedRank> whole = StageAll(save, contents);
  std::vector<StagedRank> cut = whole;
  cut[1].record().inline_entries.clear();
  ExpectPublishFails(save.version, cut, absl::StatusCode::kDataLoss,
                     {"staged rank 1", "blob \"reader\"", "0", "1"});
  cut = whole;
  cut[1].record().inline_entries.pop_back();
  ExpectIncomplete(save, whole, cut, {"staged rank 1", "table \"user\""});
  ExpectStep(1, contents);
}

TEST_F(IncompletePartTest, RejectsOtherInlineEntries) {
  const Store::Attempt save = Begin({.step = 1});
  const std::vector<StagedRank> whole = StageAll(save, {SmallRank(0, 1)});
  std::vector<StagedRank> cut = whole;
  cut[0].record().inline_entries[0].second =
      cut[0].record().inline_entries[1].second;
  ExpectPublishFails(save.version, cut, absl::StatusCode::kDataLoss,
                     {"staged rank 0", "blob \"reader\""});
  cut[0].record().inline_entries[0].second = "not a page";
  ExpectPublishFails(save.version, cut, absl::StatusCode::kDataLoss,
                     {"staged rank 0", "blob \"reader\""});
  cut = whole;
  std::string key = ItemPrefix(save.version, 0, Item::Kind::kTensor, "w");
  AppendChunk(0, &key);
  cut[0].record().inline_entries.emplace_back(key, "value");
  ExpectIncomplete(save, whole, cut, {"staged rank 0", "1 belong to no item"});
}

// The entries are all there and in order, and could not be found.
TEST_F(IncompletePartTest, RejectsInlineEntriesUnderOtherKeys) {
  const Store::Attempt save = Begin({.step = 1});
  const std::vector<StagedRank> whole = StageAll(save, {SmallRank(0, 1)});
  const size_t entries = whole[0].record().inline_entries.size();
  ASSERT_GT(entries, 2U);
  for (size_t i = 0; i < entries; ++i) {
    SCOPED_TRACE(DescribeDataKey(whole[0].record().inline_entries[i].first));
    std::vector<StagedRank> cut = whole;
    // The chunk, the position of a page, or the slot: all stay in order.
    std::string& key = cut[0].record().inline_entries[i].first;
    const bool chunk = ParseDataKey(key)->kind != Item::Kind::kRows;
    ++key[chunk ? key.size() - 1 : key.size() - 9];
    ExpectPublishFails(save.version, cut, absl::StatusCode::kDataLoss,
                       {"staged rank 0", "the key of another one"});
  }
  EXPECT_OK(store_->Publish(save.version, whole));
  ExpectStep(1, {SmallRank(0, 1)});
}

TEST_F(IncompletePartTest, RejectsRemovedFiles) {
  RankContent content;
  constexpr size_t kBytes = size_t{70} << 20;
  for (const char* name : {"a", "b", "c"}) {
    content.tensors[name] = BulkTensor(1, kBytes);
  }
  const Store::Attempt save = Begin({.step = 1});
  const std::vector<StagedRank> whole = StageAll(save, {content});
  ASSERT_GT(whole[0].record().files.size(), 2U);
  for (size_t i = 0; i < whole[0].record().files.size(); ++i) {
    SCOPED_TRACE(i);
    std::vector<StagedRank> cut = whole;
    const uint64_t entry = cut[0].record().files[i].first_entry;
    cut[0].record().files.erase(cut[0].record().files.begin() +
                                static_cast<std::ptrdiff_t>(i));
    const uint64_t chunks = kBytes / kChunkBytes;
    const std::string tensor(1, static_cast<char>('a' + entry / chunks));
    ExpectPublishFails(save.version, cut, absl::StatusCode::kDataLoss,
                       {"staged rank 0", "tensor \"" + tensor + "\""});
  }
  std::vector<StagedRank> cut = whole;
  cut[0].record().files.clear();
  ExpectPublishFails(save.version, cut, absl::StatusCode::kDataLoss,
                     {"staged rank 0", "tensor \"a\""});
  // The last file once more: no entry is out of place, and some are too many.
  cut = whole;
  cut[0].record().files.push_back(cut[0].record().files.back());
  ExpectPublishFails(save.version, cut, absl::StatusCode::kDataLoss,
                     {"staged rank 0"});
  // One file instead of another with as many entries.
  cut = whole;
  ASSERT_EQ(cut[0].record().files[0].entries, cut[0].record().files[1].entries);
  cut[0].record().files[1] = cut[0].record().files[0];
  ExpectPublishFails(save.version, cut, absl::StatusCode::kDataLoss,
                     {"staged rank 0", "tensor \"a\""});
  cut = whole;
  cut[0].record().files.push_back(cut[0].record().files.front());
  ExpectIncomplete(save, whole, cut, {"staged rank 0"});
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  EXPECT_OK(step->Verify());
}

}  // namespace
}  // namespace ckptdb::testing
