// SPDX-License-Identifier: Apache-2.0
// Tables in device memory whose slots have lossy codecs, with the stand-in:
// which bytes leave the device, and that the stored bytes equal those of a
// table in host memory.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cuda/device_table.h"
#include "db/base/row_block.h"
#include "manager/checkpoint_manager.h"
#include "schema/bytes/lossy.h"
#include "tests/cuda/tables/device_trainer.h"
#include "tests/cuda/tables/staged_slots.h"
#include "tests/support/code_numbers.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using ::testing::HasSubstr;

// A table in device memory with one slot per codec, and the same rows in host
// memory.
class CodeTables {
 public:
  CodeTables(CudaDevice* device, uint64_t rows, uint32_t dim)
      : rows_(rows),
        dim_(dim),
        halves_(rows * dim * sizeof(float)),
        bytes_(rows * dim * sizeof(float)),
        steps_(rows * sizeof(int64_t)) {
    const std::vector<DeviceTable::Array> arrays = {
        {{"halves", DType::kF32, dim, Codec::kBf16}, halves_.get()},
        {{"step", DType::kI64, 1, Codec::kLz4}, steps_.get()},
        {{"bytes", DType::kF32, dim, Codec::kInt8}, bytes_.get()}};
    for (const DeviceTable::Array& array : arrays) {
      slots_.push_back(array.slot);
    }
    for (uint64_t row = 0; row < rows; ++row) {
      steps_.get<int64_t>()[row] = static_cast<int64_t>(row / 7);
    }
    auto table = DeviceTable::Make(device, rows, arrays);
    EXPECT_OK(table);
    device_table_ = *std::move(table);
    host_table_ = std::make_unique<VectorTable>(
        rows,
        std::vector<internal::AnyArray>{
            Array("halves", halves_.get<float>(), dim, {.codec = Codec::kBf16}),
            Array("step", steps_.get<int64_t>(), 1, {.codec = Codec::kLz4}),
            Array("bytes", bytes_.get<float>(), dim, {.codec = Codec::kInt8})});
  }

  // Fills both slots with rows of all kinds, or of one kind.
  void Fill(std::mt19937_64* random, int kind = -1) {
    for (uint64_t row = 0; row < rows_; ++row) {
      const auto each =
          static_cast<RowKind>(kind < 0 ? (*random)() % kRowKinds : kind);
      for (float* const slot : {halves(), bytes()}) {
        const std::vector<float> numbers = RowOfKind(each, dim_, random);
        std::copy(numbers.begin(), numbers.end(), slot + row * dim_);
      }
    }
  }
  float* halves() const { return halves_.get<float>(); }
  float* bytes() const { return bytes_.get<float>(); }
  uint32_t dim() const { return dim_; }
  DeviceTable* device() const { return device_table_.get(); }
  VectorTable* host() const { return host_table_.get(); }
  const std::vector<Slot>& slots() const { return slots_; }
  // Returns whether each slot left the device encoded.
  static std::vector<bool> Encoded(const RowSource& rows) {
    const auto block = rows.Block(0);
    EXPECT_OK(block);
    std::vector<bool> encoded;
    for (const RowBlock::SlotValues& column : block->slots) {
      encoded.push_back(internal::EncodedOf(column) != nullptr);
    }
    return encoded;
  }
  // Fails unless both tables are stored as the same bytes, for all rows and for
  // some.
  void ExpectSameBytes(const std::vector<bool>& encoded) const {
    std::vector<int64_t> some;
    for (uint64_t row = 0; row < rows_; row += 3) {
      some.push_back(static_cast<int64_t>(row));
    }
    const absl::Span<const int64_t> ids = some;
    for (const auto* wanted :
         {static_cast<const absl::Span<const int64_t>*>(nullptr), &ids}) {
      ASSERT_OK_AND_ASSIGN(const auto captured, device()->Capture(wanted));
      ASSERT_OK(captured->Fetch());
      EXPECT_EQ(Encoded(*captured), encoded);
      ASSERT_OK_AND_ASSIGN(const auto expected, wanted == nullptr
                                                    ? host()->AllRows()
                                                    : host()->RowsOf(*wanted));
      const StagedSlots there = StageSlots(*captured, slots_);
      const StagedSlots here = StageSlots(*expected, slots_);
      EXPECT_FALSE(here.entries.empty());
      EXPECT_TRUE(there.entries == here.entries);
      EXPECT_EQ(there.errors, here.errors);
    }
  }

 private:
  const uint64_t rows_;
  const uint32_t dim_;
  const DeviceMemory halves_;
  const DeviceMemory bytes_;
  const DeviceMemory steps_;
  std::vector<Slot> slots_;
  std::unique_ptr<DeviceTable> device_table_;
  std::unique_ptr<VectorTable> host_table_;
};

const std::vector<bool> kBoth = {true, false, true};

