// SPDX-License-Identifier: Apache-2.0
#include "tools/format.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace ckptdb::tool {
namespace {

constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB",
                                               "TiB", "PiB", "EiB"};

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would be printed as 1024.0.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string FormatCount(uint64_t count) {
  std::string text = absl::StrCat(count);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

std::string FormatUtc(int64_t micros) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMicros(micros),
                          absl::UTCTimeZone());
}

std::string FormatIsoUtc(int64_t micros) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromUnixMicros(micros),
                          absl::UTCTimeZone());
}

std::string FormatDuration(int64_t micros) {
  const auto value = static_cast<double>(micros);
  if (micros < 1000) return absl::StrCat(micros, " us");
  // The bound prevents rounding up to 1000.0 ms.
  if (value < 999.95e3) return absl::StrFormat("%.1f ms", value / 1e3);
  if (value < 119.95e6) return absl::StrFormat("%.1f s", value / 1e6);
  return absl::StrFormat("%.1f min", value / 60e6);
}

std::string FormatAge(int64_t then_micros, int64_t now_micros) {
  // The other host's clock may be ahead. The subtraction below is unsigned, so
  // it cannot overflow.
  if (now_micros <= then_micros) return "0 s";
  const uint64_t seconds =
      (static_cast<uint64_t>(now_micros) - static_cast<uint64_t>(then_micros)) /
      1'000'000;
  if (seconds < 120) return absl::StrCat(seconds, " s");
  if (seconds < 120 * 60) return absl::StrCat(seconds / 60, " min");
  if (seconds < 48 * 3600) return absl::StrCat(seconds / 3600, " h");
  return absl::StrCat(seconds / 86400, " d");
}

std::string FormatHash(uint64_t hash) { return absl::StrFormat("%016x", hash); }

// Counts UTF-8 characters: all bytes except continuation bytes.
size_t DisplayWidth(absl::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(),
      [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace ckptdb::tool
