// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/keys.h"

#include <limits>
#include <random>
#include <tuple>

#include "absl/strings/escaping.h"
#include "schema/types.h"
#include "tests/support/seed.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

constexpr int64_t kMaxStep = std::numeric_limits<int64_t>::max();
constexpr uint32_t kMax32 = std::numeric_limits<uint32_t>::max();

std::string ChunkKey(const Version& version, uint32_t rank, Item::Kind kind,
                     const std::string& name, uint32_t chunk) {
  std::string key = ItemPrefix(version, rank, kind, name);
  AppendChunk(chunk, &key);
  return key;
}

std::string PageKey(const Version& version, uint32_t rank,
                    const std::string& name, Item::Run run, uint16_t slot,
                    const RowPosition& position) {
  std::string key = ItemPrefix(version, rank, Item::Kind::kRows, name);
  AppendStream(run, slot, &key);
  AppendPosition(position, &key);
  return key;
}

auto IsBadKey(const std::string& key, const std::string& words) {
  return DataLoss(StartsWith("key " + absl::BytesToHexString(key) + " "),
                  words);
}

TEST(Keys, ChunksOfShardsAreNumberedThrough) {
  Item item;
  item.kind = Item::Kind::kTensor;
  item.name = "w";
  item.data_version = {7, 3};
  EXPECT_EQ(ckptdb::ChunkKey(2, item, 5),
            ChunkKey({7, 3}, 2, Item::Kind::kTensor, "w", 5));
  item.first_chunk = kMax32 - 1;
  EXPECT_EQ(ckptdb::ChunkKey(2, item, 1),
            ChunkKey({7, 3}, 2, Item::Kind::kTensor, "w", kMax32));
  EXPECT_EQ(ckptdb::ChunkKey(2, item, 2),
            PrefixEnd(ItemPrefix({7, 3}, 2, Item::Kind::kTensor, "w")));
}

TEST(Keys, BytesOfEachKind) {
  const Version version{0x0102030405060708, 0x090a0b0c};
  EXPECT_EQ(absl::BytesToHexString(
                ChunkKey(version, 0x0d0e0f10, Item::Kind::kTensor, "w", 0x11)),
            "0102030405060708090a0b0c0d0e0f10"
            "547700"
            "00000011");
  EXPECT_EQ(
      absl::BytesToHexString(ChunkKey(version, 1, Item::Kind::kBlob, "w", 2)),
      "0102030405060708090a0b0c00000001"
      "427700"
      "00000002");
  EXPECT_EQ(absl::BytesToHexString(PageKey(version, 1, "t", Item::Run::kDelta,
                                           kErasedSlot,
                                           {0x1213, 0x1415161718191a1b})),
            "0102030405060708090a0b0c00000001"
            "527400"
            "44ffff12131415161718191a1b");
  EXPECT_EQ(absl::BytesToHexString(StepKey(7)), "730000000000000007");
  EXPECT_EQ(absl::BytesToHexString(RankKey({7, 3}, 2)),
            "7200000000000000070000000300000002");
  EXPECT_EQ(absl::BytesToHexString(AttemptKey(3)), "6100000003");
  EXPECT_EQ(RootKey(), "m");
}

TEST(Keys, DescribeNamesTheKey) {
  EXPECT_EQ(DescribeDataKey(ChunkKey({7, 3}, 0, Item::Kind::kTensor, "w", 5)),
            "step 7 attempt 3 rank 0 tensor \"w\" chunk 5");
  EXPECT_EQ(DescribeDataKey(PageKey({7, 3}, 1, "t", Item::Run::kBase, 2,
                                    {65535, ~uint64_t{0}})),
            "step 7 attempt 3 rank 1 table \"t\" slot 2 page at slice 65535 "
            "id -1");
  EXPECT_EQ(DescribeDataKey(ChunkKey({7, 3}, 0, Item::Kind::kBlob, "\n", 0)),
            "step 7 attempt 3 rank 0 blob \"\\n\" chunk 0");
  EXPECT_EQ(DescribeDataKey("ab"), "key 6162");
}

struct Fields {
  Version version;
  uint32_t rank = 0;
  Item::Kind kind = Item::Kind::kBlob;
  std::string name;
  uint32_t chunk = 0;
  Item::Run run = Item::Run::kBase;
  uint16_t slot = 0;
  RowPosition position;

