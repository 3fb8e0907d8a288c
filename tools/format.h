// SPDX-License-Identifier: Apache-2.0
// Formats sizes, times and hashes for people.
#ifndef CKPTDB_TOOLS_FORMAT_H_
#define CKPTDB_TOOLS_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "schema/types.h"

namespace ckptdb::tool {

// Returns "0 B", "1023 B", "1.0 KiB", "4.2 GiB".
std::string FormatBytes(uint64_t bytes);

// Returns "8,000,000".
std::string FormatCount(uint64_t count);

// Formats microseconds since 1970 in UTC as "2026-11-20 18:26:38".
std::string FormatUtc(int64_t micros);

// Formats microseconds since 1970 in UTC as "2026-11-20T18:26:38.123456Z".
std::string FormatIsoUtc(int64_t micros);

// Returns "250 us", "1.5 ms", "12.3 s", "5.0 min".
std::string FormatDuration(int64_t micros);

// Returns how long ago `then` was: "5 s", "3 min", "7 h", "12 d"; "0 s" for a
// time in the future.
std::string FormatAge(int64_t then_micros, int64_t now_micros);

// Returns "0123456789abcdef".
std::string FormatHash(uint64_t hash);

// Returns the width of a valid UTF-8 text: its number of code points.
size_t DisplayWidth(absl::string_view text);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FORMAT_H_
