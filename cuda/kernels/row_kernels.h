// The kernels on rows in device memory; internal to cuda/. Each call puts work
// on a stream and returns at once, with cudaSuccess or the error of the launch.
// What a pointer points to is in device memory and stays until the work has
// ended.
#ifndef CKPTDB_CUDA_KERNELS_ROW_KERNELS_H_
#define CKPTDB_CUDA_KERNELS_ROW_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ckptdb/cuda/rows/row_codes.h"
#include "ckptdb/cuda/rows/row_operations.h"

namespace ckptdb::internal {

// Loads all of them, for the current device.
cudaError_t LoadRowKernels();

cudaError_t LaunchMarkRows(const MarkRows<int32_t>& marks, cudaStream_t stream);
cudaError_t LaunchMarkRows(const MarkRows<int64_t>& marks, cudaStream_t stream);

// Makes the set of the rows that were marked, or of all. `tiles` has
// MarkTiles(rows) numbers, for LaunchListRows, and `count` is set to the number
// of rows.
cudaError_t LaunchTakeMarks(const TakeMarks& marks, uint32_t* tiles,
                            uint64_t* count, cudaStream_t stream);
cudaError_t LaunchTakeAll(const TakeAll& all, uint32_t* tiles, uint64_t* count,
                          cudaStream_t stream);
// Writes the rows of a set that was taken to `rows`, in ascending order, once
// the host knows how many there are and has memory for them.
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
