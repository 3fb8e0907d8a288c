// SPDX-License-Identifier: Apache-2.0
// The values that were saved in the store of tests/golden/lossy_codecs, and the
// values stored there: the former are slightly off the numbers that the codecs
// can represent.
#ifndef CKPTDB_TESTS_GOLDEN_LOSSY_CODECS_VALUES_H_
#define CKPTDB_TESTS_GOLDEN_LOSSY_CODECS_VALUES_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "db/state.h"

namespace ckptdb::testing {

// Makes the store in a new folder.
absl::Status MakeLossyCodecsStore(const std::string& path);

constexpr int64_t kLossyStride = 7919;
constexpr int64_t kLossyRows = 100;
// In the first step, the embedding of this row contains a NaN.
constexpr int64_t kLossyNanRow = 50;
constexpr int kLossyElements = 8;
constexpr int kLossyTensor = 300;
constexpr float kLossyBeside = 1.0f / 1024;

// The embedding is int8 in step 1 and bf16 in steps 2 and 3.
inline std::vector<Slot> LossySlots(int64_t step) {
  return {{"embedding", DType::kF32, kLossyElements,
           step == 1 ? Codec::kInt8 : Codec::kBf16},
          {"sum", DType::kF32, 2, Codec::kBf16},
          {"written", DType::kI64, 1}};
}

// The rows k that a step writes; step 3 also erases row 99.
inline std::vector<int64_t> LossyWrites(int64_t step) {
  std::vector<int64_t> all;
  const int64_t end = step == 1 ? kLossyRows : 10 * step;
  for (int64_t k = 0; k < end; ++k) all.push_back(k);
  return all;
}

template <typename T>
void AppendNumber(T number, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// The bytes of a row that step `step` wrote: as `given`, or as stored.
inline std::string LossyRow(int64_t k, int64_t step, bool given) {
  const float beside = given ? kLossyBeside : 0;
  const float scale = std::ldexp(1.0f, static_cast<int>(k % 5) - 2);
  std::string row;
  for (int i = 0; i < kLossyElements; ++i) {
    const bool end = i == 0 || i + 1 == kLossyElements;
    const int64_t code = i == 0 ? 0 : end ? 255 : 1 + (13 * k + 29 * i) % 254;
    const bool nan = step == 1 && k == kLossyNanRow;
    float number = scale * (static_cast<float>(code) + (end   ? 0
                                                        : nan ? kLossyBeside
                                                              : beside));
    if (nan && i == 3) number = std::numeric_limits<float>::quiet_NaN();
    AppendNumber(number, &row);
  }
  for (int i = 0; i < 2; ++i) {
    AppendNumber(static_cast<float>(k + 1 + i) + beside, &row);
  }
  AppendNumber(step, &row);
  return row;
}

// Tensor "w", with codec int8.
inline std::vector<float> LossyTensor(bool given) {
  constexpr int kBlock = 128;
  std::vector<float> numbers;
  for (int i = 0; i < kLossyTensor; ++i) {
    const int j = i % kBlock;
    const auto code = static_cast<float>(j == 0   ? 0
                                         : j == 1 ? 255
                                                  : (7 * i) % 255);
    numbers.push_back(code + (given && j > 1 ? kLossyBeside : 0));
  }
  return numbers;
}

// Tensor "b", with codec bf16.
inline std::vector<float> LossyBias(bool given) {
  return {1 + (given ? kLossyBeside : 0), -2,
          std::numeric_limits<float>::infinity(), -0.0f,
          std::numeric_limits<float>::quiet_NaN()};
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_GOLDEN_LOSSY_CODECS_VALUES_H_
