// SPDX-License-Identifier: Apache-2.0
// What another process stages: both sides know it, so that only the staged
// rank has to travel.
#ifndef CKPTDB_TESTS_DB_CHILD_CONTENT_H_
#define CKPTDB_TESTS_DB_CHILD_CONTENT_H_

#include "tests/db/content.h"

namespace ckptdb::testing {

inline RankContent ChildContent(uint32_t rank) {
  std::mt19937_64 random(rank);
  RankContent content;
  content.tensors["part." + std::to_string(rank)] = BulkTensor(rank);
  TableContent table;
  table.slots = {{"embedding", DType::kF32, 2}};
  for (int64_t i = 0; i < 1000; ++i) {
    table.rows[i * 8 + rank] = RandomBytes(&random, table.row_bytes());
  }
  content.tables["user"] = table;
  content.blobs["reader"] = "rank " + std::to_string(rank);
  return content;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_CHILD_CONTENT_H_
