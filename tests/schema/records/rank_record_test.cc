// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "schema/bytes/limits.h"
#include "schema/records/record_checks.h"
#include "schema/records/records.h"
#include "schema/types.h"
#include "tests/schema/samples.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"

namespace ckptdb {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SampleBlob;
using testing::SampleRank;
using testing::SampleTable;
using testing::SampleTensor;
using ::testing::StartsWith;
using testing::StatusIs;

using Change = std::function<void(Item*)>;

absl::StatusOr<StepRecord::Rank> RoundTrip(const StepRecord::Rank& record) {
  return DecodeRankRecord(internal::EncodeUnchecked(record));
}

void ExpectGood(Item item, const Change& change) {
  change(&item);
  const StepRecord::Rank record{{30, 9}, 0, {item}};
  ASSERT_OK_AND_ASSIGN(const StepRecord::Rank back, RoundTrip(record));
  EXPECT_EQ(back, record);
}

void ExpectBad(Item item, const Change& change, const std::string& words) {
  change(&item);
  EXPECT_THAT(RoundTrip({{30, 9}, 0, {item}}),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(StartsWith("rank record: item \"" + item.name),
                             HasSubstr(words))));
}

auto IsBadRank(const std::string& words) {
  return StatusIs(absl::StatusCode::kDataLoss,
                  AllOf(StartsWith("rank record: "), HasSubstr(words)));
}

TEST(RankRecord, RoundTripOfAllFields) {
  ASSERT_OK_AND_ASSIGN(const StepRecord::Rank back, RoundTrip(SampleRank()));
  EXPECT_EQ(back, SampleRank());
}

TEST(RankRecord, Sharding) {
  for (const Item::Sharding kind :
       {Item::Sharding::kUndeclared, Item::Sharding::kBySlices,
        Item::Sharding::kByModulo, Item::Sharding::kReplicated}) {
    ExpectGood(SampleTable(), [&](Item* i) { i->sharding = kind; });
    ExpectBad(
        SampleTable(),
        [&](Item* i) {
          i->sharding = kind;
          i->sharding_name = "hash_v2";
        },
        "has the sharding name \"hash_v2\", but its sharding is ");
  }
  ExpectGood(SampleTable(), [](Item* i) {
    i->sharding = Item::Sharding::kCustom;
    i->sharding_name = std::string(kMaxNameBytes, 'h');
  });
  ExpectBad(
      SampleTable(),
      [](Item* i) {
        i->sharding = Item::Sharding::kCustom;
        i->sharding_name = std::string(kMaxNameBytes + 1, 'h');
      },
      "sharding name");
  ExpectBad(
      SampleTable(), [](Item* i) { i->sharding = Item::Sharding::kCustom; },
      "sharding name");
  ExpectBad(
      SampleTable(),
      [](Item* i) { i->sharding = static_cast<Item::Sharding>(5); },
      "has unknown sharding 5");
  ExpectBad(
      SampleTensor(), [](Item* i) { i->sharding = Item::Sharding::kByModulo; },
      "has sharding 2, which only a table may have");
  ExpectBad(
      SampleBlob(), [](Item* i) { i->sharding_name = "hash_v2"; },
      "has the sharding name \"hash_v2\"");
}

TEST(RankRecord, RoundTripOfNoItems) {
  const StepRecord::Rank record{{0, 1}, 0, {}};
  ASSERT_OK_AND_ASSIGN(const StepRecord::Rank back, RoundTrip(record));
  EXPECT_EQ(back, record);
}

TEST(RankRecord, VersionAndRank) {
  EXPECT_THAT(RoundTrip({{-1, 9}, 0, {}}),
              IsBadRank("version has negative step -1"));
  EXPECT_THAT(RoundTrip({{1, 0}, 0, {}}), IsBadRank("version has attempt 0"));
  EXPECT_OK(RoundTrip({{1, 1}, kMaxWorldSize - 1, {}}));
  EXPECT_THAT(RoundTrip({{1, 1}, kMaxWorldSize, {}}),
              IsBadRank("rank 65536 is out of range for world size 65536"));
}

TEST(RankRecord, ItemsInOrderOfKindAndName) {
  StepRecord::Rank record = SampleRank();
  std::swap(record.items[0], record.items[1]);
  EXPECT_THAT(RoundTrip(record),
              IsBadRank("item \"reader\" is out of order: it follows table "
                        "\"users\""));
  record = SampleRank();
  record.items[1] = record.items[0];
  EXPECT_THAT(RoundTrip(record),
              IsBadRank("item \"reader\" is out of order: it follows blob "
                        "\"reader\""));
  record.items = {SampleTensor(), SampleTensor()};
  record.items[0].name = "b";
  record.items[1].name = "a";
  EXPECT_THAT(RoundTrip(record),
              IsBadRank("item \"a\" is out of order: it follows"));
}