  auto Order() const {
    return std::tie(version, rank, kind, name, chunk, run, slot, position);
  }
  std::string Key() const {
    return kind == Item::Kind::kRows
               ? PageKey(version, rank, name, run, slot, position)
               : ChunkKey(version, rank, kind, name, chunk);
  }
};

// Numbers near each other and far apart, so that every byte matters.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  uint64_t Number(uint64_t max) {
    uint64_t number = random_() >> (random_() % 64);
    if (random_() % 8 == 0) number = max;
    return max == ~uint64_t{0} ? number : number % (max + 1);
  }
  std::string Name() {
    static const std::vector<std::string> kParts = {"a",    "b",        "\x01",
                                                    "\x7f", "\xc3\xa9", "ab"};
    std::string name = kParts[random_() % kParts.size()];
    while (random_() % 2 != 0) name += kParts[random_() % kParts.size()];
    return name;
  }
  Fields All() {
    Fields fields;
    fields.version.step = static_cast<int64_t>(Number(kMaxStep));
    fields.version.attempt = static_cast<uint32_t>(Number(kMax32));
    fields.rank = static_cast<uint32_t>(Number(kMax32));
    fields.kind = std::vector<Item::Kind>{Item::Kind::kBlob, Item::Kind::kRows,
                                          Item::Kind::kTensor}[random_() % 3];
    fields.name = Name();
    if (fields.kind != Item::Kind::kRows) {
      fields.chunk = static_cast<uint32_t>(Number(kMax32));
      return fields;
    }
    fields.run = random_() % 2 != 0 ? Item::Run::kBase : Item::Run::kDelta;
    fields.slot = fields.run == Item::Run::kDelta && random_() % 4 == 0
                      ? kErasedSlot
                      : static_cast<uint16_t>(Number(kMaxSlots));
    fields.position = {static_cast<uint16_t>(Number(65535)),
                       Number(~uint64_t{0})};
    return fields;
  }
  // Shares a random number of leading fields with `other`.
  Fields Near(const Fields& other) {
    Fields fields = All();
    const uint64_t same = random_() % 6;
    if (same > 0) fields.version.step = other.version.step;
    if (same > 1) fields.version.attempt = other.version.attempt;
    if (same > 2) fields.rank = other.rank;
    if (same > 3 && fields.kind == other.kind) fields.name = other.name;
    if (same > 4 && fields.slot != kErasedSlot) fields.run = other.run;
    return fields;
  }

 private:
  std::mt19937_64 random_;
};

TEST(Keys, SortLikeTheirFields) {
  Draw draw(TestSeed());
  for (int i = 0; i < 20000; ++i) {
    const Fields a = draw.All();
    const Fields b = draw.Near(a);
    ASSERT_EQ(a.Key() < b.Key(), a.Order() < b.Order())
        << absl::BytesToHexString(a.Key()) << " "
        << absl::BytesToHexString(b.Key());
    ASSERT_EQ(a.Key() == b.Key(), a.Order() == b.Order());
  }
}

TEST(Keys, ParseReturnsTheFields) {
  Draw draw(TestSeed());
  for (int i = 0; i < 5000; ++i) {
    const Fields fields = draw.All();
    const std::string key = fields.Key();
    ASSERT_OK_AND_ASSIGN(const DataKey parsed, ParseDataKey(key));
    const Fields back{
        parsed.version, parsed.rank, parsed.kind, std::string(parsed.name),
        parsed.chunk,   parsed.run,  parsed.slot, parsed.position};
    ASSERT_EQ(back.Order(), fields.Order());
    ASSERT_EQ(ParseVersionPrefix(key).value(), fields.version);
  }
}

TEST(Keys, ParseRejectsEveryTruncation) {
  for (const std::string& key :
       {ChunkKey({7, 3}, 0, Item::Kind::kTensor, "weight", 5),
        PageKey({7, 3}, 0, "users", Item::Run::kBase, 2, {1, 2})}) {
    for (size_t bytes = 0; bytes < key.size(); ++bytes) {
      const std::string cut = key.substr(0, bytes);
      EXPECT_THAT(ParseDataKey(cut), DataLoss("key "));
    }
    EXPECT_THAT(ParseDataKey(key + "x"),
                IsBadKey(key + "x", "has an invalid suffix"));
  }
}

