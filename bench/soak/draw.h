// SPDX-License-Identifier: Apache-2.0
// Random numbers by counter: the same arguments, the same number, in whatever
// process and order they are drawn.
#ifndef CKPTDB_BENCH_SOAK_DRAW_H_
#define CKPTDB_BENCH_SOAK_DRAW_H_

#include <cstdint>

#include "schema/types.h"

namespace ckptdb::soak {

// The kinds of draws, so that no two draws are alike.
enum class DrawKind : uint64_t {
  // Drawn by Content.
  kPlace,
  kAbsent,
  kRow,
  kDense,
  kFrozen,
  kMetricValue,
  // Drawn by a session of the writer.
  kWorld,
  kSteps,
  kAsync,
  kPace,
  kReserve,
  kBackgroundFold,
  kFold,
  kEvaluate,
  // Drawn by the driver.
  kLife,
  kKill,
  kFill,
  kRoom,
  kFull,
  kCommand,
  kPause,
  kBetween,
};

inline uint64_t Draw(uint64_t seed, DrawKind kind, uint64_t a, uint64_t b = 0) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15;  // odd, of SplitMix64
  uint64_t drawn = MixId(seed + kStep);
  drawn = MixId(drawn + (static_cast<uint64_t>(kind) + 1) * kStep);
  drawn = MixId(drawn + (a + 1) * kStep);
  return MixId(drawn + (b + 1) * kStep);
}

// Returns `least` times 2 to the power of a number drawn from 0 to `doublings`:
// short and long spans are as likely.
inline uint64_t DrawSpan(uint64_t drawn, uint64_t least, uint64_t doublings) {
  const uint64_t low = least << drawn % doublings;
  return low + (drawn >> 32) % low;
}

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_DRAW_H_
