// SPDX-License-Identifier: Apache-2.0
// The stored bytes of the rows of a source.
#ifndef CKPTDB_TESTS_CUDA_TABLES_STAGED_SLOTS_H_
#define CKPTDB_TESTS_CUDA_TABLES_STAGED_SLOTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/stage/row_order.h"
#include "db/stage/stream.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {

// The entries that a stager makes from the slots of a source.
struct StagedSlots {
  std::vector<std::pair<std::string, std::string>> entries;
  std::vector<Item::Error> errors;
};

inline StagedSlots StageSlots(const RowSource& rows,
                              const std::vector<Slot>& slots) {
  constexpr uint32_t kRowsPerPage = 50;
  StagedSlots staged;
  RankState::Table table;
  table.name = "item";
  table.slots = slots;
  table.rows = &rows;
  const auto order =
      internal::RowOrder::Build(table, internal::OwnRows(), /*threads=*/1);
  EXPECT_OK(order);
  if (!order.ok()) return staged;
  for (size_t s = 0; s < slots.size(); ++s) {
    const auto stream = internal::MakeSlotStream(
        absl::StrCat(s, "/"), order->get(), kRowsPerPage, s, slots[s]);
    for (uint64_t entry = 0; entry < stream->entries(); ++entry) {
      std::string key;
      PageBuilder page;
      EXPECT_OK(stream->Make(entry, &key, &page));
      staged.entries.emplace_back(key, std::string(page.entry()));
    }
    staged.errors.push_back(stream->error());
  }
  return staged;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_CUDA_TABLES_STAGED_SLOTS_H_