TEST(Keys, ParseNamesTheWrongField) {
  const std::string chunk = ChunkKey({7, 3}, 0, Item::Kind::kTensor, "w", 5);
  const std::string page = PageKey({7, 3}, 0, "t", Item::Run::kBase, 2, {1, 2});
  const auto with = [](std::string key, size_t at, char byte) {
    key[at] = byte;
    return key;
  };
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "is too short"},
      {chunk.substr(0, 11), "is too short"},
      {chunk.substr(0, 16), "is too short"},
      {with(chunk, 0, '\x80'), "has a negative step"},
      {with(chunk, 16, 'X'), "has an unknown kind of item"},
      {chunk.substr(0, 18), "has no NUL after the name"},
      {with(chunk, 17, '\xff'), "has an invalid name"},
      {with(chunk, 17, '\0'), "has an invalid name"},
      {chunk.substr(0, 20), "has an invalid suffix for a chunk"},
      {page.substr(0, 25), "has an invalid suffix for a page"},
      {with(page, 19, 'X'), "has an unknown kind of run"},
      {with(page, 20, '\x01'), "has slot 258; the limit is 256"}};
  for (const auto& [key, words] : bad) {
    EXPECT_THAT(ParseDataKey(key), IsBadKey(key, words));
  }
}

TEST(Keys, SlotsAtAndOverTheLimit) {
  const auto key = [](Item::Run run, uint16_t slot) {
    return PageKey({7, 3}, 0, "t", run, slot, {});
  };
  EXPECT_OK(ParseDataKey(key(Item::Run::kBase, kMaxSlots - 1)));
  EXPECT_OK(ParseDataKey(key(Item::Run::kBase, kMaxSlots)));
  for (const uint16_t slot : {257, 0xfffe}) {
    EXPECT_THAT(ParseDataKey(key(Item::Run::kDelta, slot)),
                IsBadKey(key(Item::Run::kDelta, slot), "the limit is 256"));
  }
  EXPECT_OK(ParseDataKey(key(Item::Run::kDelta, kErasedSlot)));
  EXPECT_THAT(ParseDataKey(key(Item::Run::kBase, kErasedSlot)),
              IsBadKey(key(Item::Run::kBase, kErasedSlot),
                       "has erased ids in a base run"));
}

TEST(Keys, NamesAtAndOverTheLimit) {
  const auto key = [](size_t bytes) {
    return ChunkKey({7, 3}, 0, Item::Kind::kBlob, std::string(bytes, 'n'), 0);
  };
  EXPECT_OK(ParseDataKey(key(kMaxNameBytes - 1)));
  EXPECT_OK(ParseDataKey(key(kMaxNameBytes)));
  EXPECT_THAT(ParseDataKey(key(kMaxNameBytes + 1)),
              IsBadKey(key(kMaxNameBytes + 1), "has an invalid name"));
}

TEST(Keys, PrefixEndIsTheFirstKeyAfterThePrefix) {
  EXPECT_EQ(PrefixEnd("a"), "b");
  EXPECT_EQ(PrefixEnd("a\xff"), "b");
  EXPECT_EQ(PrefixEnd("\xff\xff"), "");
  EXPECT_EQ(PrefixEnd(""), "");
  Draw draw(TestSeed());
  for (int i = 0; i < 2000; ++i) {
    const Fields a = draw.All();
    const Fields b = draw.Near(a);
    const bool within =
        VersionPrefix(a.version) <= b.Key() && b.Key() < VersionEnd(a.version);
    ASSERT_EQ(within, a.version == b.version);
  }
  const std::string last =
      ChunkKey({kMaxStep, kMax32}, kMax32, Item::Kind::kTensor, "z", kMax32);
  EXPECT_LT(last, VersionEnd({kMaxStep, kMax32}));
}

