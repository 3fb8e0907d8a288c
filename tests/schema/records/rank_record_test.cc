// SPDX-License-Identifier: Apache-2.0
// The record of a rank, and its items.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "schema/bytes/lossy.h"
#include "schema/records/records.h"
#include "tests/schema/records/record_rules.h"

namespace ckptdb::testing {
namespace {

// Rules of one item, which is the only one of its rank.
class ItemRules {
 public:
  ItemRules()
      : rules_("rank record", EncodeRankRecord, DecodeRankRecord,
               {SampleRank(), {{0, 1}, 0, {}}}) {}

  void Good(const Item& item, const std::function<void(Item*)>& change,
            int line = __builtin_LINE()) {
    rules_.Good(Of(item, change), line);
  }
  void Bad(const Item& item, const std::string& words,
           const std::function<void(Item*)>& change,
           int line = __builtin_LINE()) {
    rules_.BadAt("item \"" + item.name, words, Of(item, change), line);
  }
  void Around(const Item& item, uint64_t limit, const std::string& words,
              const std::function<void(Item*, uint64_t)>& set,
              int line = __builtin_LINE()) {
    Good(
        item, [=](Item* i) { set(i, limit - 1); }, line);
    Good(
        item, [=](Item* i) { set(i, limit); }, line);
    Bad(
        item, words, [=](Item* i) { set(i, limit + 1); }, line);
  }
  RecordRules<StepRecord::Rank>& rank() { return rules_; }
  void Check() const { rules_.Check(); }

 private:
  static std::function<void(StepRecord::Rank*)> Of(
      const Item& item, const std::function<void(Item*)>& change) {
    return [=](StepRecord::Rank* r) {
      r->items = {item};
      change(&r->items[0]);
    };
  }

