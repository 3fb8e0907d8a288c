// SPDX-License-Identifier: Apache-2.0
// The operations on rows in device memory, each as the work of one thread on
// one mark, word, lane or count; internal to cuda/. The kernels of
// cuda/kernels/row_kernels.cu run one per thread; tests run them one after
// another on the host.
#ifndef CKPTDB_CUDA_ROWS_ROW_OPERATIONS_H_
#define CKPTDB_CUDA_ROWS_ROW_OPERATIONS_H_

#include <cstdint>

#include "cuda/rows/host_device.h"
#include "cuda/rows/row_lanes.h"
#include "cuda/rows/row_marks.h"

namespace ckptdb::internal {

// Marks the rows of a batch. Row is int32_t or int64_t.
template <typename Row>
struct MarkRows {
  MarkWordsView marks;
  const Row* rows = nullptr;
  uint64_t count = 0;
  MarkReport* report = nullptr;

  CKPTDB_HOST_DEVICE void Run(uint64_t i) const {
    SetMark(marks, static_cast<int64_t>(rows[i]), report);
  }
};

// Takes the marks of an interval: adds them to each consumer's pending set, and
// moves this consumer's pending set to `taken`, without empty rows.
struct TakeMarks {
  // The maximum number of consumers besides this one.
  static constexpr uint32_t kMaxOthers = 7;

  MarkWordsView marks;
  RowIdsView ids;
  uint32_t* pending = nullptr;  // this consumer's pending set
  uint32_t* others[kMaxOthers] = {};
  uint32_t other_count = 0;
  uint32_t* taken = nullptr;

  CKPTDB_HOST_DEVICE uint64_t Rows() const { return marks.rows; }

  // Returns the number of rows taken from the word.
  CKPTDB_HOST_DEVICE uint32_t Run(uint64_t word) const {
    const uint32_t marked = TakeMarkWord(marks.words + word);
    if (marked != 0) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (uint32_t o = 0; o < kMaxOthers; ++o) {
        if (o < other_count) others[o][word] |= marked;
      }
    }
    const uint32_t mine = marked | pending[word];
    if (pending[word] != 0) pending[word] = 0;
    const uint32_t live = LiveBits(ids, word, mine);
    taken[word] = live;
    return CountBits(live);
  }
};

// Makes the set of all rows that are not empty.
struct TakeAll {
  uint64_t rows = 0;
  RowIdsView ids;
  uint32_t* taken = nullptr;

  CKPTDB_HOST_DEVICE uint64_t Rows() const { return rows; }

  CKPTDB_HOST_DEVICE uint32_t Run(uint64_t word) const {
    const uint32_t live = LiveBits(ids, word, FullWord(rows, word));
    taken[word] = live;
    return CountBits(live);
  }
};

// Returns a taken set to the pending rows.
struct ReturnMarks {
  uint32_t* pending = nullptr;
  const uint32_t* taken = nullptr;
  uint64_t words = 0;

  CKPTDB_HOST_DEVICE void Run(uint64_t word) const {
    ReturnMarkWord(pending + word, taken[word]);
  }
};

// Writes the ids of rows to consecutive addresses.
struct ListIds {
  const uint32_t* rows = nullptr;
  uint64_t count = 0;
  // The ids of the table. If null, the id of a row is first + row * step,
  // computed as uint64_t.
  const int64_t* ids = nullptr;
  int64_t first = 0;
  int64_t step = 1;
  int64_t* listed = nullptr;

  CKPTDB_HOST_DEVICE void Run(uint64_t i) const {
    const uint64_t row = rows[i];
    listed[i] = ids != nullptr
                    ? ids[row]
                    : static_cast<int64_t>(static_cast<uint64_t>(first) +
                                           row * static_cast<uint64_t>(step));
  }
};

// Makes rows empty.
struct FreeRows {
  int64_t* ids = nullptr;
  uint64_t count = 0;
  int64_t free_id = 0;

  CKPTDB_HOST_DEVICE void Run(uint64_t row) const { ids[row] = free_id; }
};

