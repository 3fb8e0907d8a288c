// SPDX-License-Identifier: Apache-2.0
// MapTable: a TableState over a trainer's hash map. See manager/tables.h.
#ifndef CKPTDB_MANAGER_MAP_TABLE_H_
#define CKPTDB_MANAGER_MAP_TABLE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "manager/internal/map_rows.h"
#include "manager/tables.h"

namespace ckptdb {

// Declares a member of a map's rows as the slot `name`: a double, float, bool
// or integer of fixed width, a std::array or array of these, or a std::vector
// with TableOptions::Field::dim.
template <typename Row, typename Member>
internal::MemberField<Row, Member> Field(absl::string_view name,
                                         Member Row::*member,
                                         TableOptions::Field options = {}) {
  return {std::string(name), member, options};
}
// Declares whole rows as one slot.
inline internal::WholeRowField Field(absl::string_view name,
                                     TableOptions::Field options = {}) {
  return {std::string(name), options};
}

// A table over a map of the trainer, such as std::unordered_map<int64_t, Row>
// or absl::flat_hash_map<uint64_t, Row>: any map with find, try_emplace, erase
// and clear, and 64-bit keys. A negative id is a large unsigned key.
//
//   std::unordered_map<int64_t, std::array<float, 16>> items;
//   MapTable item_table(&items, {Field("embedding")});
//
// Between saves the trainer changes the map freely and marks what it changed
// with MarkUpserted and MarkErased, from any thread. If an id marked as
// upserted is not in the map, the save fails with Internal naming it. A restore
// writes rows one at a time, from several threads; new rows are
// value-initialized. A save takes 16 bytes per saved row, plus 8 per
// std::vector, until it is staged.
template <typename Map>
class MapTable : public internal::AnyMapTable {
 public:
  // A list of fields, which tables with the same rows can share.
  using Fields = std::vector<internal::RowField<typename Map::mapped_type>>;

  MapTable(Map* map,
           std::vector<internal::RowField<typename Map::mapped_type>> fields,
           TableOptions options = {})
      : AnyMapTable(internal::EraseMap(map), internal::EraseRows(fields),
                    std::move(options)) {}
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_MAP_TABLE_H_
