// SPDX-License-Identifier: Apache-2.0
// How far two arrays of numbers are from each other.
#ifndef CKPTDB_TOOLS_NUMBER_DIFF_H_
#define CKPTDB_TOOLS_NUMBER_DIFF_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "db/reader.h"
#include "schema/types.h"

namespace ckptdb::tool {

// Sums over pairs of elements. NaN equals NaN; where only one of a pair is NaN
// or infinite, or both are different infinities, they differ infinitely.
struct NumberDiff {
  uint64_t differing = 0;  // pairs
  double max_abs = 0;
  double squares = 0;  // sum of squared differences
  // Over pairs of finite elements.
  double from_squares = 0;
  double to_squares = 0;
  double products = 0;

  void Add(const NumberDiff& other);
  // The L2 norm of the difference, relative to that of the first array;
  // infinite if that is 0 and the second differs.
  double relative_l2() const;
  // The cosine of the angle between the arrays; 1 if both are 0, 0 if one is.
  double cosine() const;
};

// Compares arrays. Keeps the memory of its conversions for the next call.
class NumberComparer {
 public:
  // Compares as doubles. Integers of 64 bits that differ in bits that doubles
  // do not have differ by 1.
  NumberDiff Compare(DType from_dtype, const char* from, DType to_dtype,
                     const char* to, size_t elements);

 private:
  std::vector<double> from_;
  std::vector<double> to_;
};

// Reads a tensor of the same shape in both steps, at most 32 MiB of each at a
// time.
absl::StatusOr<NumberDiff> CompareTensorNumbers(const StepReader& from,
                                                const Item& from_spec,
                                                const StepReader& to,
                                                const Item& to_spec);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_NUMBER_DIFF_H_
