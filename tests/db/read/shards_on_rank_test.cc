// SPDX-License-Identifier: Apache-2.0
// Several shards of one tensor on a rank: saved, borrowed one by one, read by
// global offsets, damaged.
#include <rocksdb/file_system.h>

#include "schema/bytes/keys.h"
#include "schema/bytes/page.h"
#include "schema/bytes/shape.h"
#include "schema/records/record_checks.h"
#include "schema/records/records.h"
#include "tests/db/raw_database.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

constexpr char kName[] = "net/w";

uint64_t Elements(const Shape& shape) {
  uint64_t elements = 1;
  for (const int64_t n : shape) elements *= static_cast<uint64_t>(n);
  return elements;
}

// The bytes of a tensor.
struct Whole {
  Shape shape;
  DType dtype = DType::kI16;
  std::string bytes;

  std::string At(const Box& box) const {
    const uint64_t width = DTypeBytes(dtype);
    std::string out;
    for (uint64_t e = 0; e < Elements(box.shape); ++e) {
      uint64_t rest = e;
      uint64_t index = 0;
      uint64_t scale = 1;
      for (size_t d = shape.size(); d-- > 0;) {
        const auto n = static_cast<uint64_t>(box.shape[d]);
        index += scale * (static_cast<uint64_t>(box.offset[d]) + rest % n);
        rest /= n;
        scale *= static_cast<uint64_t>(shape[d]);
      }
      out.append(bytes, index * width, width);
    }
    return out;
  }
};

// The boxes of each rank.
using Tiling = std::vector<std::vector<Box>>;

class ShardsOnRankTest : public SweptFixture {
 protected:
  uint64_t Draw(uint64_t n) { return random_() % n; }
  int64_t DrawUpTo(int64_t n) {
    return static_cast<int64_t>(Draw(static_cast<uint64_t>(n) + 1));
  }