  RecordRules<StepRecord::Rank> rules_;
};

TEST(RankRecord, VersionsNamesAndOrder) {
  ItemRules items;
  RecordRules<StepRecord::Rank>& rules = items.rank();
  rules.Versions();
  rules.Around(kMaxWorldSize - 1,
               "rank 65536 is out of range for world size 65536",
               [](StepRecord::Rank* r, uint64_t rank) {
                 r->rank = static_cast<uint32_t>(rank);
               });
  rules.Names("item name", [](StepRecord::Rank* r, std::string name) {
    r->items = {SampleBlob()};
    r->items[0].name = std::move(name);
  });
  rules.Good([](StepRecord::Rank* r) { r->items.clear(); });
  const std::string order = "item \"reader\" is out of order: it follows ";
  rules.Bad(order + "table \"users\"", [](StepRecord::Rank* r) {
    r->items = {SampleTable(), SampleBlob()};
  });
  rules.Bad(order + "blob \"reader\"", [](StepRecord::Rank* r) {
    r->items = {SampleBlob(), SampleBlob()};
  });
  rules.Bad("item \"a\" is out of order: it follows", [](StepRecord::Rank* r) {
    r->items = {SampleTensor(), SampleTensor()};
    r->items[0].name = "b";
    r->items[1].name = "a";
  });
  items.Bad(SampleBlob(), "data has attempt 0",
            [](Item* i) { i->data_version.attempt = 0; });
  items.Bad(SampleBlob(), "data has negative step -1",
            [](Item* i) { i->data_version.step = -1; });
  items.Check();
}

TEST(RankRecord, Sharding) {
  ItemRules rules;
  for (const Item::Sharding kind :
       {Item::Sharding::kUndeclared, Item::Sharding::kBySlices,
        Item::Sharding::kByModulo, Item::Sharding::kReplicated}) {
    rules.Good(SampleTable(), [=](Item* i) { i->sharding = kind; });
    rules.Bad(SampleTable(),
              "has the sharding name \"hash_v2\", but its sharding is ",
              [=](Item* i) {
                i->sharding = kind;
                i->sharding_name = "hash_v2";
              });
  }
  rules.Around(SampleTable(), kMaxNameBytes, "sharding name",
               [](Item* i, uint64_t bytes) {
                 i->sharding = Item::Sharding::kCustom;
                 i->sharding_name = std::string(bytes, 'h');
               });
  rules.Bad(SampleTable(), "sharding name",
            [](Item* i) { i->sharding = Item::Sharding::kCustom; });
  rules.Bad(SampleTable(), "has unknown sharding 6",
            [](Item* i) { i->sharding = static_cast<Item::Sharding>(6); });
  // A user's function may have the name that stands for ranges.
  rules.Good(SampleTable(), [](Item* i) {
    i->sharding = Item::Sharding::kCustom;
    i->sharding_name = "range";
  });
  rules.Bad(SampleTensor(), "has sharding 2, which only a table may have",
            [](Item* i) { i->sharding = Item::Sharding::kByModulo; });
  rules.Bad(SampleBlob(), "has the sharding name \"hash_v2\"",
            [](Item* i) { i->sharding_name = "hash_v2"; });
  rules.Check();
}

TEST(RankRecord, IdRanges) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  ItemRules rules;
  const auto ranged = [](int64_t first, int64_t end) {
    return [=](Item* i) {
      i->sharding = Item::Sharding::kByRange;
      i->first_id = first;
      i->end_id = end;
    };
  };
  rules.Good(SampleTable(), ranged(0, 0));
  rules.Good(SampleTable(), ranged(-3, 500));
  rules.Good(SampleTable(), ranged(kLeast, kMost));
  rules.Bad(SampleTable(), "has the ids 1 to below 0, with the sharding range",
            ranged(1, 0));
  rules.Bad(SampleTable(), "has the ids 0 to below 5, with the sharding modulo",
            [](Item* i) {
              i->sharding = Item::Sharding::kByModulo;
              i->end_id = 5;
            });
  rules.Bad(SampleTable(), "has the sharding name \"a\"", [](Item* i) {
    i->sharding = Item::Sharding::kByRange;
    i->sharding_name = "a";
  });
  rules.Bad(SampleTensor(), "has sharding 5, which only a table may have",
            ranged(0, 5));
  rules.Check();
}

TEST(RankRecord, StoredNumbers) {
  ItemRules rules;
  const std::string dtype = "invalid stored dtype 15; expected less than 15";
  const std::string codec = "invalid stored codec 255; expected 0 (none)";
  const auto none = static_cast<DType>(kDTypes);
  rules.Bad(SampleTensor(), "has unknown kind 88",
            [](Item* i) { i->kind = static_cast<Item::Kind>('X'); });
  rules.Bad(SampleTensor(), "has unknown placement 2",
            [](Item* i) { i->placement = static_cast<Item::Placement>(2); });
  rules.Bad(SampleTable(), "has unknown slice hash 2",
            [](Item* i) { i->slice_hash = static_cast<SliceHash>(2); });
  rules.Bad(SampleTable(), "has unknown run 67",
            [](Item* i) { i->run = static_cast<Item::Run>('C'); });
  rules.Bad(SampleTensor(), dtype, [=](Item* i) { i->dtype = none; });
  rules.Bad(SampleTensor(), codec, [](Item* i) { i->codec = Codec::kAuto; });
  rules.Bad(SampleTable(), dtype, [=](Item* i) { i->slots[1].dtype = none; });
  rules.Bad(SampleTable(), codec,
            [](Item* i) { i->slots[1].codec = Codec::kAuto; });
  rules.Check();
}

TEST(RankRecord, TensorsAndBlobs) {
  ItemRules rules;
  rules.Good(SampleTensor(), [](Item* i) {
    i->shape = i->offset = i->global_shape = {};  // a scalar
    i->raw_bytes = 2;
  });
  rules.Good(SampleTensor(), [](Item* i) {
    i->shape = {0, 4};
    i->raw_bytes = 0;
    i->chunk_hashes.clear();
  });
  rules.Bad(SampleTensor(), "shape [-3, 4] has a negative dimension",
            [](Item* i) { i->shape[0] = -3; });
  rules.Bad(SampleTensor(), "shape [-6, 4] has a negative dimension",
            [](Item* i) { i->global_shape[0] = -6; });
  rules.Bad(SampleTensor(), "exceeds 2^63 - 1 bytes",
            [](Item* i) { i->global_shape[0] = int64_t{1} << 61; });
  rules.Bad(SampleTensor(),
            "shape [3, 4] at offset [4, 0] is not within [6, 4]",
            [](Item* i) { i->offset[0] = 4; });
  rules.Bad(SampleTensor(), "shape [3, 4] at offset [3] is not within [6, 4]",
            [](Item* i) { i->offset.pop_back(); });
  rules.Bad(SampleTensor(), "is not within [6, 4]",
            [](Item* i) { i->shape.push_back(1); });
  rules.Around(SampleTensor(), kMaxDimensions,
               "shape has 65 dimensions; the limit is 64",
               [](Item* i, uint64_t dimensions) {
                 i->shape = i->global_shape = Shape(dimensions, 1);
                 i->offset = Shape(dimensions, 0);
                 i->raw_bytes = 2;
               });
  rules.Bad(SampleTensor(), "has 25 raw bytes; shape [3, 4] takes 24",
            [](Item* i) { i->raw_bytes = 25; });
  rules.Bad(SampleTensor(), "has 24 raw bytes; shape [3, 4] takes 48",
            [](Item* i) { i->dtype = DType::kF32; });
  rules.Good(SampleBlob(), [](Item* i) { i->shape = {1, 2}; });
  const auto blob = [](uint64_t bytes, size_t chunks) {
    return [=](Item* i) {
      i->raw_bytes = bytes;
      i->chunk_hashes.resize(chunks);
    };
  };
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kChunkBytes - 1,
                               kChunkBytes + uint64_t{0}, kChunkBytes + 1}) {
    const auto chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
    rules.Good(SampleBlob(), blob(bytes, chunks));
    rules.Bad(
        SampleBlob(),
        absl::StrCat("has ", chunks + 1, " chunk hashes; expected ", chunks),
        blob(bytes, chunks + 1));
  }
  rules.Bad(SampleBlob(), "has 1 chunk hashes; expected 2",
            blob(kChunkBytes + 1, 1));
  rules.Bad(SampleTensor(), "has 0 chunk hashes; expected 1",
            [](Item* i) { i->chunk_hashes.clear(); });
  rules.Around(
      SampleBlob(), kMaxBlobBytes,
      "has 4294967297 raw bytes; the limit of a blob is 4294967296",
      [](Item* i, uint64_t bytes) {
        i->raw_bytes = bytes;
        i->chunk_hashes.resize((bytes + kChunkBytes - 1) / kChunkBytes);
      });
  rules.Bad(SampleBlob(), "the limit of a blob is",
            [](Item* i) { i->raw_bytes = ~uint64_t{0}; });
  rules.Check();
}

