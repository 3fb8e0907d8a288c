// SPDX-License-Identifier: Apache-2.0
#include "db/meta/borrow_cost.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ckptdb::internal {
namespace {

// With eight steps that borrow it, as much is saved as is kept.
constexpr uint64_t kKeptPerBorrowed = 8;
constexpr uint64_t kSmallBytes = uint64_t{1} << 20;

double UsedPart(const BorrowedFile& file) {
  return static_cast<double>(file.borrowed_bytes) /
         static_cast<double>(std::max<uint64_t>(file.bytes, 1));
}

}  // namespace

bool BeginsFile(const Item& before, uint64_t file_bytes, const Item& item,
                uint64_t item_bytes, uint64_t tensor_bytes) {
  constexpr auto kTable = Item::Kind::kRows;
  constexpr uint64_t kLargeTableBytes = uint64_t{16} << 20;
  constexpr uint64_t kLargeDenseBytes = uint64_t{4} << 20;
  const bool mixed = (before.kind == kTable) != (item.kind == kTable);
  const uint64_t dense_bytes = item.kind == kTable ? file_bytes : tensor_bytes;
  if (mixed && dense_bytes >= kLargeDenseBytes) return true;
  return (before.kind == kTable || item.kind == kTable) &&
         std::max(file_bytes, item_bytes) >= kLargeTableBytes;
}

bool BorrowedFile::IsCostly() const {
  return !borrows_large && borrowed_bytes * kKeptPerBorrowed < unused_bytes();
}

std::vector<BorrowedFile> BorrowedFiles(
    const StepRecord::Rank& stored,
    const std::function<bool(const Item&)>& borrowed) {
  const auto is_in_file = [&](const Item& item) {
    return item.data_version == stored.version &&
           item.placement == Item::Placement::kBulk;
  };
  uint64_t tensor_bytes = 0;
  for (const Item& item : stored.items) {
    if (item.kind == Item::Kind::kTensor && is_in_file(item)) {
      tensor_bytes += item.raw_bytes;
    }
  }
  std::vector<BorrowedFile> files;
  const Item* before = nullptr;
  for (const Item& item : stored.items) {
    if (!is_in_file(item)) continue;
    // Follows CutSegments, which also cuts by size.
    if (before == nullptr || BeginsFile(*before, files.back().bytes, item,
                                        item.raw_bytes, tensor_bytes)) {
      files.emplace_back().version = stored.version;
    }
    before = &item;
    BorrowedFile& file = files.back();
    file.bytes += item.stored_bytes;
    if (!borrowed(item)) continue;
    file.borrowed_bytes += item.stored_bytes;
    file.borrows_large |= item.stored_bytes > kSmallBytes;
    file.borrowed.insert(KeyOf(item));
  }
  std::erase_if(files,
                [](const BorrowedFile& file) { return file.borrowed.empty(); });
  return files;
}

ItemKeys CostlyToBorrow(const StepRecord::Rank& stored,
                        const std::function<bool(const Item&)>& borrowed) {
  ItemKeys costly;
  for (BorrowedFile& file : BorrowedFiles(stored, borrowed)) {
    if (file.IsCostly()) costly.merge(std::move(file.borrowed));
  }
  return costly;
}

std::vector<BorrowedFile> LeastUsed(std::vector<BorrowedFile> files,
                                    uint64_t limit) {
  std::ranges::sort(files, {}, UsedPart);
  uint64_t unused = 0;
  for (const BorrowedFile& file : files) unused += file.unused_bytes();
  size_t count = 0;
  while (unused > limit) unused -= files[count++].unused_bytes();
  files.resize(count);
  return files;
}

}  // namespace ckptdb::internal
