// SPDX-License-Identifier: Apache-2.0
// Snapshots of blocks of all sizes.
#include "manager/save/snapshot.h"

#include <array>
#include <numeric>

#include "manager/state/registered_state.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

// Rows in blocks of these sizes: one slot contiguous, and one with a stride of
// three values. If `scattered`, blocks list their rows from last to first.
// Empty blocks have no slots.
class BlockTable : public TableState {
 public:
  static constexpr uint64_t kStride = 3;

  explicit BlockTable(std::vector<uint64_t> sizes) : sizes_(std::move(sizes)) {
    const auto rows = std::accumulate(sizes_.begin(), sizes_.end(), uint64_t{});
    ids.resize(rows);
    std::iota(ids.begin(), ids.end(), int64_t{0});
    dense.assign(ids.begin(), ids.end());
    spread.resize(rows * kStride);
    for (uint64_t row = 0; row < rows; ++row) {
      spread[row * kStride] = -static_cast<double>(row);
    }
  }

  std::vector<Slot> slots() const override {
    return {{"dense", DType::kF32, 1}, {"spread", DType::kF64, 1}};
  }
  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override {
    return std::make_unique<Source>(*this);
  }
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t>) const override {
    return absl::UnimplementedError("its changes are not tracked");
  }
  LiveTable* Live(absl::Span<const std::string>) override { return nullptr; }

  std::vector<int64_t> ids;
  std::vector<float> dense;
  std::vector<double> spread;
  size_t slots_given = 2;
  bool scattered = false;

 private:
  class Source : public RowSource {
   public:
    explicit Source(const BlockTable& table) : table_(table) {
      uint64_t row = 0;
      for (const uint64_t size : table.sizes_) {
        ids_.push_back(absl::MakeConstSpan(table.ids).subspan(row, size));
        slots_.push_back(
            {RowBlock::SlotValues{table.dense.data() + row, sizeof(float)},
             RowBlock::SlotValues{table.spread.data() + row * kStride,
                                  kStride * sizeof(double)}});
        std::vector<uint32_t>& rows = rows_.emplace_back();
        if (table.scattered) rows.resize(size);
        std::iota(rows.rbegin(), rows.rend(), 0U);
        row += size;
      }
    }
    uint64_t block_count() const override { return ids_.size(); }
    absl::StatusOr<RowBlock> Block(uint64_t block) const override {
      const size_t slots = ids_[block].empty() ? 0 : table_.slots_given;
      return RowBlock{ids_[block],
                      absl::MakeConstSpan(slots_[block]).subspan(0, slots),
                      rows_[block]};
    }

   private:
    const BlockTable& table_;
    std::vector<absl::Span<const int64_t>> ids_;
    std::vector<std::array<RowBlock::SlotValues, 2>> slots_;
    std::vector<std::vector<uint32_t>> rows_;
  };

  const std::vector<uint64_t> sizes_;
};

// The largest blocks need several copy tasks, each task copies several of the
// small ones, and one begins within a block.
TEST(Snapshot, CopiesBlocksOfAllSizes) {
  BlockTable table({0, 1, 500'000, 0, 3, 1, 1, 300'000, 2, 0});
  ModelState model;
  ASSERT_OK(model.AddTable("table", &table));
  internal::Arena arena(uint64_t{1} << 30);
  ASSERT_OK_AND_ASSIGN(const auto snapshot, internal::Snapshot::Of(model, {}));
  ASSERT_OK(snapshot->CopyTo(&arena, /*threads=*/3));
  const BlockTable before = table;
  table.ids.assign(table.ids.size(), -1);
  table.dense.assign(table.dense.size(), -1);
  table.spread.assign(table.spread.size(), -1);

  const RankState state = snapshot->state();
  ASSERT_EQ(state.tables().size(), 1U);
  const RowSource& rows = *state.tables()[0].rows;
  ASSERT_EQ(rows.block_count(), 1U);
  ASSERT_OK_AND_ASSIGN(const RowBlock copied, rows.Block(0));
  ASSERT_EQ(copied.ids, absl::MakeConstSpan(before.ids));
  const auto* const dense = static_cast<const float*>(copied.slots[0].data);
  const auto* const spread = static_cast<const double*>(copied.slots[1].data);
  for (size_t row = 0; row < before.ids.size(); ++row) {
    ASSERT_EQ(dense[row], before.dense[row]) << row;
    ASSERT_EQ(spread[row], before.spread[row * BlockTable::kStride]) << row;
  }
}

// Each block's values are copied from its last row to its first.
TEST(Snapshot, CopiesRowsInTheOrderOfTheBlock) {
  const std::vector<uint64_t> sizes = {0, 1, 400'000, 2, 300'000, 7};
  BlockTable table(sizes);
  table.scattered = true;
  ModelState model;
  ASSERT_OK(model.AddTable("table", &table));
  internal::Arena arena(uint64_t{1} << 30);
  ASSERT_OK_AND_ASSIGN(const auto snapshot, internal::Snapshot::Of(model, {}));
  ASSERT_OK(snapshot->CopyTo(&arena, /*threads=*/3));

  const RankState state = snapshot->state();
  ASSERT_OK_AND_ASSIGN(const RowBlock copied, state.tables()[0].rows->Block(0));
  ASSERT_EQ(copied.ids, absl::MakeConstSpan(table.ids));
  EXPECT_TRUE(copied.rows.empty());
  const auto* const dense = static_cast<const float*>(copied.slots[0].data);
  const auto* const spread = static_cast<const double*>(copied.slots[1].data);
  uint64_t first = 0;
  for (const uint64_t size : sizes) {
    for (uint64_t row = 0; row < size; ++row) {
      const uint64_t from = first + size - 1 - row;
      ASSERT_EQ(dense[first + row], table.dense[from]) << from;
      ASSERT_EQ(spread[first + row], table.spread[from * BlockTable::kStride])
          << from;
    }
    first += size;
  }
}

TEST(Snapshot, RejectsABlockWithoutASlot) {
  BlockTable table({1, 5});
  table.slots_given = 1;
  ModelState model;
  ASSERT_OK(model.AddTable("table", &table));
  EXPECT_THAT(internal::Snapshot::Of(model, {}),
              InvalidArgument("table \"table\": block 0 has 1 slots, not 2"));
}

}  // namespace
}  // namespace ckptdb::testing
