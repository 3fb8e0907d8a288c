// SPDX-License-Identifier: Apache-2.0
// Each kernel compared with a simple model on the host: on a GPU, and on the
// host with an emulation of blocks and warps (tests/support/simt.h). The sizes
// are those at which a kernel takes another path: a word, a tile, more tiles
// than a block has threads, more lanes than a grid has threads, and rows of 1
// to 32 threads.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cuda/kernels/row_kernels.h"
#include "cuda/kernels/tensor_kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/gpu_machine.h"
#include "tests/support/seed.h"

namespace ckptdb::internal {
namespace {

using testing::GpuArray;
using testing::GpuIsEmulated;
using testing::TestSeed;

constexpr int64_t kFreeId = -7;

// More tiles than a block has threads to place.
constexpr uint64_t kManyTilesRows =
    uint64_t{kTileWords} * kTileWords * kMarkWordBits + 12'345;

class GpuKernels : public testing::GpuMachineTest {
 protected:
  template <typename Number>
  void Mark(const MarkWordsView& view, const GpuArray<Number>& rows,
            uint64_t count, const GpuArray<MarkReport>& report) const {
    ASSERT_CUDA(LaunchMarkRows(
        MarkRows<Number>{view, rows.data(), count, report.data()}, stream_));
    ASSERT_CUDA(cudaStreamSynchronize(stream_));
  }
  // Random bytes.
  std::vector<char> Bytes(uint64_t count) {
    std::vector<char> bytes(count);
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }
  std::vector<int64_t> DrawRows(uint64_t count, uint64_t rows) {
    std::vector<int64_t> drawn(count);
    for (int64_t& row : drawn) row = static_cast<int64_t>(random_() % rows);
    return drawn;
  }

  std::mt19937_64 random_{TestSeed()};
};

// The list of a set, made in the same way as by a capture.
class Listed {
 public:
  Listed(uint64_t rows, cudaStream_t stream)
      : rows_(rows), stream_(stream), tiles_(MarkTiles(rows) + 1), count_(1) {}

  template <typename Take>
  std::vector<uint32_t> TakenBy(Take take,
                                cudaError_t (*launch)(const Take&, uint32_t*,
                                                      uint64_t*,
                                                      cudaStream_t)) {
    GpuArray<uint32_t> taken(MarkWords(rows_));
    take.taken = taken.data();
    EXPECT_CUDA(launch(take, tiles_.data(), count_.data(), stream_));
    EXPECT_CUDA(cudaStreamSynchronize(stream_));
    GpuArray<uint32_t> list(count_.Read()[0]);
    EXPECT_CUDA(LaunchListRows(taken.data(), rows_, tiles_.data(), list.data(),
                               stream_));
    EXPECT_CUDA(cudaStreamSynchronize(stream_));
    return list.Read();
  }

