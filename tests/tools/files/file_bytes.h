// SPDX-License-Identifier: Apache-2.0
// Bytes of files and expected errors, for tests of their formats.
#ifndef CKPTDB_TESTS_TOOLS_FILES_FILE_BYTES_H_
#define CKPTDB_TESTS_TOOLS_FILES_FILE_BYTES_H_

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::tool {

inline constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
inline constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

template <typename Result>
void ExpectError(const Result& result, absl::StatusCode code,
                 const std::string& text) {
  EXPECT_EQ(result.status().code(), code) << result.status();
  EXPECT_THAT(std::string(result.status().message()),
              ::testing::HasSubstr(text));
}

template <typename T>
std::string LittleEndian(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace ckptdb::tool

#endif  // CKPTDB_TESTS_TOOLS_FILES_FILE_BYTES_H_
