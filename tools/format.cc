#include "ckptdb/tools/format.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace ckptdb::tool {
namespace {

constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB",
                                               "TiB", "PiB", "EiB"};

struct Utf8Lead {
  size_t bytes;
  uint32_t bits;
  uint32_t smallest;  // what needs as many bytes
};

Utf8Lead DecodeLead(unsigned char lead) {
  if (lead < 0x80) return {1, lead, 0};
  if ((lead & 0xe0) == 0xc0) return {2, lead & 0x1fu, 0x80};
  if ((lead & 0xf0) == 0xe0) return {3, lead & 0x0fu, 0x800};
  if ((lead & 0xf8) == 0xf0) return {4, lead & 0x07u, 0x10000};
  return {0, 0, 0};
}

// How many bytes the code point at the start of `text` takes; 0 when they are
// not UTF-8.
size_t DecodeUtf8(absl::string_view text, uint32_t* code_point) {
  const Utf8Lead lead = DecodeLead(static_cast<unsigned char>(text[0]));
  if (lead.bytes == 0 || lead.bytes > text.size()) return 0;
  *code_point = lead.bits;
  for (size_t i = 1; i < lead.bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) != 0x80) return 0;
    *code_point = (*code_point << 6) | (byte & 0x3fu);
  }
  const bool surrogate = 0xd800 <= *code_point && *code_point < 0xe000;
  if (*code_point < lead.smallest || *code_point > 0x10ffff || surrogate) {
    return 0;
  }
  return lead.bytes;
}

// Control characters, those of U+0080 to U+009F too, and those that change the
// direction or the lines of what follows.
bool Steers(uint32_t code_point) {
  return code_point < 0x20 || (0x7f <= code_point && code_point < 0xa0) ||
         (0x2028 <= code_point && code_point <= 0x202e) ||
         (0x2066 <= code_point && code_point <= 0x2069);
}

void AppendEscaped(absl::string_view bytes, std::string* out) {
  if (bytes == "\n") {
    out->append("\\n");
  } else if (bytes == "\t") {
    out->append("\\t");
  } else {
    for (char c : bytes) {
      absl::StrAppendFormat(out, "\\x%02x", static_cast<unsigned char>(c));
    }
  }
}

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
  if (value < 999.95e3) return absl::StrFormat("%.1f ms", value / 1e3);
  if (value < 119.95e6) return absl::StrFormat("%.1f s", value / 1e6);
  return absl::StrFormat("%.1f min", value / 60e6);
}

std::string FormatAge(int64_t then_micros, int64_t now_micros) {
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

std::string Printable(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    uint32_t code_point = 0;
    const size_t bytes = DecodeUtf8(text, &code_point);
    const absl::string_view head = text.substr(0, std::max<size_t>(bytes, 1));
    if (bytes == 0 || Steers(code_point)) {
      AppendEscaped(head, &out);
    } else {
      absl::StrAppend(&out, head == "\\" ? "\\\\" : head);
    }
    text.remove_prefix(head.size());
  }
  return out;
}

size_t DisplayWidth(absl::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(),
      [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace ckptdb::tool
