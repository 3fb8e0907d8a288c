// The loops of the lossy codecs over many numbers, compiled for several kinds
// of processors; internal to schema/. Numbers need not be aligned. A thread
// that calls them rounds to the nearest number, and flushes none: see lossy.cc.
#ifndef CKPTDB_SCHEMA_BYTES_QUANTIZE_LOOPS_H_
#define CKPTDB_SCHEMA_BYTES_QUANTIZE_LOOPS_H_

#include <cstdint>

#include "ckptdb/schema/bytes/quantize.h"

namespace ckptdb::internal {

// What an encoder finds out about numbers besides. Magnitudes are the bits of
// floats that are not negative, which are ordered as the floats are.
struct Findings {
  uint32_t error = 0;      // the largest, of finite numbers
  uint32_t magnitude = 0;  // the largest finite one
  bool overflow = false;
  bool exact = true;  // all bits come back
};

// Rows of int8 are encoded and decoded in groups, as the divisions of several
// rows are vectors. A group has at most so many rows, and so many numbers
// unless it is one row.
inline constexpr uint64_t kInt8GroupRows = 32;
inline constexpr uint64_t kInt8GroupNumbers = 2048;

// What an encoder finds out about a group of rows. The rest is set when no row
// is verbatim.
struct Int8Found {
  Int8Bounds bounds[kInt8GroupRows];
  bool verbatim;       // a row is
  bool exact;          // all bits come back
  uint32_t error;      // the largest, as in Findings
  double error_bound;  // the largest
};

// The loops for one kind of processor.
struct Loops {
  Findings (*encode_bf16)(const char* raw, uint64_t elements, char* halves);
  void (*decode_bf16)(const char* halves, uint64_t elements, char* raw);
  // Encodes the rows of a group; writes no codes if one of them is verbatim.
  void (*encode_int8)(const char* numbers, uint64_t row_elements, uint64_t rows,
                      char* codes, Int8Found* found);
  // Decodes the rows of a group. Returns whether all bounds are valid; numbers
  // of a row whose bounds are not mean nothing.
  bool (*decode_int8)(const char* codes, uint64_t row_elements, uint64_t rows,
                      const Int8Bounds* bounds, char* numbers);
};

// Returns those for this processor.
const Loops& TheLoops();

// Makes the calling thread use the loops for any processor instead of those
// for this one, or again those for this one. Both give the same bytes, which
// tests show by this.
void UsePlainLoops(bool plain);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_BYTES_QUANTIZE_LOOPS_H_
