// SPDX-License-Identifier: Apache-2.0
#include "tools/step_totals.h"

#include "absl/strings/str_join.h"

namespace ckptdb::tool {

void Totals::Add(const Item& item, const Version& version) {
  ++items;
  rows += item.rows;
  erased += item.erased_rows;
  raw_bytes += item.raw_bytes;
  stored_bytes += item.stored_bytes;
  if (item.data_version != version) borrowed_bytes += item.stored_bytes;
}

void Totals::Add(const Totals& other) {
  items += other.items;
  rows += other.rows;
  erased += other.erased;
  raw_bytes += other.raw_bytes;
  stored_bytes += other.stored_bytes;
  borrowed_bytes += other.borrowed_bytes;
}

Totals TotalsOf(const StepRecord::Rank& rank) {
  Totals totals;
  for (const Item& item : rank.items) totals.Add(item, rank.version);
  return totals;
}

Totals TotalsOf(absl::Span<const StepRecord::Rank> ranks) {
  Totals totals;
  for (const StepRecord::Rank& rank : ranks) totals.Add(TotalsOf(rank));
  return totals;
}

Totals TotalsOfKind(absl::Span<const StepRecord::Rank> ranks, Item::Kind kind) {
  Totals totals;
  for (const StepRecord::Rank& rank : ranks) {
    for (const Item& item : rank.items) {
      if (item.kind == kind) totals.Add(item, rank.version);
    }
  }
  return totals;
}

std::string FlagsText(const StepRecord& record, const Reader::Posted& posted) {
  std::vector<std::string> flags;
  if (posted.pinned.has_value()) {
    flags.emplace_back(*posted.pinned ? "pinned*" : "unpinned*");
  } else if (record.pinned) {
    flags.emplace_back("pinned");
  }
  if (posted.ephemeral.has_value()) {
    flags.emplace_back(*posted.ephemeral ? "ephemeral*" : "permanent*");
  } else if (record.ephemeral) {
    flags.emplace_back("ephemeral");
  }
  if (record.quarantined) flags.emplace_back("quarantined");
  return flags.empty() ? "-" : absl::StrJoin(flags, " ");
}

}  // namespace ckptdb::tool
