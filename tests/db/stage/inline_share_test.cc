// SPDX-License-Identifier: Apache-2.0
// What goes into the write batch: each rank's share, keys and headers included.

#include "schema/bytes/keys.h"
#include "schema/bytes/page.h"
#include "schema/types.h"
#include "tests/db/store_fixture.h"
#include "tests/support/long_run.h"

namespace ckptdb::testing {
namespace {

uint64_t InlineBytesOf(const StagedRank& staged) {
  uint64_t bytes = 0;
  for (const auto& [key, value] : staged.record().inline_entries)
    bytes += key.size() + value.size();
  return bytes;
}

class InlineShareTest : public StoreFixture {
 protected:
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
  EXPECT_THAT(
      store_->Publish(save.version, more),
      InvalidArgument("staged rank 1", std::to_string(InlineBytesOf(more[1])),
                      std::to_string(share)));
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
    EXPECT_EQ(step->ReadBlob(static_cast<uint32_t>(rank), "reader").value(),
              "position");
  }
}

class IncompletePartTest : public StoreFixture {
 protected:
  void StageParts(const std::vector<RankContent>& contents) {
    contents_ = contents;
    save_ = Begin(
        {.step = 1, .world_size = static_cast<uint32_t>(contents.size())});
    whole_ = StageAll(save_, contents);
  }
  // Publishes the parts after `damage` to the last one.
  void ExpectIncomplete(
      const std::function<void(internal::StagedRecord*)>& damage,
      const std::vector<std::string>& words) {
    std::vector<StagedRank> cut = whole_;
    damage(&cut.back().record());
    EXPECT_THAT(store_->Publish(save_.version, cut), DataLoss(words));
    EXPECT_THAT(store_->Steps(), IsEmpty());
  }
  void TearDown() override {
    EXPECT_OK(store_->Publish(save_.version, whole_));
    ExpectStep(1, contents_);
  }
  std::vector<RankContent> contents_;
  Store::Attempt save_;
  std::vector<StagedRank> whole_;
};

TEST_F(IncompletePartTest, RejectsRemovedInlineEntries) {
  StageParts({SmallRank(0, 2), SmallRank(1, 2)});
  ExpectIncomplete([](auto* part) { part->inline_entries.clear(); },
                   {"staged rank 1", "blob \"reader\"", "0", "1"});
  ExpectIncomplete([](auto* part) { part->inline_entries.pop_back(); },
                   {"staged rank 1", "table \"user\""});
}

TEST_F(IncompletePartTest, RejectsOtherInlineEntries) {
  StageParts({SmallRank(0, 1)});
  const std::vector<std::string> blob = {"staged rank 0", "blob \"reader\""};
  ExpectIncomplete(
      [](auto* part) {
        part->inline_entries[0].second = part->inline_entries[1].second;
      },
      blob);
  ExpectIncomplete(
      [](auto* part) { part->inline_entries[0].second = "not a page"; }, blob);
  std::string key = ItemPrefix(save_.version, 0, Item::Kind::kTensor, "w");
  AppendChunk(0, &key);
  ExpectIncomplete(
      [&](auto* part) { part->inline_entries.emplace_back(key, "value"); },
      {"staged rank 0", "1 belong to no item"});
}

// The entries are all there and in order, and could not be found.
TEST_F(IncompletePartTest, RejectsInlineEntriesUnderOtherKeys) {
  StageParts({SmallRank(0, 1)});
  const auto& entries = whole_[0].record().inline_entries;
  ASSERT_GT(entries.size(), 2U);
  for (size_t i = 0; i < entries.size(); ++i) {
    SCOPED_TRACE(DescribeDataKey(entries[i].first));
    const auto damage = [i](auto* part) {
      // The chunk, the position of a page, or the slot: all stay in order.
      std::string& key = part->inline_entries[i].first;
      const bool chunk = ParseDataKey(key)->kind != Item::Kind::kRows;
      ++key[chunk ? key.size() - 1 : key.size() - 9];
    };
    ExpectIncomplete(damage, {"staged rank 0", "the key of another one"});
  }
}

TEST_F(IncompletePartTest, RejectsRemovedFiles) {
  RankContent content;
  constexpr size_t kBytes = size_t{70} << 20;
  for (const char* name : {"a", "b", "c"})
    content.tensors[name] = BulkTensor(1, kBytes);
  StageParts({content});
  const auto& files = whole_[0].record().files;
  ASSERT_GT(files.size(), 2U);
  ASSERT_EQ(files[0].entries, files[1].entries);
  for (size_t i = 0; i < files.size(); ++i) {
    SCOPED_TRACE(i);
    const uint64_t chunks = kBytes / kChunkBytes;
    const auto tensor = static_cast<char>('a' + files[i].first_entry / chunks);
    ExpectIncomplete(
        [i](auto* part) {
          part->files.erase(part->files.begin() +
                            static_cast<std::ptrdiff_t>(i));
        },
        {"staged rank 0",
         absl::StrCat("tensor \"", std::string(1, tensor), "\"")});
  }
  const std::vector<std::string> a = {"staged rank 0", "tensor \"a\""};
  ExpectIncomplete([](auto* part) { part->files.clear(); }, a);
  // One file instead of another with as many entries.
  ExpectIncomplete([](auto* part) { part->files[1] = part->files[0]; }, a);
  // The last file once more: no entry is out of place, and some are too many.
  ExpectIncomplete(
      [](auto* part) { part->files.push_back(part->files.back()); },
      {"staged rank 0"});
  ExpectIncomplete(
      [](auto* part) { part->files.push_back(part->files.front()); },
      {"staged rank 0"});
}

}  // namespace
}  // namespace ckptdb::testing
