#include "ckptdb/db/base/uuid.h"

#include <array>
#include <cstdint>
#include <random>

#include "absl/strings/str_cat.h"

namespace ckptdb::internal {

std::string NewUuid() {
  // The system's source of randomness, as processes that were forked or cloned
  // must not make the same uuid.
  std::random_device random;
  std::array<uint32_t, 4> words{};
  for (uint32_t& word : words) word = random();
  std::string hex;
  for (const uint32_t word : words) {
    absl::StrAppend(&hex, absl::Hex(word, absl::kZeroPad8));
  }
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-",
                      hex.substr(12, 4), "-", hex.substr(16, 4), "-",
                      hex.substr(20));
}

}  // namespace ckptdb::internal