class DeviceCodesTest : public OrderTest {
 protected:
  std::mt19937_64 random_{TestSeed()};
};

INSTANTIATE_TEST_SUITE_P(Orders, DeviceCodesTest,
                         ::testing::Values(Order::kLazy, Order::kEager),
                         NameOf);

TEST_P(DeviceCodesTest, StoresTheBytesOfAHostTable) {
  for (const uint32_t dim : {5, 8, 16, 31, 64, 130}) {
    SCOPED_TRACE(dim);
    CodeTables tables(device_.get(), 220, dim);
    tables.Fill(&random_);
    tables.ExpectSameBytes(kBoth);
  }
}

TEST_P(DeviceCodesTest, StoresEachKindOfRowLikeAHostTable) {
  for (int kind = 0; kind < kRowKinds; ++kind) {
    SCOPED_TRACE(kind);
    CodeTables tables(device_.get(), 101, 12);
    tables.Fill(&random_, kind);
    tables.ExpectSameBytes(kBoth);
  }
}

// The chunks are in staging memory, or pass through a window.
TEST_P(DeviceCodesTest, StoresManyChunksLikeAHostTable) {
  for (const uint64_t staging_bytes : {64 << 20, 64}) {
    SCOPED_TRACE(staging_bytes);
    Open(staging_bytes);
    CodeTables tables(device_.get(), 9001, 203);
    tables.Fill(&random_);
    tables.ExpectSameBytes(kBoth);
  }
}

// A page with one row of 4 numbers is smaller as f32 than as int8, so the
// device leaves such rows to the host.
TEST_P(DeviceCodesTest, ShortRowsAreEncodedOnTheHost) {
  CodeTables tables(device_.get(), 103, 4);
  tables.Fill(&random_, static_cast<int>(RowKind::kNormal));
  tables.ExpectSameBytes({true, false, false});
}

// Only the slot with such a number leaves the device unencoded.
TEST_P(DeviceCodesTest, StoresNumbersWithoutACodeLikeAHostTable) {
  constexpr float kMost = std::numeric_limits<float>::max();
  for (const uint64_t staging_bytes : {64 << 20, 64}) {
    Open(staging_bytes);
    CodeTables tables(device_.get(), 9000, 64);
    tables.Fill(&random_, static_cast<int>(RowKind::kNormal));
    tables.bytes()[300 * 64 + 17] = NanWithPayload();
    tables.bytes()[3000 * 64] = -std::numeric_limits<float>::infinity();
    // Only the other codec cannot encode these.
    tables.halves()[99 * 64 + 3] = NanWithPayload();
    tables.bytes()[9 * 64] = kMost;
    tables.ExpectSameBytes({true, false, false});
    tables.halves()[99 * 64 + 4] = kMost;
    tables.ExpectSameBytes({false, false, false});
    tables.Fill(&random_, static_cast<int>(RowKind::kNormal));
    tables.halves()[8997 * 64] = -kMost;
    tables.ExpectSameBytes({false, false, true});
  }
}

// Only codes cross the bus: their bytes, rounded up to lanes.
TEST_P(DeviceCodesTest, OnlyCodesCrossTheBus) {
  constexpr uint64_t kRows = 5000;
  CodeTables tables(device_.get(), kRows, 64);
  tables.Fill(&random_, static_cast<int>(RowKind::kNormal));
  for (const bool refused : {false, true}) {
    if (refused) tables.bytes()[17] = NanWithPayload();
    const uint64_t before = CudaStandin::bytes_to_host();
    ASSERT_OK_AND_ASSIGN(const auto captured,
                         tables.device()->Capture(nullptr));
    ASSERT_OK(captured->Fetch());
    const uint64_t bytes = CudaStandin::bytes_to_host() - before;
    const uint64_t least = kRows * (128 + 16 + (refused ? 256 : 72));
    EXPECT_GE(bytes, least);
    EXPECT_LE(bytes, least + 1000);
  }
}

TEST_P(DeviceCodesTest, ChangedCopyIsDataLoss) {
  for (const uint64_t staging_bytes : {64 << 20, 64}) {
    Open(staging_bytes);
    CodeTables tables(device_.get(), 100, 64);
    tables.Fill(&random_);
    int64_t copies = CudaStandin::copies();
    ASSERT_OK_AND_ASSIGN(auto captured, tables.device()->Capture(nullptr));
    ASSERT_OK(captured->Fetch());
    copies = CudaStandin::copies() - copies;
    captured.reset();
    // The rows and digest of each slot, and two copies of the findings.
    EXPECT_EQ(copies, 3 * 2 + 2);
    for (int64_t copy = 1; copy <= copies; ++copy) {
      // Bytes of the codes, and of the bounds after them.
      for (const uint64_t byte : {7, 6421}) {
        SCOPED_TRACE(absl::StrCat(copy, " ", byte));
        CudaStandin::FlipCopy(copy, byte);
        auto again = tables.device()->Capture(nullptr);
        const absl::Status saved =
            again.ok() ? (*again)->Fetch() : again.status();
        EXPECT_THAT(saved,
                    StatusIs(absl::StatusCode::kDataLoss, HasSubstr("rows")));
        CudaStandin::FlipCopy(0, 0);
      }
    }
  }
}

