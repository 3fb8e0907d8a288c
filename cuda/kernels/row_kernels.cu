// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/row_kernels.h"

#include <algorithm>

#include "cuda/kernels/launch.h"

namespace ckptdb::internal {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarpThreads = 32;
// Marking is short and runs on the trainer's stream, so it may use the whole
// device.
constexpr uint64_t kMarkBlocks = 4096;

__device__ uint64_t ThreadNumber() {
  return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ uint64_t ThreadCount() { return uint64_t{gridDim.x} * blockDim.x; }

uint32_t Blocks(uint64_t items, uint64_t most) {
  const uint64_t wanted = (items + kThreads - 1) / kThreads;
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted, 1, most));
}

template <typename Operation>
__global__ void __launch_bounds__(kThreads)
    RunEach(Operation operation, uint64_t count) {
  for (uint64_t i = ThreadNumber(); i < count; i += ThreadCount()) {
    operation.Run(i);
  }
}

template <typename Operation>
cudaError_t LaunchEach(const Operation& operation, uint64_t count,
                       cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return Launch(RunEach<Operation>, Blocks(count, kMarkBlocks), kThreads,
                stream, operation, count);
}

// Adds up the digests of all threads of a warp, and adds the sum to `digest`.
__device__ void AddDigest(uint64_t mine, uint64_t* digest) {
  for (uint32_t half = kWarpThreads / 2; half > 0; half /= 2) {
    mine += __shfl_down_sync(~0U, mine, half);
  }
  if (threadIdx.x % kWarpThreads == 0 && digest != nullptr) {
    AtomicAdd(digest, mine);
  }
}

template <typename Copy, uint32_t kAlignment>
__global__ void __launch_bounds__(kThreads) CopyLanes(Copy copy) {
  AddDigest(
      MoveLanes<kAlignment>(copy, ThreadNumber(), copy.Lanes(), ThreadCount()),
      copy.digest);
}

// Adds up the statistics of all threads of a warp, and adds the sum to `found`.
__device__ void AddFound(CodesFound mine, CodesFound* found) {
  for (uint32_t half = kWarpThreads / 2; half > 0; half /= 2) {
    mine.Add({__shfl_down_sync(~0U, mine.error, half),
              __shfl_down_sync(~0U, mine.magnitude, half),
              __shfl_down_sync(~0U, mine.refused, half)});
  }
  if (threadIdx.x % kWarpThreads == 0) mine.AddTo(found);
}

template <uint32_t kAlignment>
__global__ void __launch_bounds__(kThreads) EncodeBf16Lanes(EncodeBf16Rows to) {
  const uint64_t lanes = to.Lanes();
  CodesFound found;
  uint64_t digest = 0;
  for (uint64_t at = ThreadNumber(); at < lanes; at += ThreadCount()) {
    digest += to.Run<kAlignment>(at, &found);
  }
  AddDigest(digest, to.digest);
  AddFound(found, to.found);
}

// `parts` threads of one warp share a row and exchange its range. All threads
// of a warp run the loop equally often, because all take part in the exchange.
template <uint32_t kAlignment>
__global__ void __launch_bounds__(kThreads)
    EncodeInt8Groups(EncodeInt8Rows to, uint32_t parts) {
  const uint32_t part = threadIdx.x % parts;
  const uint64_t groups = ThreadCount() / parts;
  CodesFound found;
  uint64_t digest = 0;
  for (uint64_t before = 0; before < to.from.count; before += groups) {
    const uint64_t i = before + ThreadNumber() / parts;
    KeyRange range;
    if (i < to.from.count) range = to.RangeOf<kAlignment>(i, part, parts);
    for (uint32_t half = parts / 2; half > 0; half /= 2) {
      range.Add({__shfl_xor_sync(~0U, range.least, half),
                 __shfl_xor_sync(~0U, range.greatest, half)});
    }
    if (i < to.from.count) {
      digest += to.Run<kAlignment>(i, part, parts, range, &found);
    }
  }
  AddDigest(digest, to.digest);
  AddFound(found, to.found);
}

