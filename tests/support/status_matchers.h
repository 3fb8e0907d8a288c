// SPDX-License-Identifier: Apache-2.0
// Matchers of absl::Status and absl::StatusOr.
//
//   EXPECT_OK(store->Publish(...));
//   EXPECT_THAT(store->Open(7), StatusIs(absl::StatusCode::kNotFound,
//                                        HasSubstr("step 7")));
//   ASSERT_OK_AND_ASSIGN(auto store, Store::Open(path, {}));
#ifndef CKPTDB_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define CKPTDB_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckptdb::testing {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << "which is " << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

MATCHER_P2(StatusIs, code, message,
           "has code " + absl::StatusCodeToString(code) +
               " and a message that " +
               ::testing::DescribeMatcher<std::string>(message, negation)) {
  *result_listener << "which is " << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code &&
         ::testing::Matches(message)(std::string(StatusOf(arg).message()));
}

}  // namespace ckptdb::testing

#define EXPECT_OK(expression) EXPECT_THAT(expression, ::ckptdb::testing::IsOk())
#define ASSERT_OK(expression) ASSERT_THAT(expression, ::ckptdb::testing::IsOk())
#define ASSERT_OK_AND_ASSIGN(declaration, expression)                   \
  ASSERT_OK_AND_ASSIGN_IMPL(ASSERT_OK_CONCAT(ckptdb_result_, __LINE__), \
                            declaration, expression)
#define ASSERT_OK_AND_ASSIGN_IMPL(result, declaration, expression) \
  auto result = (expression);                                      \
  ASSERT_THAT(result, ::ckptdb::testing::IsOk());                  \
  declaration = *std::move(result)
#define ASSERT_OK_CONCAT(a, b) ASSERT_OK_CONCAT_IMPL(a, b)
#define ASSERT_OK_CONCAT_IMPL(a, b) a##b

#endif  // CKPTDB_TESTS_SUPPORT_STATUS_MATCHERS_H_
