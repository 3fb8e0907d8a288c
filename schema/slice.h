// Slices, the unit of sharding: every id of a table falls into one of kSlices,
// and a rank owns a range of them.
#ifndef CKPTDB_SCHEMA_SLICE_H_
#define CKPTDB_SCHEMA_SLICE_H_

#include <cstdint>
#include <vector>

#include "ckptdb/schema/limits.h"

namespace ckptdb {

// How a table maps an id to its slice. kModulo is for ids that are hashes
// already, kMix for consecutive ids and for ids whose low bits vary little.
enum class SliceHash : uint8_t { kModulo = 0, kMix = 1 };

// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, 2014).
inline uint64_t MixId(uint64_t id) {
  id = (id ^ (id >> 30)) * 0xbf58476d1ce4e5b9;
  id = (id ^ (id >> 27)) * 0x94d049bb133111eb;
  return id ^ (id >> 31);
}

inline uint16_t SliceOf(int64_t id, SliceHash hash) {
  const auto bits = static_cast<uint64_t>(id);
  return static_cast<uint16_t>(hash == SliceHash::kModulo ? bits : MixId(bits));
}

// The slices [begin, end).
struct SliceRange {
  uint32_t begin = 0;
  uint32_t end = kSlices;

  bool Contains(uint32_t slice) const { return begin <= slice && slice < end; }
  bool operator==(const SliceRange&) const = default;
};

// Returns the world_size + 1 bounds that divide the slices evenly: rank r owns
// [bounds[r], bounds[r + 1]).
inline std::vector<uint32_t> EvenSliceBounds(uint32_t world_size) {
  std::vector<uint32_t> bounds(world_size + 1);
  for (uint64_t r = 0; r <= world_size; ++r) {
    bounds[r] = static_cast<uint32_t>(r * kSlices / world_size);
  }
  return bounds;
}

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_SLICE_H_
