// Sums up the contents of a step from the records of its ranks.
#ifndef CKPTDB_TOOLS_STEP_TOTALS_H_
#define CKPTDB_TOOLS_STEP_TOTALS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "ckptdb/schema/records.h"

namespace ckptdb::tool {

struct Totals {
  uint64_t items = 0;
  uint64_t rows = 0;
  uint64_t erased = 0;
  uint64_t raw_bytes = 0;
  uint64_t stored_bytes = 0;    // own and borrowed
  uint64_t borrowed_bytes = 0;  // data that other versions wrote

  void Add(const Item& item, const Version& version);
  void Add(const Totals& other);
};

// The kinds of items, in the order in which they are shown.
inline constexpr std::array<ItemKind, 3> kItemKinds = {
    ItemKind::kTensor, ItemKind::kRows, ItemKind::kBlob};

Totals TotalsOf(const RankRecord& rank);
Totals TotalsOf(absl::Span<const RankRecord> ranks);
Totals TotalsOfKind(absl::Span<const RankRecord> ranks, ItemKind kind);

// Returns the flags that are set, such as "pinned ephemeral", or "-" for none.
std::string FlagsText(const StepRecord& record);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_STEP_TOTALS_H_