  void MakeWhole(Shape shape, DType dtype) {
    whole_ = {std::move(shape), dtype, {}};
    whole_.bytes =
        RandomBytes(&random_, Elements(whole_.shape) * DTypeBytes(dtype));
  }
  // Cuts the tensor into boxes, some of them empty, and gives each to one rank
  // or more.
  Tiling RandomTiling(uint32_t ranks, uint64_t cuts) {
    std::vector<Box> boxes = {{Shape(whole_.shape.size(), 0), whole_.shape}};
    for (uint64_t i = 0; i < cuts && !whole_.shape.empty(); ++i) {
      Box& lower = boxes[Draw(boxes.size())];
      const size_t d = Draw(whole_.shape.size());
      const int64_t cut = DrawUpTo(lower.shape[d]);
      Box upper = lower;
      lower.shape[d] = cut;
      upper.offset[d] += cut;
      upper.shape[d] -= cut;
      boxes.push_back(upper);
    }
    Tiling tiling(ranks);
    for (const Box& box : boxes) {
      const uint64_t first = Draw(ranks);
      tiling[first].push_back(box);
      if (Draw(6) == 0) tiling[(first + 1) % ranks].push_back(box);
    }
    for (std::vector<Box>& each : tiling) {
      std::ranges::shuffle(each, random_);
      // Without equal boxes, which are empty.
      std::vector<Box> distinct;
      for (const Box& box : each) {
        if (std::ranges::count(distinct, box) == 0) distinct.push_back(box);
      }
      each = distinct;
    }
    return tiling;
  }
  absl::StatusOr<StagedRank> StageBoxes(const Ticket& ticket,
                                        const std::vector<Box>& boxes) {
    std::vector<std::string> bytes;
    for (const Box& box : boxes) bytes.push_back(whole_.At(box));
    RankState state;
    for (size_t i = 0; i < boxes.size(); ++i) {
      state.AddTensor(kName,
                      {whole_.dtype, boxes[i].shape, bytes[i].data(),
                       whole_.shape, boxes[i].offset},
                      codec_);
    }
    // Its neighbors in key order.
    state.AddTensor("net/v", TensorView::Of(bytes_, {4}));
    state.AddTensor("net/w2", TensorView::Of(bytes_, {4}));
    state.AddBlob(kName, "a blob of this name");
    return Stage(path(), ticket, state);
  }
  absl::StatusOr<SaveResult> SaveTiling(int64_t step, const Tiling& tiling) {
    const Store::Attempt save = Begin(
        {.step = step, .world_size = static_cast<uint32_t>(tiling.size())});
    std::vector<StagedRank> staged;
    for (size_t rank = 0; rank < tiling.size(); ++rank) {
      CKPTDB_ASSIGN_OR_RETURN(staged.emplace_back(),
                              StageBoxes(save.tickets[rank], tiling[rank]));
    }
    return store_->Publish(save.version, staged);
  }
  void ExpectRead(int64_t step_number, int parts) {
    SCOPED_TRACE(step_number);
    ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(step_number));
    ASSERT_OK_AND_ASSIGN(const Item spec, step->FindTensor(kName));
    EXPECT_EQ(spec.shape, whole_.shape);
    EXPECT_EQ(spec.raw_bytes, whole_.bytes.size());
    EXPECT_TRUE(ReadTensorBytes(*step, kName).value() == whole_.bytes);
    for (int i = 0; i < parts; ++i) {
      Box box;
      for (const int64_t n : whole_.shape) {
        box.offset.push_back(DrawUpTo(n));
        box.shape.push_back(DrawUpTo(n - box.offset.back()));
      }
      const std::string expected = whole_.At(box);
      std::string out(expected.size(), '\xcc');
      ASSERT_OK(step->ReadTensorPart(kName, box.offset, box.shape, out.data(),
                                     out.size()));
      EXPECT_TRUE(out == expected)
          << ToString(box.offset) << " " << ToString(box.shape);
    }
    EXPECT_OK(step->Verify());
  }
  // The shards of the tensor on a rank.
  std::vector<Item> Shards(int64_t step, uint32_t rank) {
    std::vector<Item> shards;
    const auto reader = store_->OpenStep(step);
    EXPECT_OK(reader);
    for (const Item& item : (*reader)->ranks().at(rank).items) {
      if (item.kind == Item::Kind::kTensor && item.name == kName) {
        shards.push_back(item);
      }
    }
    return shards;
  }
  void Flip(const Box& box) {
    const uint64_t width = DTypeBytes(whole_.dtype);
    uint64_t index = 0;
    for (size_t d = 0; d < whole_.shape.size(); ++d) {
      index = index * static_cast<uint64_t>(whole_.shape[d]) +
              static_cast<uint64_t>(box.offset[d]);
    }
    whole_.bytes[index * width] ^= 1;
  }

  std::mt19937_64 random_{TestSeed()};
  Whole whole_;
  Codec codec_ = Codec::kNone;
  const uint32_t bytes_[4] = {1, 2, 3, 4};
};

TEST_F(ShardsOnRankTest, AnyTilingIsReadWholeAndInParts) {
  const std::vector<Shape> shapes = {{60},          {33, 41}, {7, 9, 11, 3},
                                     {1, 1, 20, 1}, {0, 4},   {}};
  for (int round = 0; round < 24; ++round) {
    SCOPED_TRACE(round);
    MakeWhole(shapes[static_cast<size_t>(round) % shapes.size()],
              round % 2 == 0 ? DType::kI16 : DType::kF64);
    codec_ = round % 3 == 0 ? Codec::kLz4 : Codec::kNone;
    const auto ranks = static_cast<uint32_t>(1 + Draw(4));
    ASSERT_OK(SaveTiling(round, RandomTiling(ranks, Draw(20))));
    ExpectRead(round, 12);
  }
}

// In files, with shards of several chunks.
TEST_F(ShardsOnRankTest, LargeShardsAreRead) {
  for (const int step : {1, 2, 3}) {
    MakeWhole({523, 7, 301}, DType::kI16);
    codec_ = step == 3 ? Codec::kAuto : Codec::kNone;
    ASSERT_OK(SaveTiling(step, RandomTiling(2, 9)));
    ExpectRead(step, 3);
  }
}

