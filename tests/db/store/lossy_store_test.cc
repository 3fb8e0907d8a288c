// SPDX-License-Identifier: Apache-2.0
// Stores with lossy codecs: what is read is what the codec makes of the
// numbers at the time of the save, whatever happens to the chain afterwards.

#include <cmath>

#include "schema/bytes/lossy.h"
#include "schema/bytes/page.h"
#include "tests/db/delta_fixture.h"
#include "tests/db/raw_database.h"

namespace ckptdb::testing {
namespace {

constexpr uint32_t kWidth = 16;

std::string RoundTrip(Codec codec, const std::string& raw,
                      uint32_t row_elements) {
  if (!IsLossy(codec)) return raw;
  std::string back;
  for (size_t at = 0; at < raw.size(); at += kChunkBytes) {
    const std::string chunk = raw.substr(at, kChunkBytes);
    std::string stored;
    std::string numbers = chunk;
    Item::Error error;
    if (Quantize(codec, chunk, row_elements, Rounding::kNearest, &stored,
                 &error)) {
      EXPECT_OK(Dequantize(codec, stored, chunk.size(), numbers.data()));
    }
    back += numbers;
  }
  return back;
}

std::string RoundTripRow(const std::vector<Slot>& slots,
                         const std::string& row) {
  std::string back;
  size_t at = 0;
  for (const Slot& slot : slots) {
    back +=
        RoundTrip(slot.codec, row.substr(at, slot.row_bytes()), slot.elements);
    at += slot.row_bytes();
  }
  return back;
}

std::string RandomNumbers(std::mt19937_64* random, size_t count) {
  std::normal_distribution<float> normal(0, 0.05f);
  std::string bytes;
  for (size_t i = 0; i < count; ++i) {
    const float number = normal(*random);
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  return bytes;
}

class LossyStoreTest : public DeltaFixture {
 protected:
  LossyStoreTest() : random_(TestSeed()) {
    table().slots = {{"embedding", DType::kF32, kWidth, Codec::kInt8},
                     {"adagrad_sum", DType::kF32, kWidth, Codec::kBf16},
                     {"freq", DType::kI64, 1, Codec::kAuto}};
  }
  TableContent& table() { return content_.tables["user"]; }
  std::string RandomRow() {
    return RandomNumbers(&random_, size_t{2} * kWidth) +
           RandomBytes(&random_, 8);
  }
  void AddRows(int64_t begin, int64_t end) {
    for (int64_t id = begin; id < end; ++id) rows()[id] = RandomRow();
  }
  static TensorContent Tensor(std::string bytes, Codec codec) {
    const auto count = static_cast<int64_t>(bytes.size() / sizeof(float));
    return {DType::kF32, {count}, std::move(bytes), codec, {}, {}};
  }
  void WriteSome(int count, uint64_t end) {
    for (int i = 0; i < count; ++i)
      rows()[static_cast<int64_t>(random_() % end)] = RandomRow();
  }
  // Makes `held_` what is to be read after a save of `content_`, whole or as
  // the changes since `saved_`.
  void Round(bool whole) {
    Rows& held = held_.tables["user"].rows;
    held_.tables["user"].slots = table().slots;
    for (const auto& [id, row] : rows()) {
      const auto before = saved_.tables["user"].rows.find(id);
      if (whole || before == saved_.tables["user"].rows.end() ||
          before->second != row) {
        held[id] = RoundTripRow(table().slots, row);
      }
    }
    std::erase_if(held,
                  [&](const auto& row) { return !rows().contains(row.first); });
    held_.tensors = content_.tensors;
    for (auto& [name, tensor] : held_.tensors)
      tensor.bytes = RoundTrip(tensor.codec, tensor.bytes, kInt8BlockElements);
  }
  void SaveRounded(int64_t step, bool whole) {
    whole = whole || !parent_.has_value();
    if (whole) parent_.reset();
    Round(whole);
    ASSERT_NO_FATAL_FAILURE(SaveNext(step));
    history_[step] = held_;
  }
  // Flips a bit of each page of the closed store that is under `codec`. Returns
  // how many there are.
  int FlipInPages(Codec codec, size_t byte) {
    RawDatabase raw(path());
    int flipped = 0;
    for (size_t family = 0; family < raw.families(); ++family) {
      std::map<std::string, std::string> pages;
      const std::unique_ptr<rocksdb::Iterator> at(
          raw.rocks()->NewIterator({}, raw.family(family)));
      for (at->SeekToFirst(); at->Valid(); at->Next()) {
        const std::string value = at->value().ToString();
        const auto page = ParsePage(value);
        if (!page.ok() || page->codec != codec) continue;
        pages[at->key().ToString()] = value;
      }
      for (auto& [key, value] : pages) {
        value.at(byte) ^= 0x10;
        raw.Put(family, key, value);
        ++flipped;
      }
    }
    return flipped;
  }
  double LargestError(size_t slot) {
    double largest = 0;
    for (const auto& [id, row] : rows()) {
      for (size_t i = 0; i < kWidth; ++i) {
        const size_t at = (slot * kWidth + i) * sizeof(float);
        float saved = 0;
        float held = 0;
        std::memcpy(&saved, row.data() + at, sizeof(saved));
        std::memcpy(&held, held_.tables["user"].rows[id].data() + at,
                    sizeof(held));
        largest =
            std::max(largest, std::abs(static_cast<double>(saved) - held));
      }
    }
    return largest;
  }
  std::mt19937_64 random_;
  RankContent held_;  // as content_, after the codecs
};

TEST_F(LossyStoreTest, RowsAndTensorsComeBackAsTheCodecHasThem) {
  AddRows(-300, 500);
  content_.tensors["int8"] =
      Tensor(RandomNumbers(&random_, 100'001), Codec::kInt8);
  content_.tensors["bf16"] =
      Tensor(RandomNumbers(&random_, 70'000), Codec::kBf16);
  content_.tensors["one"] = Tensor(RandomNumbers(&random_, 1), Codec::kBf16);
  SaveRounded(1, true);
  ExpectHistory();
  const Item item = FindItem(1, "user");
  EXPECT_EQ(item.slots[0].codec, Codec::kInt8);
  ASSERT_THAT(item.errors, SizeIs(3));
  for (const size_t slot : {0, 1}) {
    EXPECT_NEAR(item.errors[slot].max, LargestError(slot),
                1e-6 * LargestError(slot));
    EXPECT_GT(item.errors[slot].max, 0);
    EXPECT_LE(item.errors[slot].max, item.errors[slot].bound);
    EXPECT_LT(item.errors[slot].bound, 3 * item.errors[slot].max);
  }
  EXPECT_EQ(item.errors[2], Item::Error());
  // A row has 24 bytes of int8, 32 of bf16, the id and freq.
  EXPECT_LT(item.stored_bytes, 800 * (24 + 32 + 8 + 8 + 2));
  EXPECT_LT(FindItem(1, "int8").stored_bytes, 100'001 * 1.08);
  EXPECT_LT(FindItem(1, "bf16").stored_bytes, 70'000 * 2.02);
  EXPECT_THAT(FindItem(1, "bf16").errors, SizeIs(1));
}

TEST_F(LossyStoreTest, PartsOfTensorsAndSlices) {
  AddRows(0, 1000);
  content_.tensors["w"] =
      Tensor(RandomNumbers(&random_, 200'000), Codec::kInt8);
  SaveRounded(1, true);
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  std::string part(70'000 * sizeof(float), '\0');
  ASSERT_OK(
      step->ReadTensorPart("w", {65'000}, {70'000}, part.data(), part.size()));
  EXPECT_TRUE(part == held_.tensors["w"].bytes.substr(65'000 * sizeof(float),
                                                      part.size()));
  Rows all;
  for (const SliceRange& slices :
       {SliceRange{0, 300}, {300, 700}, {700, kSlices}}) {
    all.merge(Scan(*step, "user", {.slices = slices}).value());
  }
  EXPECT_TRUE(all == held_.tables["user"].rows);
}

TEST_F(LossyStoreTest, TensorsAreBorrowedByWhatIsStored) {
  std::string numbers = RandomNumbers(&random_, 100'000);
  content_.tensors["w"] = Tensor(numbers, Codec::kBf16);
  SaveRounded(1, true);
  SaveRounded(2, true);
  const Item first = FindItem(1, "w");
  EXPECT_EQ(FindItem(2, "w").data_version, first.data_version);
  // Other numbers that round to the same are not stored again, and the errors
  // are those of these numbers.
  content_.tensors["w"].bytes = held_.tensors["w"].bytes;
  SaveRounded(3, true);
  EXPECT_EQ(FindItem(3, "w").data_version, first.data_version);
  EXPECT_GT(first.errors.at(0).max, 0);
  EXPECT_EQ(FindItem(3, "w").errors.at(0).max, 0);
  // Under another codec the same numbers are others.
  content_.tensors["w"] = Tensor(numbers, Codec::kNone);
  SaveRounded(4, true);
  EXPECT_NE(FindItem(4, "w").data_version, first.data_version);
  EXPECT_THAT(FindItem(4, "w").errors, IsEmpty());
  content_.tensors["w"].codec = Codec::kInt8;
  SaveRounded(5, true);
  EXPECT_EQ(FindItem(5, "w").codec, Codec::kInt8);
  numbers[numbers.size() - 1] = 0x40;
  content_.tensors["w"] = Tensor(numbers, Codec::kInt8);
  SaveRounded(6, true);
  EXPECT_NE(FindItem(6, "w").data_version, FindItem(5, "w").data_version);
  ExpectHistory();
}

// A process that holds one step gets to another by what was stored of its
// changes.
TEST_F(LossyStoreTest, ChangesAreThoseThatTheCodecHasStored) {
  AddRows(0, 300);
  SaveRounded(1, true);
  const Version first = *parent_;
  for (int64_t step = 2; step < 5; ++step) {
    WriteSome(40, 330);
    rows().erase(step);
    SaveRounded(step, false);
  }
  const TableContent& before = history_[1].tables["user"];
  const TableContent& after = history_[4].tables["user"];
  LiveRows live(before.slots, before.rows);
  ASSERT_OK_AND_ASSIGN(const auto changes, store_->OpenChanges(first, 4));
  EXPECT_TRUE(changes->forwards());
  ASSERT_OK(changes->ScanTable("user", {}, &live));
  EXPECT_TRUE(live.rows() == after.rows);
  EXPECT_LT(live.touched().size(), 150U);
}

// The bounds of a row, from which its scale follows, are covered by the hash of
// their page, as its codes are.
TEST_F(LossyStoreTest, ADamagedBoundOrCodeIsDataLoss) {
  constexpr size_t kBoundsAt = kPageHeaderBytes + sizeof(uint32_t);
  AddRows(0, 300);
  SaveRounded(1, true);
  // A bit of the greatest number of the first row, and one of a code.
  for (const size_t byte : {kBoundsAt + 6, kBoundsAt + 300 * 8 + 17}) {
    SCOPED_TRACE(byte);
    for (const bool damaged : {true, false}) {
      store_.reset();
      EXPECT_EQ(FlipInPages(Codec::kInt8, byte), 1);
      Reopen();
      ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
      if (damaged) {
        EXPECT_THAT(step->Verify(), DataLoss("page hash"));
        LiveRows live(table().slots);
        EXPECT_THAT(step->ScanTable("user", {}, &live), DataLoss("page hash"));
        EXPECT_THAT(live.touched(), IsEmpty());
      } else {
        EXPECT_OK(step->Verify());
      }
    }
  }
}

TEST_F(LossyStoreTest, NansInfinitiesAndTooLargeNumbersAreKept) {
  AddRows(0, 2000);
  const auto set = [&](int64_t id, size_t number, float value) {
    std::memcpy(rows()[id].data() + number * sizeof(float), &value,
                sizeof(value));
  };
  set(3, 2, std::numeric_limits<float>::quiet_NaN());
  set(700, 15, -std::numeric_limits<float>::infinity());
  set(900, kWidth, std::numeric_limits<float>::quiet_NaN());
  set(901, kWidth + 1, std::numeric_limits<float>::infinity());
  set(1500, kWidth + 2, std::numeric_limits<float>::max());  // no bf16
  SaveRounded(1, true);
  // The page of row 1500, which bf16 cannot hold, is stored unchanged.
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  for (const int64_t id : {3, 700, 900, 901, 1500}) {
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> row,
                         step->LookupRow("user", id));
    if (id < 900) {
      EXPECT_TRUE(row[0] == rows()[id].substr(0, kWidth * 4)) << id;
    } else if (id == 1500) {
      EXPECT_TRUE(row[1] == rows()[id].substr(kWidth * 4, kWidth * 4));
    } else {
      float number = 0;
      std::memcpy(&number, row[1].data() + (id - 900) * 4, 4);
      EXPECT_FALSE(std::isfinite(number)) << id;
    }
  }
  EXPECT_OK(step->Verify());
}

TEST_F(LossyStoreTest, AFoldAddsNoErrorWhateverTheCodecs) {
  AddRows(0, 500);
  table().slots[0].codec = Codec::kNone;
  SaveRounded(1, true);
  const std::vector<Codec> codecs = {Codec::kInt8, Codec::kBf16, Codec::kInt8,
                                     Codec::kLz4, Codec::kInt8};
  int64_t step = 1;
  for (const Codec codec : codecs) {
    table().slots[0].codec = codec;
    WriteSome(50, 550);
    SaveRounded(++step, false);
  }
  ExpectHistory();
  ASSERT_OK_AND_ASSIGN(auto reader, store_->OpenStep(step));
  EXPECT_THAT(
      reader->FindTable("user").value().codecs[0],
      ElementsAre(Codec::kNone, Codec::kLz4, Codec::kBf16, Codec::kInt8));
  double largest = 0;
  for (int64_t s = 2; s <= step; ++s) {
    const Item item = FindItem(s, "user");
    if (!item.errors.empty()) largest = std::max(largest, item.errors[0].max);
  }
  reader.reset();
  ASSERT_OK(store_->Fold(step));
  ExpectHistory();
  const Item folded = FindItem(step, "user");
  EXPECT_EQ(folded.run, Item::Run::kBase);
  EXPECT_EQ(folded.errors[0].max, largest);
  Reopen();
  ExpectHistory();
}

// A fold of versions under one lossy codec has as few bytes as a save of it.
TEST_F(LossyStoreTest, AFoldOfOneCodecStaysSmall) {
  AddRows(0, 800);
  SaveRounded(1, true);
  for (int64_t step = 2; step < 6; ++step) {
    WriteSome(80, 800);
    SaveRounded(step, false);
  }
  ASSERT_OK(store_->Fold(5));
  EXPECT_LE(FindItem(5, "user").stored_bytes,
            FindItem(1, "user").stored_bytes * 1.02);
  ExpectHistory();
}

// Random saves, whole and of changes, under random codecs, with folds, sweeps
// and reopenings between them.
TEST_F(LossyStoreTest, RandomChains) {
  constexpr std::array kCodecs = {Codec::kNone,       Codec::kLz4,
                                  Codec::kShuffleLz4, Codec::kBf16,
                                  Codec::kInt8,       Codec::kAuto};
  const auto any = [&] { return kCodecs[random_() % kCodecs.size()]; };
  for (int64_t step = 1; step <= 20; ++step) {
    SCOPED_TRACE(step);
    if (random_() % 3 == 0) table().slots[0].codec = any();
    if (random_() % 3 == 0) table().slots[1].codec = any();
    const auto id = [&] { return static_cast<int64_t>(random_() % 100) - 50; };
    for (uint64_t i = random_() % 40; i > 0; --i) rows()[id()] = RandomRow();
    for (uint64_t i = random_() % 10; i > 0; --i) rows().erase(id());
    if (random_() % 2 == 0 || content_.tensors.empty()) {
      content_.tensors["w"] =
          Tensor(RandomNumbers(&random_, random_() % 1000), any());
    }
    ASSERT_NO_FATAL_FAILURE(SaveRounded(step, random_() % 6 == 0));
    if (random_() % 4 == 0) {
      ASSERT_OK(store_->Fold(step));
    }
    if (random_() % 5 == 0 && history_.size() > 3) {
      const int64_t oldest = history_.begin()->first;
      ASSERT_OK(store_->Delete(oldest));
      history_.erase(oldest);
      ASSERT_OK(store_->Sweep());
    }
    if (random_() % 6 == 0) Reopen();
    ASSERT_NO_FATAL_FAILURE(ExpectRows(step, held_));
    parent_ = store_->FindStep(step)->version;
  }
  ExpectHistory();
}

TEST_F(LossyStoreTest, RanksNeedNotHaveTheSameCodec) {
  RankContent whole;
  std::vector<RankContent> ranks(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    TableContent& part = ranks[rank].tables["user"];
    part.slots = table().slots;
    part.slots[0].codec = rank == 0 ? Codec::kInt8 : Codec::kNone;
    const int64_t first = rank == 0 ? 0 : 40'000;
    for (int64_t id = first; id < first + 500; ++id)
      part.rows[id] = RandomRow();
  }
  SaveSpec spec{.step = 1, .world_size = 2, .slice_bounds = EvenSliceBounds(2)};
  ASSERT_OK(SaveRanks(spec, ranks).status());
  Rows expected;
  for (const RankContent& rank : ranks) {
    for (const auto& [id, row] : rank.tables.at("user").rows)
      expected[id] = RoundTripRow(rank.tables.at("user").slots, row);
  }
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  EXPECT_TRUE(Scan(*step, "user").value() == expected);
  EXPECT_OK(step->Verify());
}

TEST_F(LossyStoreTest, RejectsWhatACodecDoesNotTake) {
  const auto expect = [&](const RankContent& content,
                          const std::string& words) {
    EXPECT_THAT(Save(1, content), InvalidArgument(words));
  };
  AddRows(0, 3);
  RankContent bad = content_;
  bad.tables["user"].slots[2].codec = Codec::kBf16;
  expect(bad,
         "table \"user\": slot \"freq\": codec bf16 supports only f32, not "
         "i64; use one of none, lz4, shuffle-lz4, auto");
  bad = content_;
  bad.tables["user"].slots = {{"bias", DType::kF32, 3, Codec::kInt8},
                              {"rest", DType::kU8, 124}};
  expect(bad,
         "slot \"bias\": codec int8 needs rows of at least 4 numbers, because "
         "each row stores 8 bytes of bounds; these rows have 3; use bf16");
  bad = content_;
  bad.tensors["ids"] = TensorContent::Of<int64_t>({2}, {1, 2});
  bad.tensors["ids"].codec = Codec::kInt8;
  expect(bad, "tensor \"ids\": codec int8 supports only f32, not i64");
  const HeldState held(content_);
  RankState state = held.state();
  state.AddBlob("reader", "at 7", Codec::kBf16);
  EXPECT_THAT(store_->Save({.step = 1}, state),
              InvalidArgument("blob \"reader\": codec bf16 supports "
                              "only f32, not u8"));
}

}  // namespace
}  // namespace ckptdb::testing
