// SPDX-License-Identifier: Apache-2.0
// The raw limit of the machine: the same bytes, written and synced or read,
// with nothing around them.
#ifndef CKPTDB_BENCH_RAW_IO_H_
#define CKPTDB_BENCH_RAW_IO_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace ckptdb::bench {

// Memory that starts at a multiple of kAlignBytes and may be read and written
// up to the next one after its end.
struct Memory {
  char* data = nullptr;
  size_t bytes = 0;
};
inline constexpr size_t kAlignBytes = 4096;

// One write or read call moves this much.
inline constexpr size_t kPieceBytes = size_t{4} << 20;

struct RawVariant {
  bool direct = false;  // around the page cache
  int threads = 2;

  // "direct x 4"
  std::string Name() const;
};

// Returns buffered and direct variants, with 2 and with 4 threads, and only
// buffered ones if the file system of `folder` has no direct I/O.
std::vector<RawVariant> RawVariants(const std::string& folder);

// Writes `payload` to new files in `folder`, one a thread; syncs each, then
// the folder. A last page of each Memory is written whole.
absl::Status RawWrite(const std::string& folder,
                      absl::Span<const Memory> payload,
                      const RawVariant& variant);

// Reads into `payload` what RawWrite wrote with `files` threads.
absl::Status RawRead(const std::string& folder,
                     absl::Span<const Memory> payload, int files,
                     const RawVariant& variant);

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_RAW_IO_H_