TEST(Item, Names) {
  for (const std::string& name :
       {std::string(), std::string("a\0b", 3), std::string("\xff"),
        std::string(kMaxNameBytes + 1, 'n')}) {
    Item item = SampleBlob();
    item.name = name;
    EXPECT_THAT(RoundTrip({{1, 1}, 0, {item}}), IsBadRank("item name \""));
  }
  ExpectGood(SampleBlob(), [](Item* i) { i->name.assign(511, 'n'); });
  ExpectGood(SampleBlob(), [](Item* i) { i->name.assign(512, 'n'); });
}

TEST(Item, DataVersion) {
  ExpectBad(
      SampleBlob(), [](Item* i) { i->data_version.attempt = 0; },
      "data has attempt 0");
  ExpectBad(
      SampleBlob(), [](Item* i) { i->data_version.step = -1; },
      "data has negative step -1");
}

TEST(Item, RejectsUnknownStoredNumbers) {
  ExpectBad(
      SampleTensor(), [](Item* i) { i->kind = static_cast<Item::Kind>('X'); },
      "has unknown kind 88");
  ExpectBad(
      SampleTensor(),
      [](Item* i) { i->placement = static_cast<Item::Placement>(2); },
      "has unknown placement 2");
  ExpectBad(
      SampleTable(), [](Item* i) { i->slice_hash = static_cast<SliceHash>(2); },
      "has unknown slice hash 2");
  ExpectBad(
      SampleTable(), [](Item* i) { i->run = static_cast<Item::Run>('C'); },
      "has unknown run 67");
  ExpectBad(
      SampleTensor(), [](Item* i) { i->dtype = static_cast<DType>(15); },
      "invalid stored dtype 15; expected less than 15");
  ExpectBad(
      SampleTensor(), [](Item* i) { i->codec = Codec::kAuto; },
      "invalid stored codec 255; expected 0 (none)");
  ExpectBad(
      SampleTable(),
      [](Item* i) { i->slots[1].dtype = static_cast<DType>(15); },
      "invalid stored dtype 15; expected less than 15");
  ExpectBad(
      SampleTable(), [](Item* i) { i->slots[1].codec = Codec::kAuto; },
      "invalid stored codec 255; expected 0 (none)");
}

TEST(Tensor, Shapes) {
  ExpectGood(SampleTensor(), [](Item* i) {
    i->shape = i->offset = i->global_shape = {};  // a scalar
    i->raw_bytes = 2;
  });
  ExpectGood(SampleTensor(), [](Item* i) {
    i->shape = {0, 4};
    i->raw_bytes = 0;
    i->chunk_hashes.clear();
  });
  ExpectBad(
      SampleTensor(), [](Item* i) { i->shape[0] = -3; },
      "shape [-3, 4] has a negative dimension");
  ExpectBad(
      SampleTensor(), [](Item* i) { i->global_shape[0] = -6; },
      "shape [-6, 4] has a negative dimension");
  ExpectBad(
      SampleTensor(), [](Item* i) { i->global_shape[0] = int64_t{1} << 61; },
      "exceeds 2^63 - 1 bytes");
  ExpectBad(
      SampleTensor(), [](Item* i) { i->offset[0] = 4; },
      "shape [3, 4] at offset [4, 0] is not within [6, 4]");
  ExpectBad(
      SampleTensor(), [](Item* i) { i->offset.pop_back(); },
      "shape [3, 4] at offset [3] is not within [6, 4]");
  ExpectBad(
      SampleTensor(), [](Item* i) { i->shape.push_back(1); },
      "is not within [6, 4]");
}

TEST(Tensor, DimensionsAtAndOverTheLimit) {
  const auto dimensions = [](size_t count) {
    return [count](Item* i) {
      i->shape = i->global_shape = Shape(count, 1);
      i->offset = Shape(count, 0);
      i->raw_bytes = 2;
    };
  };
  ExpectGood(SampleTensor(), dimensions(kMaxDimensions - 1));
  ExpectGood(SampleTensor(), dimensions(kMaxDimensions));
  ExpectBad(SampleTensor(), dimensions(kMaxDimensions + 1),
            "shape has 65 dimensions; the limit is 64");
}

