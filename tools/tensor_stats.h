// SPDX-License-Identifier: Apache-2.0
// The distribution of a tensor's elements.
#ifndef CKPTDB_TOOLS_TENSOR_STATS_H_
#define CKPTDB_TOOLS_TENSOR_STATS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/reader.h"
#include "schema/types.h"
#include "tools/tensor_scan.h"

namespace ckptdb::tool {

struct TensorStats {
  uint64_t elements = 0;
  uint64_t nan = 0;
  uint64_t inf = 0;  // positive and negative ones
  uint64_t zeros = 0;
  // Over the finite elements, 0 without any. Exact also for 64-bit integers.
  long double min = 0;
  long double max = 0;
  double mean = 0;
  double std = 0;  // the population's
  // The numbers of finite elements in equal intervals from min to max. Empty if
  // they are all equal, or if none was asked for.
  std::vector<uint64_t> histogram;

  uint64_t finite() const { return elements - nan - inf; }
};

// Computes the statistics of each part. Reads tensors twice, or once if `bins`
// is 0, and then leaves `std` 0.
absl::StatusOr<std::vector<TensorStats>> MeasureTensors(
    const StepReader& step, absl::Span<const TensorPart> parts, size_t bins,
    const ReadOptions& options);

// Returns the part of the statistics that one array has: all but mean, std and
// histogram.
TensorStats CountElements(DType dtype, const char* bytes, uint64_t size);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_TENSOR_STATS_H_
