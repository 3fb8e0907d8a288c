// SPDX-License-Identifier: Apache-2.0
// A table of f32 slots, for tests of models that evolve.
#ifndef CKPTDB_TESTS_MANAGER_LOAD_F32_TABLE_H_
#define CKPTDB_TESTS_MANAGER_LOAD_F32_TABLE_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "manager/tables.h"

namespace ckptdb::testing {

inline const Slot kEmbedding = {"embedding", DType::kF32, 2};
inline const Slot kSum = {"adagrad_sum", DType::kF32, 1};

// A table of f32 slots whose rows a test writes as lists of numbers.
class F32Table : public ColumnTable {
 public:
  using Rows = std::map<int64_t, std::vector<float>>;

  explicit F32Table(const std::vector<Slot>& slots, TableOptions options = {})
      : ColumnTable(slots, std::move(options)) {
    for (const Slot& slot : slots) {
      columns_.push_back(*column<float>(slot.name));
    }
  }
  void Set(int64_t id, const std::vector<float>& values) {
    const uint64_t row = Insert(id)->row;
    const float* next = values.data();
    for (const Column<float>& each : columns_) {
      for (uint32_t e = 0; e < each.elements(); ++e) each[row][e] = *next++;
    }
  }
  Rows rows() const {
    Rows rows;
    ForEach([&](int64_t id, uint64_t row) {
      for (const Column<float>& each : columns_) {
        for (uint32_t e = 0; e < each.elements(); ++e) {
          rows[id].push_back(each[row][e]);
        }
      }
    });
    return rows;
  }

 private:
  std::vector<Column<float>> columns_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_LOAD_F32_TABLE_H_