TEST(Tensor, RejectsRawBytesOfAnotherShape) {
  ExpectBad(
      SampleTensor(), [](Item* i) { i->raw_bytes = 25; },
      "has 25 raw bytes; shape [3, 4] takes 24");
  ExpectBad(
      SampleTensor(), [](Item* i) { i->dtype = DType::kF32; },
      "has 24 raw bytes; shape [3, 4] takes 48");
}

TEST(Chunks, RejectsAWrongNumberOfHashes) {
  const auto blob = [](uint64_t bytes, size_t chunks) {
    return [=](Item* i) {
      i->raw_bytes = bytes;
      i->chunk_hashes.resize(chunks);
    };
  };
  ExpectGood(SampleBlob(), blob(0, 0));
  ExpectGood(SampleBlob(), blob(1, 1));
  ExpectGood(SampleBlob(), blob(kChunkBytes - 1, 1));
  ExpectGood(SampleBlob(), blob(kChunkBytes, 1));
  ExpectGood(SampleBlob(), blob(kChunkBytes + 1, 2));
  ExpectBad(SampleBlob(), blob(0, 1), "has 1 chunk hashes; expected 0");
  ExpectBad(SampleBlob(), blob(kChunkBytes, 2),
            "has 2 chunk hashes; expected 1");
  ExpectBad(SampleBlob(), blob(kChunkBytes + 1, 1),
            "has 1 chunk hashes; expected 2");
  ExpectBad(
      SampleTensor(), [](Item* i) { i->chunk_hashes.clear(); },
      "has 0 chunk hashes; expected 1");
}

TEST(Blob, BytesAtAndOverTheLimit) {
  const auto blob = [](uint64_t bytes) {
    return [=](Item* i) {
      i->raw_bytes = bytes;
      i->chunk_hashes.resize((bytes + kChunkBytes - 1) / kChunkBytes);
    };
  };
  ExpectGood(SampleBlob(), blob(kMaxBlobBytes - 1));
  ExpectGood(SampleBlob(), blob(kMaxBlobBytes));
  ExpectBad(SampleBlob(), blob(kMaxBlobBytes + 1),
            "has 4294967297 raw bytes; the limit of a blob is 4294967296");
  ExpectBad(
      SampleBlob(), [](Item* i) { i->raw_bytes = ~uint64_t{0}; },
      "the limit of a blob is");
}

// A table of `slots` slots with one byte each.
Change Slots(size_t slots) {
  return [slots](Item* i) {
    i->slots.clear();
    for (size_t n = 0; n < slots; ++n) {
      i->slots.push_back({std::to_string(n), DType::kU8, 1, Codec::kNone});
    }
    i->raw_bytes = i->rows * (8 + slots) + i->erased_rows * 8;
  };
}

TEST(Table, SlotsAtAndOverTheLimits) {
  ExpectBad(SampleTable(), Slots(0), "has 0 slots; expected 1 to 256");
  ExpectGood(SampleTable(), Slots(1));
  ExpectGood(SampleTable(), Slots(kMaxSlots - 1));
  ExpectGood(SampleTable(), Slots(kMaxSlots));
  ExpectBad(SampleTable(), Slots(kMaxSlots + 1),
            "has 257 slots; expected 1 to 256");
}

TEST(Table, SlotBytesAtAndOverTheLimits) {
  const auto width = [](DType dtype, uint32_t elements) {
    return [=](Item* i) {
      i->slots = {{"wide", dtype, elements, Codec::kNone}};
      i->rows_per_page = 1;
      i->raw_bytes =
          i->rows * (8 + i->slots[0].row_bytes()) + i->erased_rows * 8;
    };
  };
  ExpectBad(SampleTable(), width(DType::kU8, 0),
            "has slot \"wide\" of 0 bytes per row; expected 1 to 65536");
  ExpectGood(SampleTable(), width(DType::kU8, 1));
  ExpectGood(SampleTable(), width(DType::kU8, kMaxSlotBytes - 1));
  ExpectGood(SampleTable(), width(DType::kU8, kMaxSlotBytes));
  ExpectGood(SampleTable(), width(DType::kF64, kMaxSlotBytes / 8));
  ExpectBad(SampleTable(), width(DType::kU8, kMaxSlotBytes + 1),
            "has slot \"wide\" of 65537 bytes per row");
  ExpectBad(SampleTable(), width(DType::kF64, ~uint32_t{0}),
            "has slot \"wide\" of 34359738360 bytes per row");
}

