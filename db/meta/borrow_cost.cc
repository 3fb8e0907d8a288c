#include "ckptdb/db/meta/borrow_cost.h"

#include <algorithm>
#include <vector>

namespace ckptdb::internal {
namespace {

// With eight steps that borrow it, as much is saved as is kept.
constexpr uint64_t kKeptPerBorrowed = 8;
constexpr uint64_t kSmallBytes = uint64_t{1} << 20;

// Items that are estimated to lie in one file.
struct File {
  uint64_t bytes = 0;
  uint64_t borrowed_bytes = 0;
  bool borrows_large = false;
  std::vector<const Item*> borrowed;

  bool IsCostly() const {
    return !borrows_large &&
           borrowed_bytes * kKeptPerBorrowed < bytes - borrowed_bytes;
  }
};

// Follows CutSegments, which also cuts by size.
bool BeginsFile(const Item& before, const Item& item, uint64_t file_bytes) {
  constexpr auto kTable = Item::Kind::kRows;
  return (before.kind == kTable || item.kind == kTable) &&
         std::max(file_bytes, item.raw_bytes) >= kWorthAFileBytes;
}

}  // namespace

ItemNames CostlyToBorrow(const StepRecord::Rank& stored,
                         const std::function<bool(const Item&)>& borrowed) {
  std::vector<File> files;
  const Item* before = nullptr;
  for (const Item& item : stored.items) {
    if (item.data_version != stored.version ||
        item.placement != Item::Placement::kBulk) {
      continue;
    }
    if (before == nullptr || BeginsFile(*before, item, files.back().bytes)) {
      files.emplace_back();
    }
    before = &item;
    File& file = files.back();
    file.bytes += item.stored_bytes;
    if (!borrowed(item)) continue;
    file.borrowed_bytes += item.stored_bytes;
    file.borrows_large |= item.stored_bytes > kSmallBytes;
    file.borrowed.push_back(&item);
  }
  ItemNames costly;
  for (const File& file : files) {
    if (!file.IsCostly()) continue;
    for (const Item* item : file.borrowed) {
      costly.emplace(item->kind, item->name);
    }
  }
  return costly;
}

}  // namespace ckptdb::internal