// Sets `slots` slots with one byte each.
void SetSlots(Item* i, uint64_t slots) {
  i->slots.clear();
  for (uint64_t n = 0; n < slots; ++n) {
    i->slots.push_back({std::to_string(n), DType::kU8, 1, Codec::kNone});
  }
  i->raw_bytes = i->rows * (8 + slots) + i->erased_rows * 8;
}

TEST(RankRecord, Slots) {
  ItemRules rules;
  rules.Bad(SampleTable(), "has 0 slots; expected 1 to 256",
            [](Item* i) { SetSlots(i, 0); });
  rules.Good(SampleTable(), [](Item* i) { SetSlots(i, 1); });
  rules.Around(SampleTable(), kMaxSlots, "has 257 slots; expected 1 to 256",
               SetSlots);
  const auto width = [](Item* i, DType dtype, uint64_t elements) {
    i->slots = {{"wide", dtype, static_cast<uint32_t>(elements)}};
    i->rows_per_page = 1;
    i->raw_bytes = i->rows * (8 + i->slots[0].row_bytes()) + i->erased_rows * 8;
  };
  rules.Bad(SampleTable(),
            "has slot \"wide\" of 0 bytes per row; expected 1 to 65536",
            [=](Item* i) { width(i, DType::kU8, 0); });
  rules.Good(SampleTable(), [=](Item* i) { width(i, DType::kU8, 1); });
  rules.Around(SampleTable(), kMaxSlotBytes,
               "has slot \"wide\" of 65537 bytes per row",
               [=](Item* i, uint64_t bytes) { width(i, DType::kU8, bytes); });
  rules.Good(SampleTable(),
             [=](Item* i) { width(i, DType::kF64, kMaxSlotBytes / 8); });
  rules.Bad(SampleTable(), "has slot \"wide\" of 34359738360 bytes per row",
            [=](Item* i) { width(i, DType::kF64, ~uint32_t{0}); });
  rules.rank().Names("slot name", [](StepRecord::Rank* r, std::string name) {
    r->items = {SampleTable()};
    r->items[0].slots[0].name = std::move(name);
  });
  rules.Bad(SampleTable(), "has duplicate slot \"embedding\"",
            [](Item* i) { i->slots[1].name = "embedding"; });
  rules.Check();
}