TEST(MetaKeys, ParseReturnsTheFields) {
  ASSERT_OK_AND_ASSIGN(const MetaKey step, ParseMetaKey(StepKey(kMaxStep)));
  EXPECT_EQ(step.kind, MetaKind::kStep);
  EXPECT_EQ(step.version.step, kMaxStep);
  ASSERT_OK_AND_ASSIGN(const MetaKey rank, ParseMetaKey(RankKey({7, 3}, 9)));
  EXPECT_EQ(rank.kind, MetaKind::kRank);
  EXPECT_EQ(rank.version, (Version{7, 3}));
  EXPECT_EQ(rank.rank, 9u);
  const std::string evaluation_key = EvaluationKey({7, 3}, "test/day_7", 9);
  ASSERT_OK_AND_ASSIGN(const MetaKey evaluation, ParseMetaKey(evaluation_key));
  EXPECT_EQ(evaluation.kind, MetaKind::kEvaluation);
  EXPECT_EQ(evaluation.version, (Version{7, 3}));
  EXPECT_EQ(evaluation.name, "test/day_7");
  EXPECT_EQ(evaluation.rank, 9u);
  ASSERT_OK_AND_ASSIGN(const MetaKey attempt, ParseMetaKey(AttemptKey(kMax32)));
  EXPECT_EQ(attempt.kind, MetaKind::kAttempt);
  EXPECT_EQ(attempt.version.attempt, kMax32);
  const MetaKey retired = ParseMetaKey(RetiredKey({kMaxStep, 3})).value();
  EXPECT_EQ(retired.kind, MetaKind::kRetired);
  EXPECT_EQ(retired.version, (Version{kMaxStep, 3}));
  EXPECT_EQ(ParseMetaKey(RootKey()).value().kind, MetaKind::kRoot);
}

TEST(MetaKeys, SortLikeTheirFields) {
  Draw draw(TestSeed());
  for (int i = 0; i < 5000; ++i) {
    const Fields a = draw.All();
    const Fields b = draw.Near(a);
    ASSERT_EQ(StepKey(a.version.step) < StepKey(b.version.step),
              a.version.step < b.version.step);
    ASSERT_EQ(RankKey(a.version, a.rank) < RankKey(b.version, b.rank),
              std::tie(a.version, a.rank) < std::tie(b.version, b.rank));
    ASSERT_EQ(AttemptKey(a.version.attempt) < AttemptKey(b.version.attempt),
              a.version.attempt < b.version.attempt);
    ASSERT_TRUE(
        RankKey(a.version, a.rank).starts_with(RankKeyPrefix(a.version)));
    ASSERT_EQ(EvaluationKey(a.version, a.name, a.rank) <
                  EvaluationKey(b.version, b.name, b.rank),
              std::tie(a.version, a.name, a.rank) <
                  std::tie(b.version, b.name, b.rank));
    const std::string evaluation = EvaluationKeyPrefix(a.version, a.name);
    ASSERT_TRUE(evaluation.starts_with(EvaluationKeyPrefix(a.version)));
    ASSERT_TRUE(
        EvaluationKey(a.version, a.name, a.rank).starts_with(evaluation));
  }
}

TEST(MetaKeys, ParseNamesTheWrongField) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "is empty"},
      {"x", "has an unknown kind of record"},
      {"s", "is not the key of a step"},
      {"v12345678", "is not the key of a retired step"},
      {StepKey(1) + "x", "is not the key of a step"},
      {StepKey(-1), "has a negative step"},
      {RankKey({1, 1}, 1) + "x", "is not the key of a rank"},
      {RankKeyPrefix({1, 1}), "is not the key of a rank"},
      {RankKey({-1, 1}, 1), "has a negative step"},
      {EvaluationKey({1, 1}, "a", 1).substr(0, 12), "is too short"},
      {EvaluationKeyPrefix({1, 1}) + "a", "has no NUL after the name"},
      {EvaluationKeyPrefix({1, 1}, ""), "has an invalid name"},
      {EvaluationKeyPrefix({1, 1}, "\xff"), "has an invalid name"},
      {EvaluationKeyPrefix({1, 1}, "a"), "has an invalid suffix for a rank"},
      {EvaluationKey({1, 1}, "a", 1) + "x", "has an invalid suffix for a rank"},
      {EvaluationKey({-1, 1}, "a", 1), "has a negative step"},
      {AttemptKey(1) + "x", "is not the key of an attempt"},
      {"a", "is not the key of an attempt"},
      {"mm", "is not the key of the root"}};
  for (const auto& [key, words] : bad) {
    EXPECT_THAT(ParseMetaKey(key), IsBadKey(key, words));
  }
}

}  // namespace
}  // namespace ckptdb::testing