TEST_F(ShardsOnRankTest, EachUnchangedShardIsBorrowed) {
  for (const bool large : {false, true}) {
    const int64_t first = large ? 10 : 1;
    MakeWhole(large ? Shape{1200, 901} : Shape{40, 9}, DType::kI16);
    const Tiling tiling = RandomTiling(3, 12);
    ASSERT_OK_AND_ASSIGN(const SaveResult old, SaveTiling(first, tiling));
    ASSERT_OK_AND_ASSIGN(const SaveResult same, SaveTiling(first + 1, tiling));
    EXPECT_EQ(same.exclusive_bytes, 0u);

    uint32_t rank = 0;
    while (std::ranges::all_of(tiling[rank], [](const Box& box) {
      return Elements(box.shape) == 0;
    })) {
      ++rank;
    }
    const Box changed = *std::ranges::find_if(
        tiling[rank], [](const Box& box) { return Elements(box.shape) > 0; });
    Flip(changed);
    ASSERT_OK_AND_ASSIGN(const SaveResult third, SaveTiling(first + 2, tiling));
    for (uint32_t r = 0; r < 3; ++r) {
      for (const Item& shard : Shards(first + 2, r)) {
        const bool is_new =
            shard.offset == changed.offset && shard.shape == changed.shape;
        EXPECT_TRUE(is_new || shard.data_version == old.version ||
                    shard.raw_bytes == 0)
            << ToString(shard.offset) << " " << ToString(shard.data_version);
        if (is_new) {
          EXPECT_EQ(shard.data_version, third.version);
        }
      }
    }
    ExpectRead(first + 2, 5);
    DeleteSteps({first, first + 1});
    ASSERT_OK(store_->Sweep());
    Reopen();
    ExpectRead(first + 2, 5);
    // A save over shards of two versions, in other boxes.
    ASSERT_OK(SaveTiling(first + 3, RandomTiling(2, 12)));
    ExpectRead(first + 3, 5);
    ExpectRead(first + 2, 5);
  }
}

// A step with changed rows, whose tensors the folded step borrows.
TEST_F(ShardsOnRankTest, ChangesAndFoldsKnowEachShard) {
  MakeWhole({40, 3}, DType::kI16);
  std::optional<Version> parent;
  Version first;
  for (const int64_t step : {1, 2}) {
    Flip({{20, 1}, {}});
    RankState state;
    std::vector<std::string> bytes;
    for (int64_t row = 0; row < 40; ++row) {
      bytes.push_back(whole_.At({{row, 0}, {1, 3}}));
    }
    for (int64_t row = 40; row-- > 0;) {
      state.AddTensor(kName, {whole_.dtype,
                              {1, 3},
                              bytes[static_cast<size_t>(row)].data(),
                              whole_.shape,
                              {row, 0}});
    }
    const int64_t ids[2] = {step, 7};
    const RowSource::Arrays rows(ids, {{bytes_, 4}});
    RankState::Table table{"user", {{"v", DType::kU32, 1}}, &rows};
    if (parent.has_value()) table.changes = RankState::Changes{&rows, {}};
    state.AddTable(table);
    ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                         store_->Save({.step = step, .parent = parent}, state));
    parent = saved.version;
    if (step == 1) first = saved.version;
  }
  {
    ASSERT_OK_AND_ASSIGN(const auto changes, store_->OpenChanges(first, 2));
    const std::vector<StepRecord::Rank> changed = changes->ChangedItems();
    ASSERT_EQ(changed.size(), 1u);
    ASSERT_EQ(changed[0].items.size(), 1u);
    EXPECT_EQ(changed[0].items[0].name, kName);
    EXPECT_EQ(changed[0].items[0].offset, (Shape{20, 0}));
  }
  ASSERT_OK_AND_ASSIGN(const Store::FoldResult folded, store_->Fold(2));
  EXPECT_TRUE(folded.folded);
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectRead(2, 5);
}

// Two shards of 1 MiB, of which the second step uses one.
TEST_F(ShardsOnRankTest, OnlyBorrowedShardsAreKept) {
  MakeWhole({2, 1 << 19}, DType::kI16);
  const Tiling tiling = {{{{0, 0}, {1, 1 << 19}}, {{1, 0}, {1, 1 << 19}}}};
  ASSERT_OK(SaveTiling(1, tiling));
  Flip({{0, 0}, {}});
  ASSERT_OK(SaveTiling(2, tiling));
  DeleteSteps({1});
  ASSERT_OK(store_->Sweep());
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
  ASSERT_OK_AND_ASSIGN(const Usage usage, reader->GetUsage(/*by_name=*/true));
  ASSERT_FALSE(usage.names.empty());
  EXPECT_EQ(usage.names[0].kind, Item::Kind::kTensor);
  // The other tensors are borrowed, too.
  EXPECT_GE(usage.names[0].referenced_bytes, uint64_t{1} << 20);
  EXPECT_LT(usage.names[0].referenced_bytes, (uint64_t{1} << 20) + 4096);
  ExpectRead(2, 5);
}