TEST(RankRecord, RowsOfTables) {
  ItemRules rules;
  const auto rows = [](Item* i, uint64_t count) {
    i->rows_per_page = static_cast<uint32_t>(count);
  };
  rules.Bad(SampleTable(), "has 0 rows per page; expected 1 to 1024",
            [=](Item* i) { rows(i, 0); });
  rules.Good(SampleTable(), [=](Item* i) { rows(i, 1); });
  rules.Around(SampleTable(), kPageBytes / 256,
               "has 1025 rows per page; expected 1 to 1024", rows);
  // Here an id is wider than the slot.
  rules.Bad(SampleTable(), "has 32769 rows per page; expected 1 to 32768",
            [=](Item* i) {
              SetSlots(i, 1);
              rows(i, kPageBytes / 8 + 1);
            });
  const std::string expected =
      " raw bytes; expected 1000 rows of 272 bytes and 7 erased ids of 8 bytes";
  rules.Bad(SampleTable(), "has 272055" + expected,
            [](Item* i) { --i->raw_bytes; });
  rules.Bad(SampleTable(), "has 272000" + expected,
            [](Item* i) { i->raw_bytes -= 56; });
  rules.Bad(SampleTable(), "expected 18446744073709551615 rows of 272 bytes",
            [](Item* i) { i->rows = ~uint64_t{0}; });
  rules.Bad(SampleTable(), "2305843009213693952 erased ids of 8 bytes",
            [](Item* i) { i->erased_rows = uint64_t{1} << 61; });
  rules.Bad(SampleTable(), "has 7 erased ids in a base run",
            [](Item* i) { i->run = Item::Run::kBase; });
  rules.Good(SampleTable(), [](Item* i) {
    i->run = Item::Run::kBase;
    i->erased_rows = 0;
    i->raw_bytes = 272000;
  });
  rules.Check();
}

TEST(RankRecord, LossyCodecsAndTheirErrors) {
  ItemRules rules;
  const auto errors = [](const std::vector<Item::Error>& all) {
    return [all](Item* i) { i->errors = all; };
  };
  rules.Good(SampleTensor(), errors({{0.5, 1}}));
  rules.Bad(SampleTensor(), "has 2 errors; expected 0 or 1",
            errors({{0.5, 1}, {0.5, 1}}));
  rules.Good(SampleTable(), errors({{0, 0}, {1, 1}}));
  rules.Bad(SampleTable(), "has 1 errors; expected 0 or 2", errors({{0, 0}}));
  rules.Bad(SampleBlob(), "has 1 errors; expected 0 or 0", errors({{0, 0}}));
  rules.Bad(SampleTensor(), "has the error 1.5; expected 0 to its bound, 1",
            errors({{1.5, 1}}));
  rules.Bad(SampleTensor(), "has the error -1e-300; expected 0 to its bound, 1",
            errors({{-1e-300, 1}}));
  rules.Bad(SampleTensor(), "has the error nan; expected 0 to its bound, 1",
            errors({{std::nan(""), 1}}));
  rules.Bad(SampleTensor(), "has the error 0; expected 0 to its bound, nan",
            errors({{0, std::nan("")}}));
  const auto tensor = [](Codec codec, const std::vector<Item::Error>& all) {
    return [=](Item* i) {
      i->dtype = DType::kF32;
      i->raw_bytes = 48;
      i->codec = codec;
      i->errors = all;
    };
  };
  rules.Good(SampleTensor(), tensor(Codec::kInt8, {{0, 1}}));
  rules.Bad(
      SampleTensor(),
      "has codec bf16 and no errors; expected one for each tensor or slot",
      tensor(Codec::kBf16, {}));
  rules.Bad(SampleTensor(), "codec bf16 supports only f32, not bf16",
            [](Item* i) {
              i->codec = Codec::kBf16;
              i->errors = {{0, 1}};
            });
  const auto slot = [](size_t at, Codec codec) {
    return [=](Item* i) {
      i->slots[at].codec = codec;
      i->errors = {{0, 1}, {0, 0}};
    };
  };
  rules.Good(SampleTable(), slot(0, Codec::kInt8));
  rules.Bad(SampleTable(), "codec bf16 supports only f32, not u64",
            slot(1, Codec::kBf16));
  rules.Bad(
      SampleTable(),
      "has codec int8 and no errors; expected one for each tensor or slot",
      [](Item* i) { i->slots[0].codec = Codec::kInt8; });
  rules.Bad(SampleTable(), "codec int8 needs rows of at least 4 numbers",
            [=](Item* i) {
              i->slots[0].elements = kLeastInt8Elements - 1;
              i->raw_bytes = 1000 * (8 + 12 + 8) + 7 * 8;
              slot(0, Codec::kInt8)(i);
            });
  rules.Bad(SampleTable(), "codec bf16 supports only f32, not u8", [](Item* i) {
    i->codec = Codec::kBf16;
    i->errors = {{0, 1}, {0, 0}};
  });
  rules.Bad(SampleBlob(), "codec bf16 supports only f32, not u8",
            [](Item* i) { i->codec = Codec::kBf16; });
  rules.Check();
}

