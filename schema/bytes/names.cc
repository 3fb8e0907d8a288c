// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/names.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "schema/types.h"

namespace ckptdb {
namespace {

// Returns the length of the well-formed UTF-8 sequence at `at`, or 0 if it is
// ill-formed (Unicode 15, table 3-7).
size_t SequenceBytes(absl::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<uint8_t>(text[at + i])
                                : uint8_t{0};
  };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const uint8_t low = lead == 0xE0 ? 0xA0 : 0x80;
    const uint8_t high = lead == 0xED ? 0x9F : 0xBF;
    return byte(1) >= low && byte(1) <= high && tail(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const uint8_t low = lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xF4 ? 0x8F : 0xBF;
    return byte(1) >= low && byte(1) <= high && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

// A rejected name may have any content and length, so it is escaped and
// truncated.
absl::Status Bad(absl::string_view what, absl::string_view name,
                 absl::string_view why) {
  constexpr size_t kShown = 64;
  return absl::InvalidArgumentError(
      absl::StrCat(what, " \"", absl::CHexEscape(name.substr(0, kShown)),
                   name.size() > kShown ? "..." : "", "\" ", why));
}

}  // namespace

absl::Status CheckName(absl::string_view what, absl::string_view name) {
  if (name.empty()) return Bad(what, name, "is empty");
  if (name.size() > kMaxNameBytes) {
    return Bad(what, name,
               absl::StrCat("has ", name.size(), " bytes; the limit is ",
                            kMaxNameBytes));
  }
  for (size_t at = 0; at < name.size();) {
    // A NUL terminates the name in a key.
    if (name[at] == '\0') {
      return Bad(what, name, absl::StrCat("has a NUL at byte ", at));
    }
    const size_t bytes = SequenceBytes(name, at);
    if (bytes == 0) {
      return Bad(what, name, absl::StrCat("is not UTF-8 at byte ", at));
    }
    at += bytes;
  }
  return absl::OkStatus();
}

}  // namespace ckptdb