TEST_F(ShardsOnRankTest, StagingRejectsInvalidShards) {
  const std::string bytes(80, 'x');
  const auto add = [&](RankState* state, DType dtype, Shape shape,
                       Shape global_shape, Shape offset) {
    state->AddTensor(kName, {dtype, std::move(shape), bytes.data(),
                             std::move(global_shape), std::move(offset)});
  };
  const struct {
    DType dtype;
    Shape shape;
    Shape global_shape;
    Shape offset;
    std::string words;
  } seconds[] = {
      {DType::kI16, {4, 2}, {10, 2}, {0, 0}, "two shards of shape [4, 2] at"},
      {DType::kI16,
       {4, 2},
       {10, 2},
       {3, 0},
       "has shards that overlap: [4, 2] at [0, 0] and [4, 2] at [3, 0]"},
      {DType::kI16, {4, 2}, {10, 2}, {8, 0}, "is not within [10, 2]"},
      {DType::kI32, {4, 2}, {10, 2}, {4, 0}, "has shards of dtypes i16 and i3"},
      {DType::kI16, {4, 2}, {9, 2}, {4, 0}, "global shapes [10, 2] and [9, 2]"},
      {DType::kI16, {4, 2}, {}, {}, "has shards of global shapes"}};
  for (const auto& second : seconds) {
    SCOPED_TRACE(second.words);
    const Store::Attempt save = Begin({.step = 1});
    RankState state;
    add(&state, DType::kI16, {4, 2}, {10, 2}, {0, 0});
    add(&state, second.dtype, second.shape, second.global_shape, second.offset);
    EXPECT_THAT(Stage(path(), save.tickets[0], state),
                InvalidArgument("tensor \"net/w\"", second.words));
    ASSERT_OK(store_->Abandon(save.version));
  }
  // Together with those of another rank, which has an equal one.
  whole_ = {{10, 2}, DType::kI16, std::string(40, 'y')};
  const Box begin = {{0, 0}, {4, 2}};
  const Box end = {{6, 0}, {4, 2}};
  EXPECT_THAT(SaveTiling(2, {{begin, end}, {begin, {{5, 0}, {1, 2}}}}),
              InvalidArgument("missing element at [4, 0]"));
  EXPECT_THAT(SaveTiling(3, {{begin, end}, {begin, {{4, 0}, {3, 2}}}}),
              InvalidArgument("ranks 1 and 0", "overlap in [1, 2] at [6, 0]"));
  ASSERT_OK(SaveTiling(4, {{begin, end}, {begin, {{4, 0}, {2, 2}}}}));
  ExpectRead(4, 5);
}

TEST_F(ShardsOnRankTest, StagesUpToTheLimit) {
  const std::string bytes(kMaxShards + 1, 'x');
  int64_t step = 0;
  for (const uint64_t shards : {kMaxShards - 1, kMaxShards, kMaxShards + 1}) {
    const Store::Attempt save = Begin({.step = ++step});
    RankState state;
    for (uint64_t i = 0; i < shards; ++i) {
      state.AddTensor(kName, {DType::kU8,
                              {1},
                              bytes.data(),
                              {static_cast<int64_t>(shards)},
                              {static_cast<int64_t>(i)}});
    }
    const auto staged = Stage(path(), save.tickets[0], state);
    if (shards > kMaxShards) {
      EXPECT_THAT(staged,
                  InvalidArgument("has 65537 shards; the limit is 65536"));
      continue;
    }
    ASSERT_OK(staged);
    ASSERT_OK(store_->Publish(save.version, {{*staged}}));
    ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(step));
    EXPECT_TRUE(ReadTensorBytes(*reader, kName).value() ==
                bytes.substr(0, shards));
  }
}

