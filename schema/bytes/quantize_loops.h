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

// The loops for one kind of processor.
struct Loops {
  Findings (*encode_bf16)(const char* raw, uint64_t elements, char* halves);
  void (*decode_bf16)(const char* halves, uint64_t elements, char* raw);
  Int8Bounds (*bounds)(const char* row, uint64_t elements);
  Findings (*encode_int8)(const char* row, uint64_t elements,
                          const Int8Scale& scale, char* codes);
  void (*decode_int8)(const char* codes, uint64_t elements,
                      const Int8Scale& scale, char* row);
};

// Returns those for this processor.
const Loops& TheLoops();

// Makes the calling thread use the loops for any processor instead of those
// for this one, or again those for this one. Both give the same bytes, which
// tests show by this.
void UsePlainLoops(bool plain);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_BYTES_QUANTIZE_LOOPS_H_