 private:
  const uint64_t rows_;
  cudaStream_t stream_;
  GpuArray<uint32_t> tiles_;
  GpuArray<uint64_t> count_;
};

TEST_F(GpuKernels, MarksAreListedInAscendingOrder) {
  for (const uint64_t rows :
       {uint64_t{1}, uint64_t{31}, uint64_t{32}, uint64_t{33},
        uint64_t{kTileWords} * kMarkWordBits - 1,
        uint64_t{kTileWords} * kMarkWordBits + 1, uint64_t{1'500'000},
        kManyTilesRows}) {
    SCOPED_TRACE(rows);
    const uint64_t words = MarkWords(rows);
    GpuArray<uint32_t> marks(words);
    GpuArray<uint32_t> pending(words);
    GpuArray<uint32_t> other(words);
    GpuArray<MarkReport> report(1);
    std::vector<int64_t> batch = DrawRows(20'000, rows);
    batch.push_back(0);
    batch.push_back(static_cast<int64_t>(rows - 1));
    const std::vector<int32_t> narrow(batch.begin(), batch.begin() + 5'000);
    const GpuArray<int64_t> wide_rows(batch);
    const GpuArray<int32_t> narrow_rows(narrow);
    const MarkWordsView view = {marks.data(), rows};
    Mark(view, wide_rows, batch.size(), report);
    Mark(view, narrow_rows, narrow.size(), report);
    const std::set<int64_t> expected(batch.begin(), batch.end());
    Listed listed(rows, stream_);
    TakeMarks take;
    take.marks = view;
    take.pending = pending.data();
    take.others[0] = other.data();
    take.other_count = 1;
    const std::vector<uint32_t> first =
        listed.TakenBy<TakeMarks>(take, LaunchTakeMarks);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), expected.begin(),
                           expected.end()));
    EXPECT_EQ(report.Read()[0].out_of_range, 0U);
    if (GpuIsEmulated() && rows == kManyTilesRows) continue;
    // The marks remain for the other consumer, and none for this one.
    EXPECT_TRUE(listed.TakenBy<TakeMarks>(take, LaunchTakeMarks).empty());
    take.pending = other.data();
    take.other_count = 0;
    EXPECT_EQ(listed.TakenBy<TakeMarks>(take, LaunchTakeMarks), first);
  }
}

TEST_F(GpuKernels, OutOfRangeMarksAreReportedAndWriteNothing) {
  constexpr uint64_t kRows = 1000;
  GpuArray<uint32_t> marks(MarkWords(kRows));
  GpuArray<MarkReport> report(1);
  const GpuArray<int64_t> rows(std::vector<int64_t>{
      1000, -1, 31, int64_t{1} << 32, std::numeric_limits<int64_t>::min(),
      std::numeric_limits<int64_t>::max(), 999});
  Mark({marks.data(), kRows}, rows, 7, report);
  std::vector<uint32_t> expected(MarkWords(kRows));
  expected[0] = uint32_t{1} << 31;
  expected[31] = uint32_t{1} << 7;
  EXPECT_EQ(marks.Read(), expected);
  EXPECT_EQ(report.Read()[0].out_of_range, 5U);
  const GpuArray<int32_t> narrow(std::vector<int32_t>{-5, 31});
  Mark({marks.data(), kRows}, narrow, 2, report);
  EXPECT_EQ(marks.Read(), expected);
  EXPECT_EQ(report.Read()[0].out_of_range, 6U);
  EXPECT_EQ(static_cast<int64_t>(report.Read()[0].example), -5);
}

TEST_F(GpuKernels, EmptyRowsAreSkipped) {
  // The last count is larger than the threads of a grid.
  for (const uint64_t rows :
       {uint64_t{5}, uint64_t{70'001}, uint64_t{1'100'003}}) {
    SCOPED_TRACE(rows);
    std::vector<int64_t> ids(rows);
    std::vector<uint32_t> live;
    for (uint64_t row = 0; row < rows; ++row) {
      ids[row] = random_() % 3 == 0 ? kFreeId : static_cast<int64_t>(random_());
      if (ids[row] != kFreeId) live.push_back(static_cast<uint32_t>(row));
    }
    const GpuArray<int64_t> there(ids);
    Listed listed(rows, stream_);
    TakeAll all;
    all.rows = rows;
    all.ids = {there.data(), kFreeId};
    EXPECT_EQ(listed.TakenBy<TakeAll>(all, LaunchTakeAll), live);
    all.ids = {};
    EXPECT_EQ(listed.TakenBy<TakeAll>(all, LaunchTakeAll).size(), rows);

    // Returned marks are taken again, without those rows.
    GpuArray<uint32_t> marks(MarkWords(rows));
    GpuArray<uint32_t> pending(MarkWords(rows));
    std::vector<uint32_t> full(MarkWords(rows));
    for (uint64_t word = 0; word < full.size(); ++word) {
      full[word] = FullWord(rows, word);
    }
    const GpuArray<uint32_t> given(full);
    ASSERT_CUDA(LaunchReturnMarks(
        ReturnMarks{pending.data(), given.data(), full.size()}, stream_));
    TakeMarks take;
    take.marks = {marks.data(), rows};
    take.ids = {there.data(), kFreeId};
    take.pending = pending.data();
    EXPECT_EQ(listed.TakenBy<TakeMarks>(take, LaunchTakeMarks), live);

    const GpuArray<uint32_t> list(live);
    GpuArray<int64_t> found(live.size());
    ListIds ids_of;
    ids_of.rows = list.data();
    ids_of.count = live.size();
    ids_of.ids = there.data();
    ids_of.listed = found.data();
    ASSERT_CUDA(LaunchListIds(ids_of, stream_));
    std::vector<int64_t> expected;
    for (const uint32_t row : live) expected.push_back(ids[row]);
    EXPECT_EQ(found.Read(), expected);

    ASSERT_CUDA(LaunchFreeRows(FreeRows{there.data(), rows, kFreeId}, stream_));
    EXPECT_EQ(there.Read(), std::vector<int64_t>(rows, kFreeId));
  }
}

// Rows of a slot with a given alignment, and gaps between them.
struct SlotShape {
  uint32_t row_bytes;
  uint64_t gap;
  uint64_t shift;
  uint32_t alignment;
};

TEST_F(GpuKernels, RowsAreGatheredAndScattered) {
  // The last has more than four lanes for each thread of the grid.
  const uint64_t many = kCopyBlocks * 256 * 5 / 16;
  for (const SlotShape& shape :
       {SlotShape{256, 0, 0, 16}, SlotShape{40, 8, 8, 8},
        SlotShape{12, 4, 4, 4}, SlotShape{6, 2, 2, 2}, SlotShape{17, 2, 1, 1},
        SlotShape{256, 16, 0, 16}}) {
    const bool is_last = shape.gap == 16;
    const uint64_t rows = is_last ? many : 3'001;
    SCOPED_TRACE(
        absl::StrCat("rows of ", shape.row_bytes, " at ", shape.shift));
    const uint64_t stride = shape.row_bytes + shape.gap;
    const std::vector<char> bytes = Bytes(shape.shift + rows * stride);
    const GpuArray<char> table(bytes);
    std::vector<uint32_t> list;
    for (uint64_t row = 0; row < rows; ++row) {
      if (is_last || random_() % 2 == 0) {
        list.push_back(static_cast<uint32_t>(row));
      }
    }
    std::shuffle(list.begin(), list.end(), random_);
    const GpuArray<uint32_t> listed(list);
    const uint32_t lanes = LanesOf(shape.row_bytes);
    const uint64_t first = is_last ? 0 : 3;
    const uint64_t count = list.size() - first;
    // If only the device knows the count, the batch may be larger.
    const GpuArray<uint64_t> known(std::vector<uint64_t>{list.size()});
    GpuArray<char> batch((count + 5) * lanes * kLaneBytes);
    GpuArray<uint64_t> digest(1);
    GatherRowsOfSlot gather;
    gather.slot = {table.data() + shape.shift, stride, shape.row_bytes};
    ASSERT_EQ(AlignmentOf(gather.slot), shape.alignment);
    gather.rows = listed.data();
    gather.first = first;
    gather.count = count + 5;
    gather.listed = known.data();
    gather.batch = reinterpret_cast<Lane*>(batch.data());
    gather.digest = digest.data();
    ASSERT_CUDA(LaunchGather(gather, stream_));

    std::vector<char> expected((count + 5) * lanes * kLaneBytes);
    uint64_t expected_digest = 0;
    for (uint64_t i = 0; i < count; ++i) {
      char* const row = expected.data() + i * lanes * kLaneBytes;
      std::memcpy(row, bytes.data() + shape.shift + list[first + i] * stride,
                  shape.row_bytes);
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        Lane value;
        std::memcpy(&value, row + lane * kLaneBytes, sizeof(value));
        expected_digest += MixLane(i * lanes + lane, value);
      }
    }
    EXPECT_TRUE(batch.Read() == expected);
    EXPECT_EQ(digest.Read()[0], expected_digest);

    // Back into a table of other bytes; the gaps keep theirs.
    std::vector<char> changed = Bytes(bytes.size());
    const GpuArray<char> to(changed);
    GpuArray<uint64_t> scattered(1);
    ScatterRowsOfSlot scatter;
    scatter.batch = {batch.data(), uint64_t{lanes} * kLaneBytes,
                     shape.row_bytes};
    scatter.slot = {to.data() + shape.shift, stride, shape.row_bytes};
    scatter.rows = listed.data() + first;
    scatter.count = count;
    scatter.digest = scattered.data();
    ASSERT_CUDA(LaunchScatter(scatter, stream_));
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t at = shape.shift + list[first + i] * stride;
      std::copy_n(bytes.begin() + static_cast<int64_t>(at), shape.row_bytes,
                  changed.begin() + static_cast<int64_t>(at));
    }
    EXPECT_TRUE(to.Read() == changed);
    EXPECT_EQ(scattered.Read()[0], expected_digest);

    // Without a batch, writes zeros.
    scatter.batch = {};
    scatter.digest = nullptr;
    ASSERT_CUDA(LaunchScatter(scatter, stream_));
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t at = shape.shift + list[first + i] * stride;
      std::fill_n(changed.begin() + static_cast<int64_t>(at), shape.row_bytes,
                  '\0');
    }
    EXPECT_TRUE(to.Read() == changed);
  }
}