class StagedShardsTest : public ShardsOnRankTest {
 protected:
  void SetUp() override {
    ShardsOnRankTest::SetUp();
    MakeWhole({10, 2}, DType::kI16);
    save_ = Begin({.step = 1});
    auto staged = StageBoxes(save_.tickets[0], boxes_);
    ASSERT_OK(staged);
    staged_ = *std::move(staged);
    record_ = DecodeRankRecord(staged_.record().rank_record).value();
  }
  // Publishes with this record, and, if `entries` is set, other entries.
  absl::Status Publish(
      const StepRecord::Rank& record,
      const std::function<void(internal::StagedRecord*)>& change = nullptr) {
    StagedRank staged = staged_;
    staged.record().rank_record = internal::EncodeUnchecked(record);
    if (change) change(&staged.record());
    return store_->Publish(save_.version, {{staged}}).status();
  }
  void TearDown() override {
    EXPECT_THAT(store_->Steps(), IsEmpty());
    ASSERT_OK(Publish(record_));
    ExpectRead(1, 5);
  }
  // The first item is the blob, the second one "net/v".
  static constexpr size_t kFirst = 2;
  const std::vector<Box> boxes_ = {
      {{0, 0}, {4, 2}}, {{4, 0}, {6, 1}}, {{4, 1}, {6, 1}}};
  Store::Attempt save_;
  StagedRank staged_;
  StepRecord::Rank record_;
};

TEST_F(StagedShardsTest, PublishRejectsHostileRecords) {
  const std::vector<
      std::pair<std::string, std::function<void(std::vector<Item>*)>>>
      cases = {{"overlap",
                [](std::vector<Item>* items) {
                  (*items)[kFirst + 1].offset = {3, 0};
                }},
               {"not within",
                [](std::vector<Item>* items) {
                  (*items)[kFirst + 2].offset = {5, 1};
                }},
               {"with first chunk 0; expected at least 1",
                [](std::vector<Item>* items) {
                  (*items)[kFirst + 1].first_chunk = 0;
                }},
               {"their numbers are below 4294967296",
                [](std::vector<Item>* items) {
                  Item& item = (*items)[kFirst + 2];
                  item.first_chunk = ~uint32_t{0};
                  item.chunk_hashes.resize(2);
                }},
               {"out of order", [](std::vector<Item>* items) {
                  std::swap((*items)[kFirst], (*items)[kFirst + 1]);
                }}};
  for (const auto& [words, change] : cases) {
    SCOPED_TRACE(words);
    StepRecord::Rank record = record_;
    change(&record.items);
    EXPECT_THAT(Publish(record), DataLoss("staged rank 0", words));
  }
}

TEST_F(StagedShardsTest, PublishRejectsLostAndMovedEntries) {
  ASSERT_EQ(staged_.record().inline_entries.size(), 6u);
  const std::string key = ChunkKey(0, record_.items[kFirst + 1], 0);
  const auto change_key = [&](const std::string& to) {
    return [=](internal::StagedRecord* staged) {
      for (auto& entry : staged->inline_entries) {
        if (entry.first == key) entry.first = to;
      }
    };
  };
  EXPECT_THAT(Publish(record_,
                      [&](internal::StagedRecord* staged) {
                        std::erase_if(staged->inline_entries,
                                      [&](const auto& entry) {
                                        return entry.first == key;
                                      });
                      }),
              DataLoss("tensor \"net/w\" is incomplete",
                       "0 inline entries, expected 1"));
  EXPECT_THAT(
      Publish(record_, change_key(ChunkKey(0, record_.items[kFirst + 2], 5))),
      DataLoss("tensor \"net/w\" is incomplete"));
  // A record whose numbers do not fit the entries.
  StepRecord::Rank record = record_;
  record.items[kFirst + 2].first_chunk = 3;
  EXPECT_THAT(Publish(record), DataLoss("tensor \"net/w\" is incomplete"));
  record.items[kFirst].first_chunk = 1;
  record.items[kFirst + 1].first_chunk = 2;
  EXPECT_THAT(Publish(record), DataLoss("is incomplete"));
}