// Only a device capture has encoded rows, and all blocks of a source must
// agree.
TEST_P(DeviceCodesTest, StagerAcceptsOnlyMatchingEncodedRows) {
  CodeTables tables(device_.get(), 20, 16);
  tables.Fill(&random_);
  ASSERT_OK_AND_ASSIGN(const auto captured, tables.device()->Capture(nullptr));
  ASSERT_OK(captured->Fetch());
  ASSERT_OK_AND_ASSIGN(const RowBlock block, captured->Block(0));
  EXPECT_THAT(internal::CheckRowBlock(0, block, tables.slots()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("slot \"halves\" under codec bf16")));
  std::vector<Slot> others = tables.slots();
  others[2].codec = Codec::kNone;
  EXPECT_THAT(
      internal::CheckRowBlock(0, block, others, internal::EncodedSlots::kTaken),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("slot \"bytes\" under codec int8")));
  ASSERT_OK_AND_ASSIGN(const auto raw, tables.device()->AllRows());
  ASSERT_OK_AND_ASSIGN(const RowBlock raw_block, raw->Block(0));
  EXPECT_THAT(internal::CheckEncodedAlike(block, 1, raw_block),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("block 1 has slot 0 not encoded")));
}

Item TableOf(CheckpointManager* manager, int64_t step) {
  const auto reader = manager->store()->OpenStep(step);
  EXPECT_OK(reader);
  if (!reader.ok()) return {};
  for (const Item& item : (*reader)->ranks()[0].items) {
    if (item.kind == Item::Kind::kRows) return item;
  }
  ADD_FAILURE() << "step " << step << " has no table";
  return {};
}

// Compares the steps of two audited managers, one with the device table and one
// with the host table, and the restore of the device table.
TEST_P(DeviceCodesTest, StepsMatchAHostTable) {
  const TempDir dir;
  CodeTables tables(device_.get(), 500, 24);
  tables.Fill(&random_);
  ModelState models[2];
  ASSERT_OK(models[0].AddTable("item", tables.device()));
  ASSERT_OK(models[1].AddTable("item", tables.host()));
  std::unique_ptr<CheckpointManager> managers[2];
  for (int m = 0; m < 2; ++m) {
    ManagerOptions options =
        SaveEachStep(absl::StrCat(dir.path(), "/store", m));
    options.save.audit_deltas = true;
    ASSERT_OK_AND_ASSIGN(managers[m],
                         CheckpointManager::Open(options, &models[m]));
  }
  const DeviceMemory marked(50 * sizeof(int64_t));
  for (int step = 1; step <= 4; ++step) {
    std::vector<int64_t> ids;
    for (int i = 0; i < 50; ++i) {
      ids.push_back(static_cast<int64_t>(random_() % 500));
      for (float* const slot : {tables.halves(), tables.bytes()}) {
        const auto row = RowOfKind(RowKind::kOutlier, 24, &random_);
        std::copy(row.begin(), row.end(), slot + ids.back() * 24);
      }
    }
    if (step == 3) tables.bytes()[ids[0] * 24] = NanWithPayload();
    std::copy(ids.begin(), ids.end(), marked.get<int64_t>());
    ASSERT_OK(tables.device()->MarkUpserted(marked.get<int64_t>(), 50));
    ASSERT_OK(tables.host()->MarkUpserted(ids));
    for (auto& manager : managers) {
      ASSERT_OK(StepAndWait(manager.get()));
    }
    const Item here = TableOf(managers[1].get(), step);
    const Item there = TableOf(managers[0].get(), step);
    EXPECT_EQ(there.digest, here.digest);
    EXPECT_EQ(there.stored_bytes, here.stored_bytes);
    EXPECT_EQ(there.errors, here.errors);
    EXPECT_EQ(there.errors.size(), 3U);
    EXPECT_EQ(there.run, step == 1 ? Item::Run::kBase : Item::Run::kDelta);
  }
  const uint64_t count = 500 * 24;
  const std::vector<float> trained(tables.bytes(), tables.bytes() + count);
  ASSERT_OK(managers[0]->Restore({}));
  const std::vector<float> from_device(tables.bytes(), tables.bytes() + count);
  ASSERT_OK(managers[1]->Restore({}));
  EXPECT_EQ(std::memcmp(from_device.data(), tables.bytes(), count * 4), 0);
  EXPECT_NE(std::memcmp(from_device.data(), trained.data(), count * 4), 0);
}

}  // namespace
}  // namespace ckptdb::testing
