// SPDX-License-Identifier: Apache-2.0
// The operations on rows in device memory, compared with simple models: rows at
// random places, marks by many threads, digests. GpuKernels tests the rest.
#include "cuda/rows/row_operations.h"

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "cuda/kernels/row_kernels.h"
#include "gtest/gtest.h"
#include "tests/cuda/expect_cuda.h"
#include "tests/support/cuda_standin.h"
#include "tests/support/seed.h"

namespace ckptdb::internal {
namespace {

using testing::CudaStandin;
using testing::TestSeed;

constexpr uint32_t kGuard = 0xdeadbeef;

// No mark is lost between threads that mark and one that takes; under the
// thread sanitizer there is no data race.
TEST(RowMarks, OfManyThreadsAreAllTaken) {
  constexpr uint64_t kRows = 3000;
  std::vector<uint32_t> marks(MarkWords(kRows), 0);
  std::vector<uint32_t> pending(MarkWords(kRows), 0);
  std::vector<uint32_t> taken(MarkWords(kRows), 0);
  std::vector<uint32_t> all(MarkWords(kRows), 0);
  MarkReport reports[3];
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&marks, report = &reports[t], t] {
      const MarkWordsView view = {marks.data(), kRows};
      for (uint64_t row = t; row < kRows; row += 3) {
        SetMark(view, static_cast<int64_t>(row), report);
      }
    });
  }
  TakeMarks take;
  take.marks = {marks.data(), kRows};
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
    ASSERT_CUDA(LaunchGather(
        {slot, rows.data(), 0, rows.size(), nullptr, batch.data(), &digest},
        nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
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
    ASSERT_CUDA(LaunchScatter({{packed.data(), row_bytes, row_bytes},
                               target,
                               rows.data(),
                               0,
                               rows.size(),
                               &scattered},
                              nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
    EXPECT_EQ(scattered, digest);
    std::vector<char> model(table.size(), 'x');
    for (const uint32_t row : rows) {
      std::memcpy(model.data() + shift + row * stride,
                  table.data() + shift + row * stride, row_bytes);
    }
    ASSERT_EQ(other, model) << row_bytes << " " << stride << " " << shift;
    // Tombstones.
    ASSERT_CUDA(LaunchScatter({{}, target, nullptr, 10, 5, nullptr}, nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
    for (uint64_t row = 10; row < 15; ++row) {
      std::memset(model.data() + shift + row * stride, 0, row_bytes);
    }
    ASSERT_EQ(other, model);
  }
}

TEST(RowLanes, ADigestFindsOneBitAndLanesThatChangedPlaces) {
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
