// SPDX-License-Identifier: Apache-2.0
#include "tools/id_list.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schema/status.h"

namespace ckptdb::tool {
namespace {

// Words of an erroneous file may be long.
constexpr size_t kShownBytes = 64;

// "5", "5-9", "-5", "-5--2", "-5-2".
absl::StatusOr<IdList::Range> ParseIdRange(absl::string_view word) {
  // The first character may be a sign.
  const size_t dash = word.find('-', 1);
  const bool is_range = dash != absl::string_view::npos;
  IdList::Range range;
  const bool valid =
      ParseId(word.substr(0, dash), &range.first) &&
      (!is_range || ParseId(word.substr(dash + 1), &range.second));
  if (!valid) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid id or range \"", word.substr(0, kShownBytes),
                     "\"; expected ids from -2^63 to 2^64 - 1, as in 1,2,5-9"));
  }
  if (!is_range) range.second = range.first;
  if (range.first <= range.second) return range;
  return absl::InvalidArgumentError(absl::StrCat("invalid range \"", word,
                                                 "\": as int64, ", range.first,
                                                 " is after ", range.second));
}

// Sorts the ranges, and joins those that overlap or touch.
void JoinRanges(std::vector<IdList::Range>* ranges) {
  std::sort(ranges->begin(), ranges->end());
  size_t kept = 0;
  for (const IdList::Range& range : *ranges) {
    IdList::Range* const last = kept == 0 ? nullptr : &(*ranges)[kept - 1];
    // The last id has no successor.
    const bool touches = last != nullptr &&
                         (last->second == std::numeric_limits<int64_t>::max() ||
                          range.first <= last->second + 1);
    if (touches) {
      last->second = std::max(last->second, range.second);
    } else {
      (*ranges)[kept++] = range;
    }
  }
  ranges->resize(kept);
}

absl::StatusOr<std::string> ReadIdFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  std::array<char, 65536> part = {};
  while (file.read(part.data(), part.size()) || file.gcount() > 0) {
    bytes.append(part.data(), static_cast<size_t>(file.gcount()));
    if (bytes.size() > kMaxIdFileBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " has more than ", kMaxIdFileBytes, " bytes; use a filter"));
    }
  }
  if (file.is_open() && !file.bad()) return bytes;
  return absl::NotFoundError(
      absl::StrCat("\"", path,
                   "\" is neither a list of ids, such as 1,2,5-9, nor a "
                   "readable file"));
}

}  // namespace

// A trainer casts uint64 ids, such as hashes, to the store's int64, so an id
// above 2^63 - 1 denotes the negative id with the same bits.
bool ParseId(absl::string_view text, int64_t* id) {
  if (absl::SimpleAtoi(text, id)) return true;
  uint64_t bits = 0;
  if (!absl::SimpleAtoi(text, &bits)) return false;
  *id = static_cast<int64_t>(bits);
  return true;
}

absl::StatusOr<IdList> IdList::Parse(absl::string_view text) {
  IdList list;
  for (const absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(", \t\r\n"), absl::SkipEmpty())) {
    CKPTDB_ASSIGN_OR_RETURN(const Range range, ParseIdRange(word));
    if (list.ranges_.size() == kMaxIdRanges) {
      return absl::InvalidArgumentError(absl::StrCat(
          "more than ", kMaxIdRanges, " ids and ranges; use a filter"));
    }
    list.ranges_.push_back(range);
  }
  if (list.ranges_.empty()) {
    return absl::InvalidArgumentError("the list of ids is empty");
  }
  JoinRanges(&list.ranges_);
  return list;
}

absl::StatusOr<IdList> IdList::ParseOrRead(const std::string& text) {
  if (text.find_first_not_of("0123456789-, ") == std::string::npos) {
    return Parse(text);
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, ReadIdFile(text));
  auto list = Parse(bytes);
  if (list.ok()) return list;
  return absl::InvalidArgumentError(
      absl::StrCat(text, ": ", list.status().message()));
}

IdList IdList::Of(const std::vector<int64_t>& ids) {
  IdList list;
  for (const int64_t id : ids) list.ranges_.emplace_back(id, id);
  JoinRanges(&list.ranges_);
  return list;
}

bool IdList::Contains(int64_t id) const {
  // The first range that begins after the id.
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), id,
      [](int64_t other, const Range& range) { return other < range.first; });
  return after != ranges_.begin() && id <= std::prev(after)->second;
}

uint64_t IdList::count() const {
  uint64_t count = 0;
  for (const auto& [first, last] : ranges_) {
    const uint64_t beyond =
        static_cast<uint64_t>(last) - static_cast<uint64_t>(first);
    // One range may have all 2^64 ids.
    if (beyond == std::numeric_limits<uint64_t>::max()) return beyond;
    count += beyond + 1;
  }
  return count;
}

}  // namespace ckptdb::tool