TEST_F(GpuKernels, PiecesArePackedAndUnpacked) {
  struct Shape {
    uint64_t bytes;
    uint64_t row_bytes;  // 0: contiguous
    uint64_t stride_bytes;
    uint64_t shift;
  };
  // More pieces than blocks, so that blocks have several.
  std::vector<Shape> shapes = {
      {1, 0, 0, 0},       {40'000, 0, 0, 0}, {40'001, 0, 0, 4},
      {9'600, 48, 64, 0}, {231, 7, 12, 1},   {216, 24, 32, 8},
      {100, 20, 24, 4},   {36, 6, 8, 2},     {kMaxPieceBytes, 0, 0, 0}};
  while (shapes.size() < kCopyBlocks + 100) {
    shapes.push_back({1 + random_() % 2'000, 0, 0, random_() % 16});
  }
  std::vector<std::vector<char>> contents;
  std::vector<std::unique_ptr<GpuArray<char>>> tensors;
  std::vector<TensorPiece> pieces;
  uint64_t packed_bytes = 0;
  for (const Shape& shape : shapes) {
    const uint64_t rows =
        shape.row_bytes == 0 ? 1 : shape.bytes / shape.row_bytes;
    const uint64_t span =
        shape.row_bytes == 0 ? shape.bytes : rows * shape.stride_bytes;
    contents.push_back(Bytes(shape.shift + span));
    tensors.push_back(std::make_unique<GpuArray<char>>(contents.back()));
    pieces.push_back({tensors.back()->data() + shape.shift, 0, shape.bytes,
                      packed_bytes, shape.row_bytes, shape.stride_bytes});
    packed_bytes += LanesOf(pieces.back()) * kLaneBytes;
  }
  const GpuArray<TensorPiece> list(pieces);
  GpuArray<char> packed(packed_bytes);
  GpuArray<uint64_t> digests(pieces.size());
  ASSERT_CUDA(LaunchPack(list.data(), pieces.size(), packed.data(),
                         digests.data(), stream_));

  std::vector<char> expected(packed_bytes);
  std::vector<uint64_t> expected_digests;
  for (size_t p = 0; p < pieces.size(); ++p) {
    TensorPiece piece = pieces[p];
    piece.tensor = contents[p].data() + shapes[p].shift;
    for (uint64_t byte = 0; byte < piece.bytes; ++byte) {
      expected[piece.packed + byte] = *AddressOf(piece, byte);
    }
    expected_digests.push_back(DigestOf(piece, expected.data() + piece.packed));
  }
  EXPECT_TRUE(packed.Read() == expected);
  EXPECT_EQ(digests.Read(), expected_digests);

  for (size_t p = 0; p < pieces.size(); ++p) {
    tensors[p]->Write(std::vector<char>(contents[p].size(), 'x'));
  }
  digests.Write(std::vector<uint64_t>(pieces.size()));
  ASSERT_CUDA(LaunchUnpack(list.data(), pieces.size(), packed.data(),
                           digests.data(), stream_));
  EXPECT_EQ(digests.Read(), expected_digests);
  for (size_t p = 0; p < pieces.size(); ++p) {
    std::vector<char> back(contents[p].size(), 'x');
    TensorPiece piece = pieces[p];
    piece.tensor = back.data() + shapes[p].shift;
    for (uint64_t byte = 0; byte < piece.bytes; ++byte) {
      *AddressOf(piece, byte) = expected[piece.packed + byte];
    }
    EXPECT_TRUE(tensors[p]->Read() == back) << p;
  }
}

}  // namespace
}  // namespace ckptdb::internal
