// SPDX-License-Identifier: Apache-2.0
// The rows of a table in device memory, shared by its parts; internal to cuda/.
#ifndef CKPTDB_CUDA_TABLES_TABLE_ROWS_H_
#define CKPTDB_CUDA_TABLES_TABLE_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "cuda/rows/row_lanes.h"
#include "cuda/rows/row_marks.h"
#include "schema/types.h"

namespace ckptdb::internal {

struct TableRows {
  uint64_t rows = 0;
  // In device memory. If null, a row's id is first_id + row * id_step.
  int64_t* ids = nullptr;
  int64_t free_id = 0;  // of empty rows, if there are ids
  int64_t first_id = 0;
  int64_t id_step = 1;
  std::vector<Slot> slots;
  std::vector<SlotView> values;   // of the slots
  cudaStream_t stream = nullptr;  // on which the trainer writes the rows

  RowIdsView ids_view() const { return {ids, free_id}; }
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_TABLE_ROWS_H_