TEST(Table, SlotNames) {
  ExpectBad(
      SampleTable(), [](Item* i) { i->slots[0].name = ""; },
      "slot name \"\" is empty");
  ExpectBad(
      SampleTable(), [](Item* i) { i->slots[0].name = "\xff"; },
      "slot name \"\\xff\" is not UTF-8 at byte 0");
  ExpectBad(
      SampleTable(), [](Item* i) { i->slots[1].name = "embedding"; },
      "has duplicate slot \"embedding\"");
}

TEST(Table, RowsPerPageAtAndOverTheLimits) {
  const uint64_t most = kPageBytes / 256;
  const auto rows = [](uint64_t count) {
    return [=](Item* i) { i->rows_per_page = static_cast<uint32_t>(count); };
  };
  ExpectBad(SampleTable(), rows(0), "has 0 rows per page; expected 1 to 1024");
  ExpectGood(SampleTable(), rows(1));
  ExpectGood(SampleTable(), rows(most - 1));
  ExpectGood(SampleTable(), rows(most));
  ExpectBad(SampleTable(), rows(most + 1),
            "has 1025 rows per page; expected 1 to 1024");
  // Here an id is wider than the slot.
  ExpectBad(
      SampleTable(),
      [](Item* i) {
        Slots(1)(i);
        i->rows_per_page = kPageBytes / 8 + 1;
      },
      "has 32769 rows per page; expected 1 to 32768");
}

TEST(Table, RejectsRawBytesOfOtherRows) {
  const std::string words =
      " raw bytes; expected 1000 rows of 272 bytes and 7 erased ids of 8 bytes";
  ExpectBad(
      SampleTable(), [](Item* i) { --i->raw_bytes; }, "has 272055" + words);
  ExpectBad(
      SampleTable(), [](Item* i) { i->raw_bytes -= 56; }, "has 272000" + words);
  ExpectBad(
      SampleTable(), [](Item* i) { i->rows = ~uint64_t{0}; },
      "expected 18446744073709551615 rows of 272 bytes");
  ExpectBad(
      SampleTable(), [](Item* i) { i->erased_rows = uint64_t{1} << 61; },
      "2305843009213693952 erased ids of 8 bytes");
}

TEST(Table, RejectsErasedIdsInABaseRun) {
  ExpectBad(
      SampleTable(), [](Item* i) { i->run = Item::Run::kBase; },
      "has 7 erased ids in a base run");
  ExpectGood(SampleTable(), [](Item* i) {
    i->run = Item::Run::kBase;
    i->erased_rows = 0;
    i->raw_bytes = 272000;
  });
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

// A library without lossy codecs reads only records of format version 1.
TEST(RankRecord, FormatVersionDependsOnLossyCodecs) {
  const auto version_of = [](const StepRecord::Rank& record) {
    const absl::StatusOr<std::string> bytes = EncodeRankRecord(record);
    EXPECT_OK(bytes);
    uint16_t version = 0;
    if (bytes.ok()) std::memcpy(&version, bytes->data() + 6, sizeof(version));
    return version;
  };
  StepRecord::Rank record = testing::SampleRank();
  EXPECT_EQ(version_of(record), kFormatVersion);
  Item& table = record.items[1];
  table.errors = {{0.25, 0.5}, {0, 0}};  // after a fold to a lossless codec
  EXPECT_EQ(version_of(record), kFormatVersion);
  table.slots[0].codec = Codec::kInt8;
  EXPECT_EQ(version_of(record), kLossyFormatVersion);
  ASSERT_OK_AND_ASSIGN(const StepRecord::Rank back, RoundTrip(record));
  EXPECT_EQ(back, record);
}

TEST(RankRecord, RandomRoundTrips) {
  std::mt19937_64 random(testing::TestSeed());
  for (int i = 0; i < 300; ++i) {
    StepRecord::Rank record{{5, 6}, static_cast<uint32_t>(random() % 100), {}};
    for (uint64_t n = random() % 30; n > 0; --n) {
      record.items.push_back(RandomItem(&random));
    }
    std::sort(record.items.begin(), record.items.end(),
              [](const Item& a, const Item& b) {
                return std::tie(a.kind, a.name) < std::tie(b.kind, b.name);
              });
    ASSERT_OK_AND_ASSIGN(const StepRecord::Rank back, RoundTrip(record));
    ASSERT_EQ(back, record);
  }
}

}  // namespace
}  // namespace ckptdb
