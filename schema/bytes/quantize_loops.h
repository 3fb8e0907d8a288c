// SPDX-License-Identifier: Apache-2.0
// The loops of the lossy codecs, compiled for several kinds of processors;
// internal to schema/. Numbers may be unaligned. The calling thread must round
// to nearest and must not flush subnormal numbers: see lossy.cc.
#ifndef CKPTDB_SCHEMA_BYTES_QUANTIZE_LOOPS_H_
#define CKPTDB_SCHEMA_BYTES_QUANTIZE_LOOPS_H_

#include <cstdint>

#include "schema/bytes/quantize.h"

namespace ckptdb::internal {

// Statistics of the numbers that an encoder has seen. Magnitudes are the bits
// of nonnegative floats, which sort like the floats.
struct Bf16Stats {
  uint32_t error = 0;      // the largest, of finite numbers
  uint32_t magnitude = 0;  // the largest finite one
  bool overflow = false;
  bool exact = true;  // decoding restores all bits
};

// Rows of int8 are encoded and decoded in groups, so that the divisions of
// several rows form vectors. A group has at most this many rows, and at most
// this many numbers unless it is one row.
inline constexpr uint64_t kInt8GroupRows = 32;
inline constexpr uint64_t kInt8GroupNumbers = 2048;

// Statistics of a group of rows. All but `verbatim` is set only if no row is
// verbatim.
struct Int8Stats {
  Int8Bounds bounds[kInt8GroupRows];
  bool verbatim;       // whether any row is verbatim
  bool exact;          // decoding restores all bits
  uint32_t error;      // the largest, as in Bf16Stats
  double error_bound;  // the largest
};

// The loops for one kind of processor.
struct Loops {
  Bf16Stats (*encode_bf16)(const char* raw, uint64_t elements, char* halves);
  void (*decode_bf16)(const char* halves, uint64_t elements, char* raw);
  // Encodes the rows of a group; writes no codes if one of them is verbatim.
  void (*encode_int8)(const char* numbers, uint64_t row_elements, uint64_t rows,
                      char* codes, Int8Stats* found);
  // Decodes the rows of a group. Returns whether all bounds are valid; numbers
  // of a row with invalid bounds are meaningless.
  bool (*decode_int8)(const char* codes, uint64_t row_elements, uint64_t rows,
                      const Int8Bounds* bounds, char* numbers);
};

// Returns the loops for this processor.
const Loops& LoopsForThisCpu();

// Makes the calling thread use the loops for any processor, or again those for
// this one. Both give the same bytes; tests call this to check that.
void UsePlainLoops(bool plain);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_BYTES_QUANTIZE_LOOPS_H_
