// SPDX-License-Identifier: Apache-2.0
#include "db/quirks/file_names.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ckptdb::internal {
namespace {

// The names of line 1 of docs/rocksdb.md.
constexpr absl::string_view kTableSuffix = ".sst";
constexpr absl::string_view kLevelDbTableSuffix = ".ldb";
constexpr absl::string_view kLogSuffix = ".log";
constexpr absl::string_view kTemporarySuffix = ".dbtmp";
constexpr absl::string_view kManifestPrefix = "MANIFEST-";
constexpr absl::string_view kOptionsPrefix = "OPTIONS-";

bool IsNumber(absl::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

}  // namespace

absl::string_view FileName(absl::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool IsTable(absl::string_view path) {
  return absl::EndsWith(path, kTableSuffix);
}

bool IsLog(absl::string_view path) { return absl::EndsWith(path, kLogSuffix); }

std::optional<uint64_t> ManifestNumber(absl::string_view name) {
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&name, kManifestPrefix)) return std::nullopt;
  if (!absl::SimpleAtoi(name, &number)) return std::nullopt;
  return number;
}

std::optional<std::string> TableOfLevelDbName(absl::string_view path) {
  if (!absl::ConsumeSuffix(&path, kLevelDbTableSuffix)) return std::nullopt;
  return absl::StrCat(path, kTableSuffix);
}

// RocksDB reads these files whole into memory, so their size must be checked in
// advance.
bool IsReadWhole(absl::string_view name) {
  return name == "CURRENT" || name == "IDENTITY";
}

bool IsDatabaseFile(absl::string_view name) {
  if (IsReadWhole(name) || name == "LOCK" || name == "LOG" ||
      name == "LOG.old" || absl::StartsWith(name, "LOG.old.")) {
    return true;
  }
  if (absl::ConsumePrefix(&name, kManifestPrefix)) return IsNumber(name);
  if (absl::ConsumePrefix(&name, kOptionsPrefix)) {
    absl::ConsumeSuffix(&name, kTemporarySuffix);
    return IsNumber(name);
  }
  for (const absl::string_view suffix :
       {kTableSuffix, kLogSuffix, kTemporarySuffix}) {
    if (absl::ConsumeSuffix(&name, suffix)) return IsNumber(name);
  }
  return false;
}

// RocksDB removes its other temporary files when it opens (line 7 of
// docs/rocksdb.md).
bool IsUnfinishedOptions(absl::string_view name) {
  return absl::ConsumePrefix(&name, kOptionsPrefix) &&
         absl::ConsumeSuffix(&name, kTemporarySuffix) &&
         std::all_of(name.begin(), name.end(), absl::ascii_isdigit);
}

}  // namespace ckptdb::internal
