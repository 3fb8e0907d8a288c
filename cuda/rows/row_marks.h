// SPDX-License-Identifier: Apache-2.0
// Marks of changed rows, one bit per row: setting a mark, taking the marks of
// an interval, and turning a set into a list of rows; internal to cuda/.
// Kernels call these functions with one thread per mark or word.
#ifndef CKPTDB_CUDA_ROWS_ROW_MARKS_H_
#define CKPTDB_CUDA_ROWS_ROW_MARKS_H_

#include <cstdint>

#include "cuda/rows/host_device.h"

namespace ckptdb::internal {

inline constexpr uint32_t kMarkWordBits = 32;
// Row numbers have 32 bits. The highest one is not used, so that a count fits
// in 32 bits too.
inline constexpr uint64_t kMaxDeviceRows = (uint64_t{1} << 32) - 1;

CKPTDB_HOST_DEVICE constexpr uint64_t MarkWords(uint64_t rows) {
  return (rows + kMarkWordBits - 1) / kMarkWordBits;
}

// Errors in marks since the report was last read.
struct MarkReport {
  uint64_t out_of_range = 0;  // the number of such marks
  uint64_t example = 0;       // one of them: a row number, as uint64_t(int64_t)
};

// The marks of a table, in MarkWords(rows) words.
struct MarkWordsView {
  uint32_t* words = nullptr;
  uint64_t rows = 0;
};

// Sets the mark of a row. Most rows of a batch are marked already, and a read
// is cheaper than an atomic operation. A number that is not a row is only
// reported.
CKPTDB_HOST_DEVICE inline void SetMark(const MarkWordsView& marks, int64_t row,
                                       MarkReport* report) {
  const auto at = static_cast<uint64_t>(row);
  if (at >= marks.rows) {
    AtomicAdd(&report->out_of_range, 1);
    AtomicStore(&report->example, at);
    return;
  }
  uint32_t* const word = marks.words + at / kMarkWordBits;
  const uint32_t bit = uint32_t{1} << at % kMarkWordBits;
  if ((AtomicLoad(word) & bit) == 0) AtomicOr(word, bit);
}

// The ids of a table's rows. Rows whose id is `free_id` are empty.
struct RowIdsView {
  const int64_t* ids = nullptr;  // null: no row is empty
  int64_t free_id = 0;
};

// Returns the bits of a word whose rows are not empty.
CKPTDB_HOST_DEVICE inline uint32_t LiveBits(const RowIdsView& ids,
                                            uint64_t word_number,
                                            uint32_t word) {
  if (ids.ids == nullptr) return word;
  uint32_t live = 0;
  for (uint32_t left = word; left != 0; left &= left - 1) {
    const uint32_t bit = LowestBit(left);
    if (ids.ids[word_number * kMarkWordBits + bit] != ids.free_id) {
      live |= uint32_t{1} << bit;
    }
  }
  return live;
}

// Returns the word of a set that contains all of a table's `rows` rows.
CKPTDB_HOST_DEVICE inline uint32_t FullWord(uint64_t rows,
                                            uint64_t word_number) {
  const uint64_t first = word_number * kMarkWordBits;
  if (first + kMarkWordBits <= rows) return ~uint32_t{0};
  return first >= rows ? 0
                       : (uint32_t{1} << (rows - first) % kMarkWordBits) - 1;
}

// Takes a word of the marks, which is then 0. A concurrent mark is in the
// returned word or is left for the next call.
CKPTDB_HOST_DEVICE inline uint32_t TakeMarkWord(uint32_t* word) {
  // Most words have no mark, and an exchange would write to all.
  return AtomicLoad(word) == 0 ? 0 : AtomicExchange(word, 0);
}

// Returns a taken word to the marks.
CKPTDB_HOST_DEVICE inline void ReturnMarkWord(uint32_t* word, uint32_t taken) {
  if (taken != 0) AtomicOr(word, taken);
}

// Writes the rows of a word to `rows`, in ascending order, and returns their
// number.
CKPTDB_HOST_DEVICE inline uint32_t ExpandWord(uint64_t word_number,
                                              uint32_t word, uint32_t* rows) {
  uint32_t count = 0;
  for (uint32_t left = word; left != 0; left &= left - 1) {
    rows[count++] =
        static_cast<uint32_t>(word_number * kMarkWordBits + LowestBit(left));
  }
  return count;
}

// Three kernels turn a set into a list: one counts the rows of each tile of
// words, one adds up the counts, and one writes each tile where the tile before
// it ends. So the list is in ascending order, whichever tile runs first.
inline constexpr uint32_t kTileWords = 1024;

CKPTDB_HOST_DEVICE constexpr uint64_t MarkTiles(uint64_t rows) {
  return (MarkWords(rows) + kTileWords - 1) / kTileWords;
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_ROWS_ROW_MARKS_H_
