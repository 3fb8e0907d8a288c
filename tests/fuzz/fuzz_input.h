// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets: taking numbers from the front of an input, and
// the check that stops a run.
#ifndef CKPTDB_TESTS_FUZZ_FUZZ_INPUT_H_
#define CKPTDB_TESTS_FUZZ_FUZZ_INPUT_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace ckptdb::testing {

inline void Require(bool condition) {
  if (!condition) __builtin_trap();
}

// Returns 0 if nothing is left.
inline uint8_t TakeByte(absl::string_view* input) {
  if (input->empty()) return 0;
  const auto byte = static_cast<uint8_t>(input->front());
  input->remove_prefix(1);
  return byte;
}

}  // namespace ckptdb::testing

// A target that runs `check` on each input.
#define CKPTDB_FUZZ(check)                                                   \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) { \
    check(absl::string_view(reinterpret_cast<const char*>(bytes), size));    \
    return 0;                                                                \
  }

#endif  // CKPTDB_TESTS_FUZZ_FUZZ_INPUT_H_
