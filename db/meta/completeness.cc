// SPDX-License-Identifier: Apache-2.0
#include "db/meta/completeness.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/page.h"
#include "schema/records/shards.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

using InlineEntry = std::pair<std::string, std::string>;
using EntrySpan = absl::Span<const InlineEntry* const>;

// Rounds up without a sum, which could overflow because the counts come from
// another process.
uint64_t DivideUp(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

// Returns the number of pages or chunks of an item.
uint64_t EntriesOf(const Item& item) {
  if (item.kind != Item::Kind::kRows) return item.chunk_hashes.size();
  return DivideUp(item.rows, item.rows_per_page) * (1 + item.slots.size()) +
         DivideUp(item.erased_rows, kErasedRowsPerPage);
}

std::string NameOf(const Item& item) {
  return absl::StrCat(ItemKindName(item.kind), " \"", item.name, "\"");
}

absl::Status Missing(const Item& item, absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat(NameOf(item), " is incomplete: ", why));
}

bool KeyLess(const InlineEntry* a, const InlineEntry* b) {
  return a->first < b->first;
}

// Returns whether entry `i` of a table has this key. `first_rows` are the
// positions of the pages of ids; the pages of all slots have the same
// positions.
bool IsPageKey(const Item& table, uint64_t i, const DataKey& key,
               std::vector<RowPosition>* first_rows) {
  const uint64_t pages = DivideUp(table.rows, table.rows_per_page);
  const bool erased = i >= pages * (1 + table.slots.size());
  const uint64_t slot = erased ? kErasedSlot : i / pages;
  if (key.run != table.run || key.slot != slot) return false;
  if (slot == kIdSlot) first_rows->push_back(key.position);
  return erased || key.position == (*first_rows)[i % pages];
}

// An entry under another key of the item would be missed, or taken for another
// entry. `entries` are the item's, in key order.
absl::Status CheckInlineKeys(const Item& item, EntrySpan entries) {
  std::vector<RowPosition> first_rows;
  for (size_t i = 0; i < entries.size(); ++i) {
    const absl::StatusOr<DataKey> key = ParseDataKey(entries[i]->first);
    if (!key.ok()) return Missing(item, key.status().message());
    const bool fits = item.kind == Item::Kind::kRows
                          ? IsPageKey(item, i, *key, &first_rows)
                          : key->chunk == item.first_chunk + i;
    if (fits) continue;
    return Missing(item, absl::StrCat("its inline entry ", i,
                                      " has the key of another one: ",
                                      DescribeDataKey(entries[i]->first)));
  }
  return absl::OkStatus();
}

// `entries` are the item's, in key order.
absl::Status CheckInlineItem(const Item& item, EntrySpan entries) {
  if (entries.size() != EntriesOf(item)) {
    return Missing(item,
                   absl::StrCat("it has ", entries.size(),
                                " inline entries, expected ", EntriesOf(item)));
  }
  CKPTDB_RETURN_IF_ERROR(CheckInlineKeys(item, entries));
  std::string hashes;
  for (const InlineEntry* entry : entries) {
    const absl::StatusOr<PageView> page = ParsePage(entry->second);
    if (!page.ok()) return Missing(item, page.status().message());
    hashes.append(reinterpret_cast<const char*>(&page->raw_hash),
                  sizeof(page->raw_hash));
  }
  if (HashBytes(hashes) == item.digest) return absl::OkStatus();
  return Missing(item, "the hash of its entries does not match its digest");
}

// Returns the items that this version stores there, in key order.
std::vector<const Item*> OwnItems(const StepRecord::Rank& record,
                                  Item::Placement placement) {
  std::vector<const Item*> items;
  for (const Item& item : record.items) {
    if (item.data_version == record.version && item.placement == placement) {
      items.push_back(&item);
    }
  }
  return items;
}

// Checks that each inline item has exactly its entries, and that they match its
// digest.
absl::Status CheckInline(const internal::StagedRecord& staged,
                         const StepRecord::Rank& record) {
  std::vector<const InlineEntry*> entries;
  entries.reserve(staged.inline_entries.size());
  for (const InlineEntry& entry : staged.inline_entries)
    entries.push_back(&entry);
  // In key order an item's entries are adjacent and in the order of its digest.
  std::sort(entries.begin(), entries.end(), KeyLess);
  const std::vector<const Item*> items =
      OwnItems(record, Item::Placement::kInline);
  const auto find = [&](std::string key) {
    const InlineEntry first = {std::move(key), ""};
    return std::lower_bound(entries.begin(), entries.end(), &first, KeyLess);
  };
  size_t used = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = *items[i];
    const std::string prefix =
        ItemPrefix(record.version, record.rank, item.kind, item.name);
    // The chunks of a tensor's shards follow one another.
    const bool last = i + 1 == items.size() || !SameTensor(item, *items[i + 1]);
    const auto begin =
        find(item.first_chunk == 0 ? prefix : ChunkKey(record.rank, item, 0));
    const auto end = find(last ? PrefixEnd(prefix)
                               : ChunkKey(record.rank, *items[i + 1], 0));
    CKPTDB_RETURN_IF_ERROR(CheckInlineItem(
        item,
        EntrySpan(entries).subspan(static_cast<size_t>(begin - entries.begin()),
                                   static_cast<size_t>(end - begin))));
    used += static_cast<size_t>(end - begin);
  }
  // Entries without an item would occupy the store, unread, until the version
  // is swept.
  if (used == entries.size()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(entries.size(), " inline entries, of which ",
                   entries.size() - used, " belong to no item"));
}

// Returns the item that contains this entry, counted over all files of a rank;
// null if none does.
const Item* ItemAt(const std::vector<const Item*>& items, uint64_t number) {
  for (const Item* item : items) {
    if (number < EntriesOf(*item)) return item;
    number -= EntriesOf(*item);
  }
  return nullptr;
}

// A rank's files hold its entries in key order, which is the order of its
// items.
absl::Status CheckFiles(const internal::StagedRecord& staged,
                        const StepRecord::Rank& record) {
  const std::vector<const Item*> items =
      OwnItems(record, Item::Placement::kBulk);
  uint64_t expected = 0;
  for (const Item* item : items) expected += EntriesOf(*item);
  std::vector<const internal::StagedFile*> files;
  for (const internal::StagedFile& file : staged.files) files.push_back(&file);
  std::sort(files.begin(), files.end(), [](const auto* a, const auto* b) {
    return a->first_entry < b->first_entry;
  });
  uint64_t next = 0;
  for (const internal::StagedFile* file : files) {
    // The first gap or overlap shows which file is missing or duplicated.
    if (file->first_entry != next) break;
    next += file->entries;
  }
  uint64_t listed = 0;
  for (const internal::StagedFile* file : files) listed += file->entries;
  if (next == expected && listed == expected) return absl::OkStatus();
  const Item* const item = ItemAt(items, next);
  const std::string counts =
      absl::StrCat(files.size(), " files have ", listed, " entries, expected ",
                   expected, "; the first one out of place is number ", next);
  if (item != nullptr) return Missing(*item, counts);
  return absl::DataLossError(counts);
}

}  // namespace

absl::Status CheckComplete(const internal::StagedRecord& staged,
                           const StepRecord::Rank& record) {
  CKPTDB_RETURN_IF_ERROR(CheckInline(staged, record));
  return CheckFiles(staged, record);
}

}  // namespace ckptdb::internal