// Calls launch.operator()<kAlignment>() for this alignment.
template <typename Function>
cudaError_t WithAlignment(uint32_t alignment, const Function& launch) {
  switch (alignment) {
    case 16:
      return launch.template operator()<16>();
    case 8:
      return launch.template operator()<8>();
    case 4:
      return launch.template operator()<4>();
    case 2:
      return launch.template operator()<2>();
    default:
      return launch.template operator()<1>();
  }
}

template <typename Copy>
cudaError_t LaunchCopy(const Copy& copy, uint64_t most_lanes,
                       uint32_t alignment, cudaStream_t stream) {
  if (most_lanes == 0) return cudaSuccess;
  const uint32_t blocks = Blocks(most_lanes, kCopyBlocks);
  return WithAlignment(alignment, [&]<uint32_t kAlignment>() {
    return Launch(CopyLanes<Copy, kAlignment>, blocks, kThreads, stream, copy);
  });
}

// One block per tile, one thread per word.
template <typename Take>
__global__ void __launch_bounds__(kTileWords)
    TakeTiles(Take take, uint64_t words, uint32_t* tiles) {
  __shared__ uint32_t rows;
  if (threadIdx.x == 0) rows = 0;
  __syncthreads();
  const uint64_t word = ThreadNumber();
  const uint32_t mine = word < words ? take.Run(word) : 0;
  if (mine != 0) atomicAdd(&rows, mine);
  __syncthreads();
  if (threadIdx.x == 0) tiles[blockIdx.x] = rows;
}

// Returns the sum of this thread's number and those of the threads before it in
// the block. All threads of the block call it.
__device__ uint32_t SumBefore(uint32_t mine, uint32_t (*sums)[kTileWords]) {
  uint32_t now = 0;
  sums[now][threadIdx.x] = mine;
  __syncthreads();
  for (uint32_t step = 1; step < kTileWords; step *= 2) {
    SumStep(sums[now], sums[1 - now], threadIdx.x, step);
    now = 1 - now;
    __syncthreads();
  }
  return sums[now][threadIdx.x];
}

// Turns the counts of the tiles into offsets. Runs as one block.
__global__ void __launch_bounds__(kTileWords)
    PlaceTiles(uint32_t* tiles, uint64_t tile_count, uint64_t* total) {
  __shared__ uint32_t sums[2][kTileWords];
  __shared__ uint32_t before;
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
  for (uint64_t first = 0; first < tile_count; first += kTileWords) {
    const uint64_t tile = first + threadIdx.x;
    const uint32_t mine = tile < tile_count ? tiles[tile] : 0;
    const uint32_t sum = before + SumBefore(mine, sums);
    if (tile < tile_count) tiles[tile] = sum - mine;
    __syncthreads();
    if (threadIdx.x == kTileWords - 1) before = sum;
    __syncthreads();
  }
  if (threadIdx.x == 0) *total = before;
}

__global__ void __launch_bounds__(kTileWords)
    ListTiles(const uint32_t* taken, uint64_t words, const uint32_t* tiles,
              uint32_t* rows) {
  __shared__ uint32_t sums[2][kTileWords];
  const uint64_t word = ThreadNumber();
  const uint32_t bits = word < words ? taken[word] : 0;
  const uint32_t mine = CountBits(bits);
  const uint32_t before = SumBefore(mine, sums) - mine;
  ExpandWord(word, bits, rows + tiles[blockIdx.x] + before);
}

template <typename Take>
cudaError_t LaunchTake(const Take& take, uint32_t* tiles, uint64_t* count,
                       cudaStream_t stream) {
  const uint64_t tile_count = MarkTiles(take.Rows());
  if (tile_count > 0) {
    const cudaError_t error =
        Launch(TakeTiles<Take>, static_cast<uint32_t>(tile_count), kTileWords,
               stream, take, MarkWords(take.Rows()), tiles);
    if (error != cudaSuccess) return error;
  }
  return Launch(PlaceTiles, 1, kTileWords, stream, tiles, tile_count, count);
}

// The kernels of this alignment.
template <uint32_t kAlignment>
cudaError_t LoadAligned() {
  return Load(CopyLanes<GatherRowsOfSlot, kAlignment>,
              CopyLanes<ScatterRowsOfSlot, kAlignment>,
              EncodeBf16Lanes<kAlignment>, EncodeInt8Groups<kAlignment>);
}

}  // namespace

