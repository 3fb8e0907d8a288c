// SPDX-License-Identifier: Apache-2.0
#include "schema/types.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ckptdb {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

// The invisible code points of Unicode 15, sorted: the categories Cc, Cf, Zl
// and Zp, and the property Default_Ignorable_Code_Point.
constexpr std::array<Range, 27> kUnseen = {{
    {0x0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},
    {0x34f, 0x34f},     {0x600, 0x605},     {0x61c, 0x61c},
    {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},
    {0x8e2, 0x8e2},     {0x115f, 0x1160},   {0x17b4, 0x17b5},
    {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f},   {0x3164, 0x3164},   {0xfe00, 0xfe0f},
    {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb},
    {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f},
    {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
}};

bool IsUnseen(uint32_t code_point) {
  const auto* const range = std::lower_bound(
      kUnseen.begin(), kUnseen.end(), code_point,
      [](const Range& each, uint32_t point) { return each.last < point; });
  return range != kUnseen.end() && range->first <= code_point;
}

struct Utf8Lead {
  size_t bytes;
  uint32_t bits;
  uint32_t smallest;  // the smallest code point that needs as many bytes
};

Utf8Lead DecodeLead(unsigned char lead) {
  if (lead < 0x80) return {1, lead, 0};
  if ((lead & 0xe0) == 0xc0) return {2, lead & 0x1fu, 0x80};
  if ((lead & 0xf0) == 0xe0) return {3, lead & 0x0fu, 0x800};
  if ((lead & 0xf8) == 0xf0) return {4, lead & 0x07u, 0x10000};
  return {0, 0, 0};
}

// Returns the length of the code point at the start of `text`, or 0 if it is
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

// The caller doubles backslashes, so that escapes are unambiguous.
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

// JSON escapes code points as UTF-16.
void AppendJsonEscape(uint32_t code_point, std::string* out) {
  if (code_point < 0x10000) {
    absl::StrAppendFormat(out, "\\u%04x", code_point);
    return;
  }
  const uint32_t above = code_point - 0x10000;
  absl::StrAppendFormat(out, "\\u%04x\\u%04x", 0xd800 + (above >> 10),
                        0xdc00 + (above & 0x3ff));
}

}  // namespace

std::string Printable(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    uint32_t code_point = 0;
    const size_t bytes = DecodeUtf8(text, &code_point);
    const absl::string_view head = text.substr(0, std::max<size_t>(bytes, 1));
    // Bytes that are not UTF-8 are escaped one by one, because the length of a
    // code point is unknown.
    if (bytes == 0 || IsUnseen(code_point)) {
      AppendEscaped(head, &out);
    } else {
      absl::StrAppend(&out, head == "\\" ? "\\\\" : head);
    }
    text.remove_prefix(head.size());
  }
  return out;
}

// Line feeds between the document's values stay; those within values are
// already escaped.
std::string PrintableJson(absl::string_view json) {
  std::string out;
  while (!json.empty()) {
    uint32_t code_point = 0;
    const size_t bytes = DecodeUtf8(json, &code_point);
    const absl::string_view head = json.substr(0, std::max<size_t>(bytes, 1));
    // Below 0x7f, JSON escapes invisible characters, and its line feeds must
    // stay. Bytes that are not UTF-8 stay as well, because they have no code
    // point.
    if (bytes > 0 && code_point >= 0x7f && IsUnseen(code_point)) {
      AppendJsonEscape(code_point, &out);
    } else {
      absl::StrAppend(&out, head);
    }
    json.remove_prefix(head.size());
  }
  return out;
}

}  // namespace ckptdb
