// SPDX-License-Identifier: Apache-2.0
#ifndef CKPTDB_TESTS_MANAGER_ROW_VALUES_H_
#define CKPTDB_TESTS_MANAGER_ROW_VALUES_H_

#include <cstring>

#include "manager/model_state.h"
#include "tests/support/test.h"

namespace ckptdb::testing {

// Expects that a source contains each of the ids 0 to `ids` for which `has`
// returns true, once, with the id as the first value.
inline void ExpectRows(const RowSource& source, int64_t ids,
                       const std::function<bool(int64_t id)>& has) {
  std::map<int64_t, float> found;
  for (uint64_t b = 0; b < source.block_count(); ++b) {
    ASSERT_OK_AND_ASSIGN(const RowBlock block, source.Block(b));
    for (size_t i = 0; i < block.ids.size(); ++i) {
      float value = 0;
      std::memcpy(&value, block.slots[0].At(block.RowAt(i)), sizeof(value));
      EXPECT_TRUE(found.emplace(block.ids[i], value).second);
    }
  }
  size_t expected = 0;
  for (int64_t id = 0; id < ids; ++id) {
    if (!has(id)) continue;
    ++expected;
    ASSERT_EQ(found.at(id), static_cast<float>(id));
  }
  EXPECT_EQ(found.size(), expected);
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_ROW_VALUES_H_
