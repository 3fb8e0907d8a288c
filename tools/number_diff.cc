// SPDX-License-Identifier: Apache-2.0
#include "tools/number_diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <string>

#include "schema/status.h"
#include "tools/tensor_scan.h"

namespace ckptdb::tool {
namespace {

// Small enough for the second-level cache, as doubles.
constexpr size_t kComparedBlock = 4096;
constexpr uint64_t kComparedBytes = uint64_t{32} << 20;

void AddPair(double from, double to, NumberDiff* diff) {
  if (std::isfinite(from) && std::isfinite(to)) {
    diff->from_squares += from * from;
    diff->to_squares += to * to;
    diff->products += from * to;
  }
  if (from == to || (std::isnan(from) && std::isnan(to))) return;
  double distance = std::abs(from - to);
  if (std::isnan(distance)) distance = std::numeric_limits<double>::infinity();
  ++diff->differing;
  diff->max_abs = std::max(diff->max_abs, distance);
  diff->squares += distance * distance;
}

}  // namespace

void NumberDiff::Add(const NumberDiff& other) {
  differing += other.differing;
  max_abs = std::max(max_abs, other.max_abs);
  squares += other.squares;
  from_squares += other.from_squares;
  to_squares += other.to_squares;
  products += other.products;
}

double NumberDiff::relative_l2() const {
  return squares == 0 ? 0 : std::sqrt(squares / from_squares);
}

double NumberDiff::cosine() const {
  if (from_squares == 0 && to_squares == 0) return 1;
  if (from_squares == 0 || to_squares == 0) return 0;
  // Two roots, because the product may overflow.
  return products / (std::sqrt(from_squares) * std::sqrt(to_squares));
}

NumberDiff NumberComparer::Compare(DType from_dtype, const char* from,
                                   DType to_dtype, const char* to,
                                   size_t elements) {
  NumberDiff diff;
  from_.resize(std::min(elements, kComparedBlock));
  to_.resize(from_.size());
  const bool integers = from_dtype == to_dtype &&
                        CanCast(from_dtype, DType::kI64) &&
                        DTypeBytes(from_dtype) == sizeof(int64_t);
  for (size_t at = 0; at < elements; at += kComparedBlock) {
    const size_t count = std::min(kComparedBlock, elements - at);
    const char* const from_at = from + at * DTypeBytes(from_dtype);
    const char* const to_at = to + at * DTypeBytes(to_dtype);
    // Every number has a nearest double.
    CastElements(from_dtype, from_at, DType::kF64, from_.data(), count)
        .IgnoreError();
    CastElements(to_dtype, to_at, DType::kF64, to_.data(), count).IgnoreError();
    for (size_t i = 0; i < count; ++i) {
      const bool rounded =
          integers && from_[i] == to_[i] &&
          std::memcmp(from_at + i * sizeof(int64_t),
                      to_at + i * sizeof(int64_t), sizeof(int64_t)) != 0;
      AddPair(from_[i], to_[i], &diff);
      if (!rounded) continue;
      ++diff.differing;
      diff.max_abs = std::max(diff.max_abs, 1.0);
    }
  }
  return diff;
}

absl::StatusOr<NumberDiff> CompareTensorNumbers(const StepReader& from,
                                                const Item& from_spec,
                                                const StepReader& to,
                                                const Item& to_spec) {
  NumberDiff diff;
  NumberComparer comparer;
  std::string from_bytes;
  std::string to_bytes;
  const DType wider = DTypeBytes(from_spec.dtype) > DTypeBytes(to_spec.dtype)
                          ? from_spec.dtype
                          : to_spec.dtype;
  for (const TensorBox& box :
       DivideBox(WholeOf(from_spec), wider, kComparedBytes)) {
    const uint64_t from_size = BytesOf(box, from_spec.dtype);
    const uint64_t to_size = BytesOf(box, to_spec.dtype);
    if (from_size == 0) continue;
    from_bytes.resize(from_size);
    to_bytes.resize(to_size);
    auto reading = std::async(std::launch::async, [&] {
      return to.ReadTensorPart(to_spec.name, box.offset, box.shape,
                               to_bytes.data(), to_size);
    });
    const absl::Status read = from.ReadTensorPart(
        from_spec.name, box.offset, box.shape, from_bytes.data(), from_size);
    const absl::Status other_read = reading.get();
    CKPTDB_RETURN_IF_ERROR(read);
    CKPTDB_RETURN_IF_ERROR(other_read);
    diff.Add(comparer.Compare(from_spec.dtype, from_bytes.data(), to_spec.dtype,
                              to_bytes.data(),
                              from_size / DTypeBytes(from_spec.dtype)));
  }
  return diff;
}

}  // namespace ckptdb::tool
