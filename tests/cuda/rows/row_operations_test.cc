// The operations on rows in device memory, compared with simple models, on
// random and extreme inputs, on the host.
#include "ckptdb/cuda/rows/row_operations.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "ckptdb/cuda/kernels/row_kernels.h"
#include "ckptdb/tests/support/cuda_standin.h"
#include "ckptdb/tests/support/seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckptdb::internal {
namespace {

using testing::CudaStandin;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using testing::TestSeed;

constexpr uint32_t kGuard = 0xdeadbeef;

// The marks of a table, with a guard word before and after them.
class Marks {
 public:
  explicit Marks(uint64_t rows) : rows_(rows), words_(MarkWords(rows) + 2, 0) {
    words_.front() = words_.back() = kGuard;
  }
  MarkWordsView view() { return {words_.data() + 1, rows_}; }
  uint32_t* words() { return words_.data() + 1; }
  bool guarded() const {
    return words_.front() == kGuard && words_.back() == kGuard;
  }

 private:
  const uint64_t rows_;
  std::vector<uint32_t> words_;
};

// Runs the three kernels, and returns the list of rows.
template <typename Take, typename Launch>
std::vector<uint32_t> List(Take take, Launch launch) {
  CudaStandin::Reset({});
  const uint64_t rows = take.Rows();
  std::vector<uint32_t> taken(MarkWords(rows) + 1, kGuard);
  std::vector<uint32_t> tiles(MarkTiles(rows) + 1, kGuard);
  take.taken = taken.data();
  uint64_t count = 77;
  EXPECT_EQ(launch(take, tiles.data(), &count, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<uint32_t> list(count + 1, kGuard);
  EXPECT_EQ(
      LaunchListRows(taken.data(), rows, tiles.data(), list.data(), nullptr),
      cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(taken.back(), kGuard);
  EXPECT_EQ(tiles.back(), kGuard);
  EXPECT_EQ(list.back(), kGuard);
  list.pop_back();
  return list;
}

template <typename Row>
void RunMarks(Marks* marks, const std::vector<Row>& rows, MarkReport* report) {
  const MarkRows<Row> mark = {marks->view(), rows.data(), rows.size(), report};
  for (uint64_t i = 0; i < rows.size(); ++i) mark.Run(i);
}

TEST(RowMarks, ListRandomBatchesInOrder) {
  std::mt19937_64 random(TestSeed());
  for (const uint64_t rows : {1, 31, 32, 33, 1000, 32 * 1024, 70'001}) {
    Marks marks(rows);
    std::vector<uint32_t> pending(MarkWords(rows), 0);
    std::vector<uint32_t> other(MarkWords(rows), 0);
    std::set<uint32_t> model;
    MarkReport report;
    std::vector<int32_t> batch(random() % 2000);
    for (int32_t& row : batch) {
      row = static_cast<int32_t>(random() % rows);
      model.insert(static_cast<uint32_t>(row));
    }
    RunMarks(&marks, batch, &report);
    EXPECT_EQ(report.out_of_range, 0);
    TakeMarks take;
    take.marks = marks.view();
    take.pending = pending.data();
    take.others[0] = other.data();
    take.other_count = 1;
    EXPECT_THAT(List(take, LaunchTakeMarks), ElementsAreArray(model));
    // The marks are taken, and remain only for the other consumer.
    EXPECT_THAT(List(take, LaunchTakeMarks), IsEmpty());
    std::swap(take.pending, take.others[0]);
    EXPECT_THAT(List(take, LaunchTakeMarks), ElementsAreArray(model));
    EXPECT_THAT(List(take, LaunchTakeMarks), IsEmpty());
    EXPECT_TRUE(marks.guarded());
  }
}

TEST(RowMarks, OutOfRangeAreCountedAndWriteNothing) {
  constexpr uint64_t kRows = 40;
  Marks marks(kRows);
  MarkReport report;
  RunMarks<int64_t>(
      &marks,
      {39, 40, -1, 0, std::numeric_limits<int64_t>::max(),
       std::numeric_limits<int64_t>::min(), 63, 64, int64_t{1} << 32},
      &report);
  EXPECT_EQ(report.out_of_range, 7);
  EXPECT_EQ(static_cast<int64_t>(report.example), int64_t{1} << 32);
  RunMarks<int32_t>(&marks, {-1, 5}, &report);
  EXPECT_EQ(report.out_of_range, 8);
  EXPECT_EQ(static_cast<int64_t>(report.example), -1);
  EXPECT_TRUE(marks.guarded());
  std::vector<uint32_t> pending(MarkWords(kRows), 0);
  TakeMarks take;
  take.marks = marks.view();
  take.pending = pending.data();
  EXPECT_THAT(List(take, LaunchTakeMarks), ElementsAre(0, 5, 39));
}

TEST(RowMarks, ReturnedAreTakenAgainWithNewerOnes) {
  Marks marks(100);
  std::vector<uint32_t> pending(MarkWords(100), 0);
  std::vector<uint32_t> taken(MarkWords(100));
  TakeMarks take;
  take.marks = marks.view();
  take.pending = pending.data();
  take.taken = taken.data();
  MarkReport report;
  RunMarks<int32_t>(&marks, {3, 64, 99}, &report);
  for (uint64_t w = 0; w < taken.size(); ++w) take.Run(w);
  RunMarks<int32_t>(&marks, {3, 5}, &report);
  const ReturnMarks back = {pending.data(), taken.data(), taken.size()};
  for (uint64_t w = 0; w < taken.size(); ++w) back.Run(w);
  EXPECT_THAT(List(take, LaunchTakeMarks), ElementsAre(3, 5, 64, 99));
  EXPECT_THAT(List(take, LaunchTakeMarks), IsEmpty());
}

TEST(RowMarks, SkipEmptyRows) {
  constexpr int64_t kFree = -7;
  const std::vector<int64_t> ids = {10, kFree, 30, kFree, 50};
  Marks marks(ids.size());
  std::vector<uint32_t> pending(1, 0);
  MarkReport report;
  RunMarks<int32_t>(&marks, {0, 1, 4}, &report);
  TakeMarks take;
  take.marks = marks.view();
  take.ids = {ids.data(), kFree};
  take.pending = pending.data();
  EXPECT_THAT(List(take, LaunchTakeMarks), ElementsAre(0, 4));
  EXPECT_THAT(List(TakeAll{ids.size(), {ids.data(), kFree}}, LaunchTakeAll),
              ElementsAre(0, 2, 4));
  EXPECT_THAT(List(TakeAll{ids.size(), {}}, LaunchTakeAll),
              ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(List(TakeAll{0, {}}, LaunchTakeAll), IsEmpty());
}

// More tiles than one block adds up in one pass.
TEST(RowMarks, ListMoreTilesThanABlockInOrder) {
  constexpr uint64_t kTileRows = uint64_t{kTileWords} * kMarkWordBits;
  constexpr uint64_t kRows = kTileRows * (kTileWords + 3) + 5;
  Marks marks(kRows);
  std::vector<uint32_t> pending(MarkWords(kRows), 0);
  std::vector<int64_t> rows;
  for (uint64_t row = 0; row < kRows; row += kTileRows / 3 + 1) {
    rows.push_back(static_cast<int64_t>(row));
  }
  rows.push_back(kRows - 1);
  MarkReport report;
  RunMarks(&marks, rows, &report);
  TakeMarks take;
  take.marks = marks.view();
  take.pending = pending.data();
  EXPECT_THAT(List(take, LaunchTakeMarks), ElementsAreArray(rows));
}

// No mark is lost between threads that mark and one that takes; under the
// thread sanitizer there is no data race.
TEST(RowMarks, OfManyThreadsAreAllTaken) {
  constexpr uint64_t kRows = 3000;
  Marks marks(kRows);
  std::vector<uint32_t> pending(MarkWords(kRows), 0);
  std::vector<uint32_t> taken(MarkWords(kRows), 0);
  std::vector<uint32_t> all(MarkWords(kRows), 0);
  MarkReport reports[3];
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&marks, report = &reports[t], t] {
      const MarkWordsView view = marks.view();
      for (uint64_t row = t; row < kRows; row += 3) {
        SetMark(view, static_cast<int64_t>(row), report);
      }
    });
  }
  TakeMarks take;
  take.marks = marks.view();
  take.pending = pending.data();
  take.taken = taken.data();
  const auto take_all = [&] {
    for (uint64_t w = 0; w < taken.size(); ++w) {
      take.Run(w);
      all[w] |= taken[w];
    }
  };
  for (int round = 0; round < 20; ++round) take_all();
  for (std::thread& thread : threads) thread.join();
  take_all();
  for (uint64_t w = 0; w < all.size(); ++w) {
    EXPECT_EQ(all[w], FullWord(kRows, w)) << w;
  }
}

// Widths, strides and addresses of all alignments: gathered rows are padded
// with zeros, and scattered to their original places.
TEST(RowLanes, GatherAndScatterAnyAlignment) {
  std::mt19937_64 random(TestSeed());
  constexpr uint64_t kRows = 50;
  for (int round = 0; round < 400; ++round) {
    const auto row_bytes = static_cast<uint32_t>(1 + random() % 70);
    const uint64_t stride = row_bytes + (round % 2) * (random() % 40);
    const uint64_t shift = random() % 17;
    // Exactly as large as needed: a sanitizer detects accesses beyond it.
    std::vector<char> table(shift + (kRows - 1) * stride + row_bytes);
    for (char& byte : table) byte = static_cast<char>(random());
    const SlotView slot = {table.data() + shift, stride, row_bytes};
    std::vector<uint32_t> rows;
    for (uint32_t row = 0; row < kRows; ++row) {
      if (random() % 3 == 0) rows.push_back(row);
    }
    CudaStandin::Reset({});
    std::vector<Lane> batch(rows.size() * LanesOf(row_bytes) + 1,
                            Lane{kGuard, kGuard});
    uint64_t digest = 0;
    ASSERT_EQ(LaunchGather({slot, rows.data(), 0, rows.size(), nullptr,
                            batch.data(), &digest},
                           nullptr),
              cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(batch.back().low, kGuard);
    uint64_t sum = 0;
    for (uint64_t i = 0; i + 1 < batch.size(); ++i) sum += MixLane(i, batch[i]);
    EXPECT_EQ(digest, sum);
    std::vector<char> packed;
    for (uint64_t i = 0; i < rows.size(); ++i) {
      const char* const from =
          reinterpret_cast<const char*>(batch.data() + i * LanesOf(row_bytes));
      ASSERT_EQ(std::memcmp(from, slot.data + rows[i] * stride, row_bytes), 0);
      for (uint64_t at = row_bytes; at < PaddedBytes(row_bytes); ++at) {
        ASSERT_EQ(from[at], 0);
      }
      packed.insert(packed.end(), from, from + row_bytes);
    }
    std::vector<char> other(table.size(), 'x');
    const SlotView target = {other.data() + shift, stride, row_bytes};
    uint64_t scattered = 0;
    ASSERT_EQ(LaunchScatter({{packed.data(), row_bytes, row_bytes},
                             target,
                             rows.data(),
                             0,
                             rows.size(),
                             &scattered},
                            nullptr),
              cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(scattered, digest);
    std::vector<char> model(table.size(), 'x');
    for (const uint32_t row : rows) {
      std::memcpy(model.data() + shift + row * stride,
                  table.data() + shift + row * stride, row_bytes);
    }
    ASSERT_EQ(other, model) << row_bytes << " " << stride << " " << shift;
    // Tombstones.
    ASSERT_EQ(LaunchScatter({{}, target, nullptr, 10, 5, nullptr}, nullptr),
              cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (uint64_t row = 10; row < 15; ++row) {
      std::memset(model.data() + shift + row * stride, 0, row_bytes);
    }
    ASSERT_EQ(other, model);
  }
}

TEST(RowLanes, GatherStopsAtTheDevicesCount) {
  std::vector<uint32_t> table = {1, 2, 3, 4, 5};
  const SlotView slot = {reinterpret_cast<char*>(table.data()), 4, 4};
  const std::vector<uint32_t> rows = {0, 2, 4, kGuard};
  const uint64_t listed = 3;
  CudaStandin::Reset({});
  std::vector<Lane> batch(3, Lane{9, 9});
  uint64_t digest = 0;
  ASSERT_EQ(
      LaunchGather({slot, rows.data(), 1, 3, &listed, batch.data(), &digest},
                   nullptr),
      cudaSuccess);
  ASSERT_EQ(
      LaunchGather({slot, rows.data(), 4, 1, &listed, batch.data(), &digest},
                   nullptr),
      cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(batch[0].low, 3);
  EXPECT_EQ(batch[1].low, 5);
  EXPECT_EQ(batch[2].low, 9);
}

TEST(RowLanes, DigestDetectsFlippedBitsAndSwappedLanes) {
  std::mt19937_64 random(TestSeed());
  const auto sum = [](const std::vector<Lane>& lanes) {
    uint64_t all = 0;
    for (uint64_t i = 0; i < lanes.size(); ++i) all += MixLane(i, lanes[i]);
    return all;
  };
  std::vector<Lane> lanes(64);
  for (Lane& lane : lanes) lane = {random(), random() % 2};
  const uint64_t digest = sum(lanes);
  for (int bit = 0; bit < 64; ++bit) {
    lanes[bit].low ^= uint64_t{1} << bit;
    EXPECT_NE(sum(lanes), digest);
    lanes[bit].low ^= uint64_t{1} << bit;
    lanes[bit].high ^= uint64_t{1} << bit;
    EXPECT_NE(sum(lanes), digest);
    lanes[bit].high ^= uint64_t{1} << bit;
    std::swap(lanes[bit], lanes[(bit + 1) % 64]);
    EXPECT_NE(sum(lanes), digest);
    std::swap(lanes[bit], lanes[(bit + 1) % 64]);
    std::swap(lanes[bit].low, lanes[bit].high);
    EXPECT_NE(sum(lanes), digest);
    std::swap(lanes[bit].low, lanes[bit].high);
  }
  EXPECT_EQ(sum(lanes), digest);
  // The digest of zeros, such as after a copy that did not happen, is not zero.
  EXPECT_NE(sum(std::vector<Lane>(1)), 0);
}

}  // namespace
}  // namespace ckptdb::internal
