// SPDX-License-Identifier: Apache-2.0
#include "db/base/uuid.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ckptdb::internal {

namespace {

// The variant of UUIDs with a version: its first bits are 10.
constexpr absl::string_view kVariants = "89ab";

// The system's source of randomness, because forked or cloned processes must
// not generate the same uuid.
std::string RandomDigits() {
  std::random_device random;
  std::array<uint32_t, 4> words{};
  for (uint32_t& word : words) word = random();
  std::string hex;
  for (const uint32_t word : words) {
    absl::StrAppend(&hex, absl::Hex(word, absl::kZeroPad8));
  }
  return hex;
}

std::string WithDashes(absl::string_view hex) {
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-",
                      hex.substr(12, 4), "-", hex.substr(16, 4), "-",
                      hex.substr(20));
}

}  // namespace

std::string NewUuid() { return WithDashes(RandomDigits()); }

std::string NewTimeUuid(int64_t micros) {
  constexpr uint64_t kMillisMask = (uint64_t{1} << 48) - 1;
  constexpr size_t kVariant = 16;  // among the digits
  const uint64_t time = static_cast<uint64_t>(std::max<int64_t>(micros, 0));
  std::string hex = RandomDigits();
  const std::string millis =
      absl::StrCat(absl::Hex((time / 1000) & kMillisMask, absl::kZeroPad12));
  const std::string rest =
      absl::StrCat(absl::Hex(time % 1000, absl::kZeroPad3));
  hex.replace(0, kVariant, absl::StrCat(millis, "7", rest));
  const auto random = static_cast<unsigned char>(hex[kVariant]);
  hex[kVariant] = kVariants[random % kVariants.size()];
  return WithDashes(hex);
}

bool IsTimeUuid(absl::string_view uuid) {
  constexpr size_t kVersion = 14;  // among the characters
  constexpr size_t kVariant = 19;
  return uuid.size() > kVariant && uuid[kVersion] == '7' &&
         absl::StrContains(kVariants, uuid[kVariant]);
}

}  // namespace ckptdb::internal
