// SPDX-License-Identifier: Apache-2.0
#include "remote/layout/object_keys.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr size_t kCatalogDigits = 20;
constexpr size_t kEpochDigits = 16;
constexpr size_t kStepDigits = 19;
constexpr size_t kAttemptDigits = 10;
constexpr size_t kNumberDigits = 6;
constexpr uint64_t kLast = std::numeric_limits<uint64_t>::max();

std::string Padded(uint64_t number, size_t digits) {
  const std::string text = absl::StrCat(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

std::string NameOf(absl::string_view prefix, const ObjectName& name) {
  return absl::StrCat(
      prefix, Padded(name.epoch, kEpochDigits), "/",
      Padded(static_cast<uint64_t>(name.version.step), kStepDigits), "-",
      Padded(name.version.attempt, kAttemptDigits), "-",
      Padded(name.number, kNumberDigits));
}

template <typename Number>
bool ParseDigits(absl::string_view text, size_t digits, Number* number) {
  return text.size() >= digits &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, number);
}

absl::Status NotOurs(absl::string_view key) {
  return absl::DataLossError(
      absl::StrCat("\"", key,
                   "\" is not a key that ckptdb writes; delete that object, or "
                   "use another URL"));
}

absl::StatusOr<ObjectName> ParseName(absl::string_view prefix,
                                     absl::string_view key) {
  absl::string_view rest = key;
  const std::vector<absl::string_view> parts =
      absl::ConsumePrefix(&rest, prefix)
          ? absl::StrSplit(rest, absl::ByAnyChar("/-"))
          : std::vector<absl::string_view>();
  ObjectName name;
  if (parts.size() == 4 && ParseDigits(parts[0], kEpochDigits, &name.epoch) &&
      ParseDigits(parts[1], kStepDigits, &name.version.step) &&
      ParseDigits(parts[2], kAttemptDigits, &name.version.attempt) &&
      ParseDigits(parts[3], kNumberDigits, &name.number) &&
      NameOf(prefix, name) == key) {
    return name;
  }
  return NotOurs(key);
}

}  // namespace

std::string CatalogKey(uint64_t number) {
  return absl::StrCat(kCatalogPrefix, Padded(kLast - number, kCatalogDigits));
}

absl::StatusOr<uint64_t> ParseCatalogKey(absl::string_view key) {
  absl::string_view rest = key;
  uint64_t left = 0;
  if (absl::ConsumePrefix(&rest, kCatalogPrefix) &&
      ParseDigits(rest, kCatalogDigits, &left) &&
      CatalogKey(kLast - left) == key && left < kLast) {
    return kLast - left;
  }
  return NotOurs(key);
}

bool IsProbeKey(absl::string_view key) {
  constexpr size_t kUuidBytes = 36;
  constexpr size_t kMostBytes = kUuidBytes + 2;
  if (!absl::ConsumePrefix(&key, kProbePrefix)) return false;
  const absl::string_view uuid = key.substr(0, kUuidBytes);
  return uuid.size() == kUuidBytes && key.size() <= kMostBytes &&
         std::all_of(
             uuid.begin(), uuid.end(),
             [](char c) { return absl::ascii_isxdigit(c) || c == '-'; }) &&
         !absl::StrContains(key, '/');
}

std::string VersionObjectKey(const ObjectName& name) {
  return NameOf(kVersionsPrefix, name);
}

std::string DataObjectKey(const ObjectName& name) {
  return NameOf(kDataPrefix, name);
}

absl::StatusOr<ObjectName> ParseVersionObjectKey(absl::string_view key) {
  return ParseName(kVersionsPrefix, key);
}

absl::StatusOr<ObjectName> ParseDataObjectKey(absl::string_view key) {
  return ParseName(kDataPrefix, key);
}

}  // namespace ckptdb::internal
