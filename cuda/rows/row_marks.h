// Marks of changed rows, one bit a row: how one is set, how the marks of an
// interval are taken, and how a set turns into a list of rows; internal to
// cuda/. A kernel calls these functions, one thread a mark or a word.
#ifndef CKPTDB_CUDA_ROWS_ROW_MARKS_H_
#define CKPTDB_CUDA_ROWS_ROW_MARKS_H_

#include <cstdint>

#include "cuda/rows/host_device.h"

namespace ckptdb::internal {

inline constexpr uint32_t kMarkWordBits = 32;
// A row number has 32 bits. The last one is left out, so that a count has, too.
inline constexpr uint64_t kMaxDeviceRows = (uint64_t{1} << 32) - 1;

CKPTDB_HOST_DEVICE constexpr uint64_t MarkWords(uint64_t rows) {
  return (rows + kMarkWordBits - 1) / kMarkWordBits;
}

// What was wrong with marks since it was last read.
struct MarkReport {
  uint64_t out_of_range = 0;  // how many
  uint64_t example = 0;       // one of them: a row number, as uint64_t(int64_t)
};

// The marks of a table. It has MarkWords(rows) words.
struct MarkWordsView {
  uint32_t* words = nullptr;
  uint64_t rows = 0;
};

// Sets the mark of a row. Most rows of a batch are marked already, and a read
// is cheaper than an atomic operation. A number that is no row writes nothing
// but the report.
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

// The ids of the rows of a table. Rows whose id is `free_id` hold nothing.
struct RowIdsView {
  const int64_t* ids = nullptr;  // null: all rows hold something
  int64_t free_id = 0;
};

// Returns the bits of a word whose rows hold something.
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

// Returns the word of a set of all rows of a table of `rows`.
CKPTDB_HOST_DEVICE inline uint32_t FullWord(uint64_t rows,
                                            uint64_t word_number) {
  const uint64_t first = word_number * kMarkWordBits;
  if (first + kMarkWordBits <= rows) return ~uint32_t{0};
  return first >= rows ? 0
                       : (uint32_t{1} << (rows - first) % kMarkWordBits) - 1;
}

// Takes a word of the marks: it is 0 then, and marks that are made meanwhile
// are in this word or in the next one.
CKPTDB_HOST_DEVICE inline uint32_t TakeMarkWord(uint32_t* word) {
  // Most words have no mark, and an exchange writes.
  return AtomicLoad(word) == 0 ? 0 : AtomicExchange(word, 0);
}

// Gives back a word that was taken.
CKPTDB_HOST_DEVICE inline void ReturnMarkWord(uint32_t* word, uint32_t taken) {
  if (taken != 0) AtomicOr(word, taken);
}

// Writes the rows of a word to `rows`, in ascending order, and returns how many
// there are.
CKPTDB_HOST_DEVICE inline uint32_t ExpandWord(uint64_t word_number,
                                              uint32_t word, uint32_t* rows) {
  uint32_t count = 0;
  for (uint32_t left = word; left != 0; left &= left - 1) {
    rows[count++] =
        static_cast<uint32_t>(word_number * kMarkWordBits + LowestBit(left));
  }
  return count;
}

// A set is made a list in three kernels: the rows of each tile of words are
// counted, the counts are added up, and each tile is written where those before
// it end. So the list is in ascending order, whichever tile runs first.
inline constexpr uint32_t kTileWords = 1024;

CKPTDB_HOST_DEVICE constexpr uint64_t MarkTiles(uint64_t rows) {
  return (MarkWords(rows) + kTileWords - 1) / kTileWords;
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_ROWS_ROW_MARKS_H_
