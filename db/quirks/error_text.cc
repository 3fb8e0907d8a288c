// SPDX-License-Identifier: Apache-2.0
#include "db/quirks/error_text.h"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace ckptdb::internal {
namespace {

// "table file 12" becomes "table file 000012.sst".
void NameTable(std::string* text) {
  constexpr absl::string_view kByNumber = "table file ";
  const size_t number = absl::string_view(*text).find(kByNumber);
  if (number == text->npos) return;
  const size_t begin = number + kByNumber.size();
  const size_t end = text->find_first_not_of("0123456789", begin);
  const std::string digits = text->substr(begin, end - begin);
  uint64_t table = 0;
  if (!absl::SimpleAtoi(digits, &table)) return;
  text->replace(begin, digits.size(), absl::StrFormat("%06d.sst", table));
}

// Drops " in file /db/MANIFEST-000004", or in RocksDB 9 "  The file
// /db/MANIFEST-000004 may be corrupted.", after the name of a table.
void DropBlame(std::string* text) {
  for (const absl::string_view phrase : {" in file ", "  The file "}) {
    const size_t blamed = absl::string_view(*text).rfind(phrase);
    if (blamed != text->npos &&
        text->find("/MANIFEST-", blamed) != text->npos &&
        text->find(".sst") < blamed) {
      text->resize(blamed);
    }
  }
}

}  // namespace

// RocksDB keeps only the words of an errno (line 2 of docs/rocksdb.md). The
// comparison ignores case.
bool IsErrno(const rocksdb::Status& status, int error) {
  return absl::StrContains(absl::AsciiStrToLower(status.ToString()),
                           absl::AsciiStrToLower(std::strerror(error)));
}

std::string TextWithTableNames(const rocksdb::Status& status) {
  std::string text = status.ToString();
  NameTable(&text);
  DropBlame(&text);
  return text;
}

// The texts below are those of lines 5 and 6 of docs/rocksdb.md.
bool IsMissingFamily(absl::string_view text) {
  return absl::StrContains(text, "Column family not found");
}

bool IsInaccessibleFile(absl::string_view text) {
  return absl::StrContains(text, "Can't access") &&
         absl::StrContains(text, "IO error") &&
         !absl::StrContains(text, "No such file");
}

bool IsStaleHandle(absl::string_view text) {
  return absl::StrContains(text, std::strerror(ESTALE));
}

bool IsMissingLog(absl::string_view text) {
  return absl::StrContains(text, ".log") &&
         absl::StrContains(text, std::strerror(ENOENT));
}

}  // namespace ckptdb::internal