cudaError_t LoadRowKernels() {
  const cudaError_t loaded[] = {
      LoadAligned<16>(),
      LoadAligned<8>(),
      LoadAligned<4>(),
      LoadAligned<2>(),
      LoadAligned<1>(),
      Load(RunEach<MarkRows<int32_t>>, RunEach<MarkRows<int64_t>>,
           RunEach<ListIds>, RunEach<FreeRows>, RunEach<ReturnMarks>,
           TakeTiles<TakeMarks>, TakeTiles<TakeAll>, PlaceTiles, ListTiles)};
  for (const cudaError_t error : loaded) {
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t LaunchMarkRows(const MarkRows<int32_t>& marks,
                           cudaStream_t stream) {
  return LaunchEach(marks, marks.count, stream);
}

cudaError_t LaunchMarkRows(const MarkRows<int64_t>& marks,
                           cudaStream_t stream) {
  return LaunchEach(marks, marks.count, stream);
}

cudaError_t LaunchTakeMarks(const TakeMarks& marks, uint32_t* tiles,
                            uint64_t* count, cudaStream_t stream) {
  return LaunchTake(marks, tiles, count, stream);
}

cudaError_t LaunchTakeAll(const TakeAll& all, uint32_t* tiles, uint64_t* count,
                          cudaStream_t stream) {
  return LaunchTake(all, tiles, count, stream);
}

cudaError_t LaunchListRows(const uint32_t* taken, uint64_t table_rows,
                           const uint32_t* tiles, uint32_t* rows,
                           cudaStream_t stream) {
  const uint64_t tile_count = MarkTiles(table_rows);
  if (tile_count == 0) return cudaSuccess;
  return Launch(ListTiles, static_cast<uint32_t>(tile_count), kTileWords,
                stream, taken, MarkWords(table_rows), tiles, rows);
}

cudaError_t LaunchListIds(const ListIds& list, cudaStream_t stream) {
  return LaunchEach(list, list.count, stream);
}

cudaError_t LaunchFreeRows(const FreeRows& rows, cudaStream_t stream) {
  return LaunchEach(rows, rows.count, stream);
}

cudaError_t LaunchReturnMarks(const ReturnMarks& marks, cudaStream_t stream) {
  return LaunchEach(marks, marks.words, stream);
}

cudaError_t LaunchGather(const GatherRowsOfSlot& rows, cudaStream_t stream) {
  return LaunchCopy(rows, rows.count * LanesOf(rows.slot.row_bytes),
                    AlignmentOf(rows.slot), stream);
}

cudaError_t LaunchEncode(const EncodeBf16Rows& rows, cudaStream_t stream) {
  if (rows.Lanes() == 0) return cudaSuccess;
  const uint32_t blocks = Blocks(rows.Lanes(), kCopyBlocks);
  return WithAlignment(AlignmentOf(rows.from.slot), [&]<uint32_t kAlignment>() {
    return Launch(EncodeBf16Lanes<kAlignment>, blocks, kThreads, stream, rows);
  });
}

cudaError_t LaunchEncode(const EncodeInt8Rows& rows, cudaStream_t stream) {
  if (rows.from.count == 0) return cudaSuccess;
  const uint32_t parts = rows.Parts();
  const uint32_t blocks = Blocks(rows.from.count * parts, kCopyBlocks);
  return WithAlignment(AlignmentOf(rows.from.slot), [&]<uint32_t kAlignment>() {
    return Launch(EncodeInt8Groups<kAlignment>, blocks, kThreads, stream, rows,
                  parts);
  });
}

cudaError_t LaunchScatter(const ScatterRowsOfSlot& rows, cudaStream_t stream) {
  const uint32_t alignment = rows.batch.data == nullptr
                                 ? AlignmentOf(rows.slot)
                                 : AlignmentOf(rows.batch, rows.slot);
  return LaunchCopy(rows, rows.Lanes(), alignment, stream);
}

}  // namespace ckptdb::internal
