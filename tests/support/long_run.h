// How many of its cases a long loop takes: every one with CKPTDB_LONG set in
// the environment, else one in so many, from one that the seed chooses on. The
// cases of such a loop go through the same code at other moments, so that runs
// after one another find what one alone has not.
#ifndef CKPTDB_TESTS_SUPPORT_LONG_RUN_H_
#define CKPTDB_TESTS_SUPPORT_LONG_RUN_H_

#include <cstdint>
#include <cstdlib>

#include "ckptdb/tests/support/seed.h"

namespace ckptdb::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline bool IsLongRun() { return std::getenv("CKPTDB_LONG") != nullptr; }

// A prime, so that no variant of a loop's cases is always passed over.
inline uint64_t Stride() {
  constexpr uint64_t kShort = 17;
  constexpr uint64_t kShortSanitized = 71;  // all is slower
  if (IsLongRun()) return 1;
  return kSanitized ? kShortSanitized : kShort;
}

// The first case of a loop that takes one in `stride`. A long run that was
// interrupted goes on at the case CKPTDB_FIRST_CASE.
inline uint64_t FirstCase(uint64_t stride) {
  if (stride > 1) return TestSeed() % stride;
  const char* const first = std::getenv("CKPTDB_FIRST_CASE");
  return first == nullptr ? 0 : std::strtoull(first, nullptr, 10);
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_LONG_RUN_H_
