// SPDX-License-Identifier: Apache-2.0
// The ids of --ids: "1,2,5-9", or a file with such lists.
//
//   CKPTDB_ASSIGN_OR_RETURN(const IdList ids, IdList::Parse("1,2,5-9"));
//   ids.Contains(7);  // true
//   ids.count();      // 7
#ifndef CKPTDB_TOOLS_ID_LIST_H_
#define CKPTDB_TOOLS_ID_LIST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::tool {

// Bounds the memory of a list, 16 bytes a range.
inline constexpr size_t kMaxIdRanges = size_t{1} << 24;
inline constexpr size_t kMaxIdFileBytes = size_t{256} << 20;

inline constexpr char kIdsHelp[] =
    "ids and ranges such as 1,2,5-9, or a file of them";

class IdList {
 public:
  // Parses ids and inclusive ranges, separated by commas or white space. An id
  // above 2^63 - 1 denotes the negative id with the same bits. Returns
  // InvalidArgument with the word that is no id or range.
  static absl::StatusOr<IdList> Parse(absl::string_view text);
  // Parses a list if `text` has only digits, "-", commas and spaces; otherwise
  // reads the file of this name. Returns NotFound if the file cannot be read.
  static absl::StatusOr<IdList> ParseOrRead(const std::string& text);

  // Holds these ids, in any order.
  static IdList Of(const std::vector<int64_t>& ids);

  bool Contains(int64_t id) const;
  // The number of ids, at most 2^64 - 1.
  uint64_t count() const;
  // The ids as ranges from `first` to `second` inclusive, in order, without
  // overlaps.
  using Range = std::pair<int64_t, int64_t>;
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

// Parses a number from -2^63 to 2^64 - 1, which denotes the id with its bits.
bool ParseId(absl::string_view text, int64_t* id);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_ID_LIST_H_