// Both items of SampleShards.
using ChangeShards = std::function<void(Item*, Item*)>;

TEST(RankRecord, ShardsOfATensor) {
  ItemRules items;
  RecordRules<StepRecord::Rank>& rules = items.rank();
  const auto changed = [](const ChangeShards& change) {
    return [=](StepRecord::Rank* r) {
      r->items = SampleShards();
      change(&r->items[0], &r->items[1]);
    };
  };
  const auto good = [&](const ChangeShards& change, int line) {
    rules.Good(changed(change), line);
  };
  const auto bad = [&](const std::string& words, const ChangeShards& change,
                       int line) {
    rules.BadAt("item \"mlp/weight\"", words, changed(change), line);
  };
  good([](Item*, Item*) {}, __LINE__);
  // Borrowed from different versions.
  good(
      [](Item*, Item* b) {
        b->data_version.attempt = 4;
        b->first_chunk = 0;
      },
      __LINE__);
  good([](Item*, Item* b) { b->first_chunk = 7; }, __LINE__);
  good([](Item*, Item* b) { b->first_chunk = ~uint32_t{0}; }, __LINE__);
  // An empty one at the same offset.
  good(
      [](Item* a, Item*) {
        a->offset = {3, 0};
        a->shape = {0, 4};
        a->raw_bytes = 0;
        a->chunk_hashes.clear();
      },
      __LINE__);
  bad(
      "is out of order: it follows tensor \"mlp/weight\"",
      [](Item* a, Item* b) { std::swap(*a, *b); }, __LINE__);
  bad(
      "is out of order: it follows tensor \"mlp/weight\"",
      [](Item* a, Item* b) { *b = *a; }, __LINE__);
  bad(
      "has shards of dtypes bf16 and i16",
      [](Item*, Item* b) { b->dtype = DType::kI16; }, __LINE__);
  bad(
      "has shards of global shapes [6, 4] and [7, 4]",
      [](Item*, Item* b) { b->global_shape[0] = 7; }, __LINE__);
  bad(
      "has shards that overlap: [3, 4] at [0, 0] and [3, 4] at [2, 0]",
      [](Item*, Item* b) { b->offset[0] = 2; }, __LINE__);
  bad(
      "shape [3, 4] at offset [4, 0] is not within [6, 4]",
      [](Item*, Item* b) { b->offset[0] = 4; }, __LINE__);
  bad(
      "has a shard at [3, 0] with first chunk 0; expected at least 1",
      [](Item*, Item* b) { b->first_chunk = 0; }, __LINE__);
  rules.Check();
}

TEST(RankRecord, NumbersOfChunks) {
  ItemRules rules;
  rules.Good(SampleTensor(), [](Item* i) { i->first_chunk = ~uint32_t{0}; });
  rules.Bad(SampleTensor(),
            "has first chunk 4294967295 and 2 chunks; their numbers are below "
            "4294967296",
            [](Item* i) {
              i->first_chunk = ~uint32_t{0};
              i->shape = i->global_shape = {1 << 17, 2};
              i->offset = {0, 0};
              i->raw_bytes = 2 * kChunkBytes;
              i->chunk_hashes.resize(2);
            });
  rules.Bad(SampleBlob(), "has first chunk 1, which only a tensor may have",
            [](Item* i) { i->first_chunk = 1; });
  rules.Bad(SampleTable(), "has first chunk 1, which only a tensor may have",
            [](Item* i) { i->first_chunk = 1; });
  rules.Check();
}

StepRecord::Rank RankOfShards(uint64_t shards) {
  StepRecord::Rank record = {{20, 5}, 0, {}};
  Item item = SampleTensor();
  item.shape = {1};
  item.global_shape = {kMaxShards + 1};
  item.raw_bytes = 2;
  for (uint64_t i = 0; i < shards; ++i) {
    item.offset = {static_cast<int64_t>(i)};
    item.first_chunk = static_cast<uint32_t>(i);
    record.items.push_back(item);
  }
  return record;
}

