// SPDX-License-Identifier: Apache-2.0
// Kernels on rows in device memory; internal to cuda/. Each call queues work on
// a stream and returns at once, with cudaSuccess or the launch's error. All
// pointers are to device memory, which must stay valid until the work has
// ended.
#ifndef CKPTDB_CUDA_KERNELS_ROW_KERNELS_H_
#define CKPTDB_CUDA_KERNELS_ROW_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/rows/row_codes.h"
#include "cuda/rows/row_operations.h"

namespace ckptdb::internal {

// Loads all row kernels for the current device.
cudaError_t LoadRowKernels();

cudaError_t LaunchMarkRows(const MarkRows<int32_t>& marks, cudaStream_t stream);
cudaError_t LaunchMarkRows(const MarkRows<int64_t>& marks, cudaStream_t stream);

// Make the set of the marked rows, or of all rows. `tiles` holds
// MarkTiles(rows) numbers for LaunchListRows; `count` is set to the number of
// rows.
cudaError_t LaunchTakeMarks(const TakeMarks& marks, uint32_t* tiles,
                            uint64_t* count, cudaStream_t stream);
cudaError_t LaunchTakeAll(const TakeAll& all, uint32_t* tiles, uint64_t* count,
                          cudaStream_t stream);
// Writes the rows of a set to `rows`, in ascending order. Called when the host
// has read their count and allocated memory for them.
cudaError_t LaunchListRows(const uint32_t* taken, uint64_t table_rows,
                           const uint32_t* tiles, uint32_t* rows,
                           cudaStream_t stream);
cudaError_t LaunchListIds(const ListIds& list, cudaStream_t stream);
cudaError_t LaunchFreeRows(const FreeRows& rows, cudaStream_t stream);
cudaError_t LaunchReturnMarks(const ReturnMarks& marks, cudaStream_t stream);

cudaError_t LaunchGather(const GatherRowsOfSlot& rows, cudaStream_t stream);
cudaError_t LaunchEncode(const EncodeBf16Rows& rows, cudaStream_t stream);
cudaError_t LaunchEncode(const EncodeInt8Rows& rows, cudaStream_t stream);
cudaError_t LaunchScatter(const ScatterRowsOfSlot& rows, cudaStream_t stream);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_KERNELS_ROW_KERNELS_H_
