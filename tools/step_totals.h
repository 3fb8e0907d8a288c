// SPDX-License-Identifier: Apache-2.0
// Sums up the contents of a step from the records of its ranks.
#ifndef CKPTDB_TOOLS_STEP_TOTALS_H_
#define CKPTDB_TOOLS_STEP_TOTALS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "db/reader.h"
#include "schema/types.h"

namespace ckptdb::tool {

struct Totals {
  uint64_t items = 0;
  uint64_t rows = 0;
  uint64_t erased = 0;
  uint64_t raw_bytes = 0;
  uint64_t stored_bytes = 0;    // including borrowed bytes
  uint64_t borrowed_bytes = 0;  // stored by other versions

  void Add(const Item& item, const Version& version);
  void Add(const Totals& other);
};

// The kinds of items, in display order.
inline constexpr std::array<Item::Kind, 3> kItemKinds = {
    Item::Kind::kTensor, Item::Kind::kRows, Item::Kind::kBlob};

Totals TotalsOf(const StepRecord::Rank& rank);
Totals TotalsOf(absl::Span<const StepRecord::Rank> ranks);
Totals TotalsOfKind(absl::Span<const StepRecord::Rank> ranks, Item::Kind kind);

// Returns the flags that are set, such as "pinned ephemeral", or "-" if none
// are. A posted flag that the owner has not applied has an asterisk: "pinned*"
// or "unpinned*".
std::string FlagsText(const StepRecord& record,
                      const Reader::Posted& posted = {});

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_STEP_TOTALS_H_
