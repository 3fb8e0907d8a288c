// SPDX-License-Identifier: Apache-2.0
// States of tables with the memory of their rows, for the makers of stores.
#ifndef CKPTDB_TESTS_TOOLS_HELD_TABLES_H_
#define CKPTDB_TESTS_TOOLS_HELD_TABLES_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/state.h"
#include "tests/db/content.h"

namespace ckptdb::testing {

// Returns the bytes of these values, one after the other.
template <typename... T>
std::string Bytes(T... values) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
  return bytes;
}

// A state, with the memory of its rows.
class HeldTables {
 public:
  using RowList = std::vector<BlockRows::Row>;

  RankState* state() { return &state_; }

  // The part of a table that changed, and why it is saved in full nevertheless.
  struct Change {
    std::vector<int64_t> erased = {};
    std::string base_reason = {};
  };
  // Without a change, the rows are all that the table has.
  void Add(const std::string& name, const std::vector<Slot>& slots,
           const RowList& rows, std::optional<Change> change = std::nullopt) {
    const BlockRows& held = rows_.emplace_back(slots, rows, rows.size() + 1);
    RankState::Table table;
    table.name = name;
    table.slots = slots;
    if (!change.has_value() || !change->base_reason.empty()) table.rows = &held;
    if (change.has_value()) {
      changes_.push_back(*std::move(change));
      table.changes = RankState::Changes{&held, changes_.back().erased};
      table.base_reason = changes_.back().base_reason;
    }
    state_.AddTable(std::move(table));
  }

 private:
  std::deque<BlockRows> rows_;
  std::deque<Change> changes_;
  RankState state_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_TOOLS_HELD_TABLES_H_