TEST(RankRecord, NumberOfShards) {
  for (const uint64_t shards : {kMaxShards - 1, kMaxShards}) {
    const StepRecord::Rank record = RankOfShards(shards);
    ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeRankRecord(record));
    EXPECT_TRUE(DecodeRankRecord(bytes).value() == record);
  }
  const StepRecord::Rank record = RankOfShards(kMaxShards + 1);
  const std::string words =
      "item \"mlp/weight\" has 65537 shards; the limit is 65536";
  EXPECT_THAT(EncodeRankRecord(record), InvalidArgument(words));
  EXPECT_THAT(DecodeRankRecord(internal::EncodeUnchecked(record)),
              DataLoss(words));
}

// A library without lossy codecs reads only records of format version 1, and
// one without several shards of a tensor only versions 1 and 2.
TEST(RankRecord, FormatVersionDependsOnContents) {
  const auto version_of = [](const StepRecord::Rank& record) {
    const absl::StatusOr<std::string> bytes = EncodeRankRecord(record);
    EXPECT_OK(bytes);
    uint16_t version = 0;
    if (bytes.ok()) std::memcpy(&version, bytes->data() + 6, sizeof(version));
    return version;
  };
  StepRecord::Rank record = SampleRank();
  EXPECT_EQ(version_of(record), kFormatVersion);
  Item& table = record.items[1];
  table.errors = {{0.25, 0.5}, {0, 0}};  // after a fold to a lossless codec
  EXPECT_EQ(version_of(record), kFormatVersion);
  table.slots[0].codec = Codec::kInt8;
  EXPECT_EQ(version_of(record), kLossyFormatVersion);
  // The only shard left of several.
  record.items[2].first_chunk = 1;
  EXPECT_EQ(version_of(record), kShardsFormatVersion);
  record.items = SampleShards();
  EXPECT_EQ(version_of(record), kShardsFormatVersion);
}

Item RandomItem(std::mt19937_64* random) {
  const auto draw = [&](uint64_t n) { return (*random)() % n; };
  Item item =
      std::vector<Item>{SampleBlob(), SampleTable(), SampleTensor()}[draw(3)];
  item.name = std::to_string((*random)());
  item.data_version = {static_cast<int64_t>((*random)() >> 1),
                       static_cast<uint32_t>(1 + draw(1000))};
  item.placement = static_cast<Item::Placement>(draw(2));
  item.stored_bytes = (*random)();
  item.digest = (*random)();
  item.codec = static_cast<Codec>(draw(3));
  for (uint64_t& hash : item.chunk_hashes) hash = (*random)();
  if (item.kind == Item::Kind::kTensor) {
    item.dtype = static_cast<DType>(draw(kDTypes));
    item.raw_bytes = 12 * DTypeBytes(item.dtype);
    if (draw(2) == 0) item.first_chunk = static_cast<uint32_t>(draw(1000));
  }
  if (item.kind == Item::Kind::kRows) {
    for (Slot& slot : item.slots) slot.codec = static_cast<Codec>(draw(3));
    if (draw(2) == 0) {
      item.slots[0].codec = draw(2) == 0 ? Codec::kBf16 : Codec::kInt8;
      item.errors = {{static_cast<double>(draw(9)), 8}, {0, 0}};
    }
    item.rows = draw(1000000000);
    item.erased_rows = draw(1000);
    item.raw_bytes = item.rows * 272 + item.erased_rows * 8;
    item.rows_per_page = static_cast<uint32_t>(1 + draw(1024));
  }
  return item;
}

TEST(RankRecord, RandomRoundTrips) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 300; ++i) {
    StepRecord::Rank record{{5, 6}, static_cast<uint32_t>(random() % 100), {}};
    for (uint64_t n = random() % 30; n > 0; --n) {
      record.items.push_back(RandomItem(&random));
    }
    std::sort(record.items.begin(), record.items.end(),
              [](const Item& a, const Item& b) {
                return std::tie(a.kind, a.name) < std::tie(b.kind, b.name);
              });
    ASSERT_EQ(DecodeRankRecord(internal::EncodeUnchecked(record)).value(),
              record);
  }
}

}  // namespace
}  // namespace ckptdb::testing
