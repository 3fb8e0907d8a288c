// SPDX-License-Identifier: Apache-2.0
#include "schema/types.h"

#include <cstddef>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ckptdb {

#if defined(__SSE2__)
namespace {

constexpr uint64_t kLineBytes = 64;
// For smaller copies the unaligned head and tail take too large a share.
constexpr uint64_t kLeastBytes = 4096;

// Copies whole cache lines; `to` is aligned to one.
void StreamLines(char* to, const char* from, uint64_t lines) {
  for (uint64_t i = 0; i < lines; ++i) {
    const auto* const in = reinterpret_cast<const __m128i*>(from);
    auto* const out = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(in);
    const __m128i b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2);
    const __m128i d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
    from += kLineBytes;
    to += kLineBytes;
  }
  // Streaming stores are not ordered with other stores without a fence.
  _mm_sfence();
}

}  // namespace

void BulkCopy(void* to, const void* from, uint64_t bytes) {
  if (bytes < kLeastBytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return;
  }
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  // Streaming stores write whole lines of the target. The source may be
  // unaligned.
  const uint64_t head = -reinterpret_cast<uintptr_t>(out) % kLineBytes;
  std::memcpy(out, in, head);
  const uint64_t lines = (bytes - head) / kLineBytes;
  StreamLines(out + head, in + head, lines);
  const uint64_t done = head + lines * kLineBytes;
  std::memcpy(out + done, in + done, bytes - done);
}

#else

void BulkCopy(void* to, const void* from, uint64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

#endif

}  // namespace ckptdb