// One step of the running sums of kTileWords numbers, for element `i`. After
// steps of 1, 2, 4, ..., kTileWords / 2, with `in` and `out` swapped and the
// threads synchronized in between, each element is the sum of itself and all
// before it.
CKPTDB_HOST_DEVICE inline void SumStep(const uint32_t* in, uint32_t* out,
                                       uint32_t i, uint32_t step) {
  out[i] = in[i] + (i >= step ? in[i - step] : 0);
}

// Copies rows of a slot to a batch, padded to whole lanes, and adds up their
// digest.
struct GatherRowsOfSlot {
  SlotView slot;
  const uint32_t* rows = nullptr;  // null: the rows from `first` on
  uint64_t first = 0;              // of the list of rows
  uint64_t count = 0;              // the maximum number of rows
  // The number of rows in the list if only the device knows it; otherwise null.
  const uint64_t* listed = nullptr;
  Lane* batch = nullptr;
  uint64_t* digest = nullptr;  // the sum is added to it

  // Returns the number of lanes of the batch.
  CKPTDB_HOST_DEVICE uint64_t Lanes() const {
    uint64_t some = count;
    if (listed != nullptr) {
      const uint64_t left = *listed > first ? *listed - first : 0;
      some = left < some ? left : some;
    }
    return some * LanesOf(slot.row_bytes);
  }

  template <uint32_t kAlignment>
  CKPTDB_HOST_DEVICE Lane Read(uint64_t at) const {
    const uint32_t lanes = LanesOf(slot.row_bytes);
    const uint64_t i = at / lanes;
    const uint64_t row = rows == nullptr ? first + i : rows[first + i];
    return ReadLane<kAlignment>(slot, row,
                                static_cast<uint32_t>(at - i * lanes));
  }
  // Returns what the lane adds to the digest.
  template <uint32_t kAlignment>
  CKPTDB_HOST_DEVICE uint64_t Write(uint64_t at, const Lane& value) const {
    batch[at] = value;
    return MixLane(at, value);
  }
  template <uint32_t kAlignment>
  CKPTDB_HOST_DEVICE uint64_t Run(uint64_t at) const {
    return Write<kAlignment>(at, Read<kAlignment>(at));
  }
};

// Copies the rows of a batch to their rows in a slot, or fills those with
// zeros, and adds up the batch's digest.
struct ScatterRowsOfSlot {
  SlotView batch;  // adjacent rows; if data is null, zeros
  SlotView slot;
  const uint32_t* rows = nullptr;  // null: the rows from `first` on
  uint64_t first = 0;
  uint64_t count = 0;
  uint64_t* digest = nullptr;  // the sum is added to it; null: no digest

  CKPTDB_HOST_DEVICE uint64_t Lanes() const {
    return count * LanesOf(slot.row_bytes);
  }

  template <uint32_t kAlignment>
  CKPTDB_HOST_DEVICE Lane Read(uint64_t at) const {
    if (batch.data == nullptr) return {};
    const uint32_t lanes = LanesOf(slot.row_bytes);
    const uint64_t i = at / lanes;
    return ReadLane<kAlignment>(batch, i,
                                static_cast<uint32_t>(at - i * lanes));
  }
  // Returns what the lane adds to the digest.
  template <uint32_t kAlignment>
  CKPTDB_HOST_DEVICE uint64_t Write(uint64_t at, const Lane& value) const {
    const uint32_t lanes = LanesOf(slot.row_bytes);
    const uint64_t i = at / lanes;
    const uint64_t row = rows == nullptr ? first + i : rows[i];
    WriteLane<kAlignment>(slot, row, static_cast<uint32_t>(at - i * lanes),
                          value);
    return MixLane(at, value);
  }
  template <uint32_t kAlignment>
  CKPTDB_HOST_DEVICE uint64_t Run(uint64_t at) const {
    return Write<kAlignment>(at, Read<kAlignment>(at));
  }
};

// Returns the alignment of the copies between a batch and a slot.
inline uint32_t AlignmentOf(const SlotView& one, const SlotView& other) {
  const uint32_t a = AlignmentOf(one);
  const uint32_t b = AlignmentOf(other);
  return a < b ? a : b;
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_ROWS_ROW_OPERATIONS_H_
