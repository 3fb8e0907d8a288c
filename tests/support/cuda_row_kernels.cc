// The kernels on rows as the stand-in for the runtime runs them: the same
// operations, one thread after the other, when the stand-in's stream comes to
// them. Linked in place of cuda/kernels/row_kernels.cu.
#include <utility>
#include <vector>

#include "ckptdb/cuda/kernels/row_kernels.h"
#include "ckptdb/tests/support/cuda_standin.h"

namespace ckptdb::internal {
namespace {

using testing::CudaStandin;
using Ranges = std::vector<CudaStandin::Range>;

template <typename Row>
cudaError_t Mark(const MarkRows<Row>& marks, cudaStream_t stream) {
  if (marks.count == 0) return cudaSuccess;
  return CudaStandin::Queue(
      stream, "mark rows",
      [=] {
        for (uint64_t i = 0; i < marks.count; ++i) marks.Run(i);
      },
      {{marks.rows, marks.count * sizeof(Row)},
       {marks.marks.words, MarkWords(marks.marks.rows) * sizeof(uint32_t)},
       {marks.report, sizeof(MarkReport)}});
}

// As PlaceTiles of the kernels: the running sums in the steps of a block, and
// what is carried from one block's width to the next.
void PlaceTiles(uint32_t* tiles, uint64_t tile_count, uint64_t* total) {
  uint32_t before = 0;
  for (uint64_t first = 0; first < tile_count; first += kTileWords) {
    std::vector<uint32_t> sums[2];
    sums[0].resize(kTileWords);
    sums[1].resize(kTileWords);
    for (uint32_t t = 0; t < kTileWords; ++t) {
      if (first + t < tile_count) sums[0][t] = tiles[first + t];
    }
    uint32_t now = 0;
    for (uint32_t step = 1; step < kTileWords; step *= 2) {
      for (uint32_t t = 0; t < kTileWords; ++t) {
        SumStep(sums[now].data(), sums[1 - now].data(), t, step);
      }
      now = 1 - now;
    }
    for (uint32_t t = 0; t < kTileWords && first + t < tile_count; ++t) {
      tiles[first + t] = before + sums[now][t] - tiles[first + t];
    }
    before += sums[now][kTileWords - 1];
  }
  *total = before;
}

template <typename Operation>
cudaError_t Take(const Operation& take, uint32_t* tiles, uint64_t* count,
                 cudaStream_t stream, Ranges ranges) {
  const uint64_t words = MarkWords(take.Rows());
  const uint64_t tile_count = MarkTiles(take.Rows());
  ranges.push_back({take.taken, words * sizeof(uint32_t)});
  ranges.push_back({tiles, tile_count * sizeof(uint32_t)});
  return CudaStandin::Queue(
      stream, "take marks",
      [=] {
        for (uint64_t tile = 0; tile < tile_count; ++tile) {
          uint32_t rows = 0;
          for (uint64_t w = tile * kTileWords;
               w < words && w < (tile + 1) * kTileWords; ++w) {
            rows += take.Run(w);
          }
          tiles[tile] = rows;
        }
        PlaceTiles(tiles, tile_count, count);
      },
      std::move(ranges));
}

template <typename Copy>
void RunLanes(const Copy& copy, uint32_t alignment) {
  uint64_t digest = 0;
  const uint64_t lanes = copy.Lanes();
  for (uint64_t at = 0; at < lanes; ++at) {
    digest += alignment == 16  ? copy.template Run<16>(at)
              : alignment == 8 ? copy.template Run<8>(at)
              : alignment == 4 ? copy.template Run<4>(at)
              : alignment == 2 ? copy.template Run<2>(at)
                               : copy.template Run<1>(at);
  }
  if (copy.digest != nullptr) AtomicAdd(copy.digest, digest);
}

// Calls run.operator()<kAlignment>() for this alignment.
template <typename Run>
void WithAlignment(uint32_t alignment, const Run& run) {
  switch (alignment) {
    case 16:
      return run.template operator()<16>();
    case 8:
      return run.template operator()<8>();
    case 4:
      return run.template operator()<4>();
    case 2:
      return run.template operator()<2>();
    default:
      return run.template operator()<1>();
  }
}

template <uint32_t kAlignment>
void EncodeAll(const EncodeBf16Rows& to) {
  CodesFound found;
  uint64_t digest = 0;
  for (uint64_t at = 0; at < to.Lanes(); ++at) {
    digest += to.Run<kAlignment>(at, &found);
  }
  AtomicAdd(to.digest, digest);
  found.AddTo(to.found);
}

// The threads of a row, one after the other, and what each has found.
template <uint32_t kAlignment>
void EncodeAll(const EncodeInt8Rows& to) {
  const uint32_t parts = to.Parts();
  for (uint64_t i = 0; i < to.from.count; ++i) {
    KeyRange range;
    for (uint32_t part = 0; part < parts; ++part) {
      range.Add(to.RangeOf<kAlignment>(i, part, parts));
    }
    for (uint32_t part = 0; part < parts; ++part) {
      CodesFound found;
      AtomicAdd(to.digest, to.Run<kAlignment>(i, part, parts, range, &found));
      found.AddTo(to.found);
    }
  }
}

template <typename Operation>
cudaError_t Encode(const Operation& to, Ranges ranges, cudaStream_t stream) {
  const NumberRows& from = to.from;
  ranges.push_back({to.digest, sizeof(*to.digest)});
  ranges.push_back({to.found, sizeof(*to.found)});
  ranges.push_back(
      {from.rows, from.rows == nullptr ? 0 : from.count * sizeof(uint32_t)});
  return CudaStandin::Queue(
      stream, "encode",
      [=] {
        WithAlignment(AlignmentOf(from.slot), [&]<uint32_t kAlignment>() {
          EncodeAll<kAlignment>(to);
        });
      },
      std::move(ranges));
}

}  // namespace

// There is one call, which may fail.
cudaError_t LoadRowKernels() {
  cudaFuncAttributes attributes = {};
  return cudaFuncGetAttributes(&attributes, nullptr);
}

cudaError_t LaunchMarkRows(const MarkRows<int32_t>& marks,
                           cudaStream_t stream) {
  return Mark(marks, stream);
}

cudaError_t LaunchMarkRows(const MarkRows<int64_t>& marks,
                           cudaStream_t stream) {
  return Mark(marks, stream);
}

cudaError_t LaunchTakeMarks(const TakeMarks& marks, uint32_t* tiles,
                            uint64_t* count, cudaStream_t stream) {
  return Take(
      marks, tiles, count, stream,
      {{marks.marks.words, MarkWords(marks.marks.rows) * sizeof(uint32_t)},
       {marks.pending, MarkWords(marks.marks.rows) * sizeof(uint32_t)}});
}

cudaError_t LaunchTakeAll(const TakeAll& all, uint32_t* tiles, uint64_t* count,
                          cudaStream_t stream) {
  return Take(all, tiles, count, stream, {});
}

cudaError_t LaunchListRows(const uint32_t* taken, uint64_t table_rows,
                           const uint32_t* tiles, uint32_t* rows,
                           cudaStream_t stream) {
  const uint64_t words = MarkWords(table_rows);
  return CudaStandin::Queue(
      stream, "list rows",
      [=] {
        uint32_t listed = 0;
        for (uint64_t w = 0; w < words; ++w) {
          if (w % kTileWords == 0) listed = tiles[w / kTileWords];
          listed += ExpandWord(w, taken[w], rows + listed);
        }
      },
      {{taken, words * sizeof(uint32_t)}, {rows, sizeof(uint32_t)}});
}

cudaError_t LaunchListIds(const ListIds& list, cudaStream_t stream) {
  return CudaStandin::Queue(stream, "list ids",
                            [=] {
                              for (uint64_t i = 0; i < list.count; ++i)
                                list.Run(i);
                            },
                            {{list.rows, list.count * sizeof(uint32_t)},
                             {list.listed, list.count * sizeof(int64_t)}});
}

cudaError_t LaunchFreeRows(const FreeRows& rows, cudaStream_t stream) {
  return CudaStandin::Queue(stream, "free rows",
                            [=] {
                              for (uint64_t row = 0; row < rows.count; ++row)
                                rows.Run(row);
                            },
                            {{rows.ids, rows.count * sizeof(int64_t)}});
}

cudaError_t LaunchReturnMarks(const ReturnMarks& marks, cudaStream_t stream) {
  return CudaStandin::Queue(stream, "return marks",
                            [=] {
                              for (uint64_t w = 0; w < marks.words; ++w)
                                marks.Run(w);
                            },
                            {{marks.taken, marks.words * sizeof(uint32_t)},
                             {marks.pending, marks.words * sizeof(uint32_t)}});
}

cudaError_t LaunchGather(const GatherRowsOfSlot& rows, cudaStream_t stream) {
  const uint64_t lanes = rows.count * LanesOf(rows.slot.row_bytes);
  return CudaStandin::Queue(
      stream, "gather", [=] { RunLanes(rows, AlignmentOf(rows.slot)); },
      {{rows.batch, lanes * kLaneBytes},
       {rows.rows, rows.rows == nullptr ? 0 : rows.count * sizeof(uint32_t)}});
}

cudaError_t LaunchEncode(const EncodeBf16Rows& rows, cudaStream_t stream) {
  return Encode(rows, {{rows.batch, rows.Lanes() * kLaneBytes}}, stream);
}

cudaError_t LaunchEncode(const EncodeInt8Rows& rows, cudaStream_t stream) {
  const uint64_t count = rows.from.count;
  return Encode(rows,
                {{rows.codes, count * rows.LanesOfRow() * kLaneBytes},
                 {rows.bounds, count * sizeof(*rows.bounds)}},
                stream);
}

cudaError_t LaunchScatter(const ScatterRowsOfSlot& rows, cudaStream_t stream) {
  const uint32_t alignment = rows.batch.data == nullptr
                                 ? AlignmentOf(rows.slot)
                                 : AlignmentOf(rows.batch, rows.slot);
  return CudaStandin::Queue(
      stream, "scatter", [=] { RunLanes(rows, alignment); },
      {{rows.batch.data,
        rows.batch.data == nullptr ? 0 : rows.count * rows.slot.row_bytes},
       {rows.rows, rows.rows == nullptr ? 0 : rows.count * sizeof(uint32_t)}});
}

}  // namespace ckptdb::internal
