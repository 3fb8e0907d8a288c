// SPDX-License-Identifier: Apache-2.0
#include "tools/files/file_name.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace ckptdb::tool {
namespace {

std::string Escape(absl::string_view name, bool keep_slashes) {
  std::string escaped;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool first = i == 0 || name[i - 1] == '/';
    const bool separates = keep_slashes && c == '/' && !first &&
                           i + 1 < name.size() && name[i + 1] != '/';
    const bool plain = !absl::ascii_iscntrl(static_cast<unsigned char>(c)) &&
                       c != '/' && c != '\\' && c != '%' &&
                       !(c == '.' && (i == 0 || (keep_slashes && first)));
    if (plain || separates) {
      escaped += c;
    } else {
      absl::StrAppend(&escaped, "%",
                      absl::AsciiStrToUpper(absl::StrCat(absl::Hex(
                          static_cast<uint8_t>(c), absl::kZeroPad2))));
    }
  }
  return escaped;
}

// Returns the value of a hexadecimal digit, or -1.
int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string EscapeFileName(absl::string_view name) {
  return Escape(name, /*keep_slashes=*/false);
}

std::string EscapeMemberName(absl::string_view name) {
  return Escape(name, /*keep_slashes=*/true);
}

std::string UnescapeName(absl::string_view file_name) {
  std::string name;
  for (size_t i = 0; i < file_name.size(); ++i) {
    const bool escape = file_name[i] == '%' && i + 2 < file_name.size() &&
                        HexValue(file_name[i + 1]) >= 0 &&
                        HexValue(file_name[i + 2]) >= 0;
    if (!escape) {
      name += file_name[i];
      continue;
    }
    name += static_cast<char>(HexValue(file_name[i + 1]) * 16 +
                              HexValue(file_name[i + 2]));
    i += 2;
  }
  // A name such as "50%2G" or "%41" was made by others.
  if (EscapeFileName(name) == file_name ||
      EscapeMemberName(name) == file_name) {
    return name;
  }
  return std::string(file_name);
}

}  // namespace ckptdb::tool
