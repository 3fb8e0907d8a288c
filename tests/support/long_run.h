// SPDX-License-Identifier: Apache-2.0
// How many of its cases a long loop runs: all if CKPTDB_LONG is set in the
// environment; otherwise every n-th, from one chosen by the seed. The cases of
// such a loop run the same code at different moments, so repeated runs cover
// what a single run misses.
#ifndef CKPTDB_TESTS_SUPPORT_LONG_RUN_H_
#define CKPTDB_TESTS_SUPPORT_LONG_RUN_H_

#include <cstdint>
#include <cstdlib>

#include "tests/support/seed.h"

namespace ckptdb::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline bool IsLongRun() { return std::getenv("CKPTDB_LONG") != nullptr; }

// A prime, so that no variant of the cases is always skipped.
inline uint64_t Stride() {
  constexpr uint64_t kShort = 17;
  constexpr uint64_t kShortSanitized = 71;  // sanitizers are slower
  if (IsLongRun()) return 1;
  return kSanitized ? kShortSanitized : kShort;
}

// The first case of a loop that runs every `stride`-th. An interrupted long run
// can continue at case CKPTDB_FIRST_CASE.
inline uint64_t FirstCase(uint64_t stride) {
  if (stride > 1) return TestSeed() % stride;
  const char* const first = std::getenv("CKPTDB_FIRST_CASE");
  return first == nullptr ? 0 : std::strtoull(first, nullptr, 10);
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_LONG_RUN_H_