// Each entry of a small save is damaged, exchanged with another, or lost.
TEST_F(ShardsOnRankTest, ReportsDamageAsDataLoss) {
  MakeWhole({10, 2}, DType::kI16);
  const std::vector<Box> boxes = {
      {{0, 0}, {4, 2}}, {{4, 0}, {6, 1}}, {{4, 1}, {6, 1}}};
  ASSERT_OK(SaveTiling(1, {boxes}));
  const std::vector<Item> shards = Shards(1, 0);
  ASSERT_EQ(shards.size(), 3u);
  constexpr auto kInline = static_cast<size_t>(internal::Family::kInline);
  const auto read = [&](size_t shard) {
    const auto step = store_->OpenStep(1);
    EXPECT_OK(step);
    const std::string expected = whole_.At(boxes[shard]);
    std::string out(expected.size(), '\xcc');
    const absl::Status status = (*step)->ReadTensorPart(
        kName, boxes[shard].offset, boxes[shard].shape, out.data(), out.size());
    if (status.ok()) {
      EXPECT_TRUE(out == expected);
    }
    return status;
  };
  const std::string key = ChunkKey(0, shards[1], 0);
  std::string entry;
  const auto change = [&](const std::function<void(RawDatabase*)>& apply) {
    ASSERT_OK(store_->Close());
    {
      RawDatabase raw(path());
      entry = raw.Get(kInline, key);
      apply(&raw);
    }
    Reopen();
    EXPECT_OK(read(0));
    EXPECT_OK(read(2));
    EXPECT_THAT(read(1), DataLoss("rank 0 tensor \"net/w\"", "chunk 1"));
    const auto step = store_->OpenStep(1);
    EXPECT_THAT((*step)->Verify(), DataLoss("net/w"));
    std::string all(whole_.bytes.size(), '\0');
    EXPECT_THAT((*step)->ReadTensor(kName, all.data(), all.size()),
                DataLoss("net/w"));
  };
  change([&](RawDatabase* raw) {
    std::string flipped = entry;
    flipped.back() ^= 1;
    raw->Put(kInline, key, flipped);
  });
  // The entry of another shard of the same size.
  change([&](RawDatabase* raw) {
    raw->Put(kInline, key, raw->Get(kInline, ChunkKey(0, shards[2], 0)));
  });
  change([&](RawDatabase* raw) { raw->Delete(kInline, key); });
}

// Records that Publish refuses, with right hashes.
TEST_F(ShardsOnRankTest, ReportsOverlapsBetweenRanksAsDataLoss) {
  MakeWhole({10, 2}, DType::kI16);
  ASSERT_OK(SaveTiling(
      1, {{{{0, 0}, {4, 2}}}, {{{4, 0}, {2, 2}}, {{6, 0}, {4, 2}}}}));
  StepRecord step = Record(1);
  StepRecord::Rank rank;
  {
    ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(1));
    rank = reader->ranks()[1];
  }
  // One box over rank 0's, and a gap of the same size.
  for (Item& item : rank.items) {
    if (item.offset == Shape{4, 0}) item.offset = {3, 0};
  }
  ASSERT_OK_AND_ASSIGN(const std::string rank_bytes, EncodeRankRecord(rank));
  step.rank_digests[1] = HashBytes(rank_bytes);
  ASSERT_OK_AND_ASSIGN(const std::string step_bytes, EncodeStepRecord(step));
  ASSERT_OK(store_->Close());
  {
    constexpr auto kMeta = static_cast<size_t>(internal::Family::kMeta);
    RawDatabase raw(path());
    raw.Put(kMeta, RankKey(step.version, 1), rank_bytes);
    raw.Put(kMeta, StepKey(1), step_bytes);
  }
  Reopen();
  ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(1));
  std::string out(40, '\xcc');
  EXPECT_THAT(reader->ReadTensor(kName, out.data(), 40),
              DataLoss("step 1 rank 0 tensor \"net/w\": its shards overlap: "
                       "[4, 2] at [0, 0] and [2, 2] at [3, 0]"));
  EXPECT_THAT(reader->ReadTensorPart(kName, {2, 0}, {2, 2}, out.data(), 8),
              DataLoss("its shards overlap"));
  EXPECT_OK(reader->ReadTensorPart(kName, {6, 0}, {4, 2}, out.data(), 16));
}

}  // namespace
}  // namespace ckptdb::testing
