// SPDX-License-Identifier: Apache-2.0
// Matchers of absl::Status and absl::StatusOr.
//
//   EXPECT_OK(store->Publish(...));
//   EXPECT_THAT(store->Open(7), NotFound("step 7"));
//   EXPECT_THAT(store->Open(7), StatusIs(absl::StatusCode::kNotFound, Eq("")));
//   ASSERT_OK_AND_ASSIGN(auto store, Store::Open(path, {}));
#ifndef CKPTDB_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define CKPTDB_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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

// The matcher of a part of a message: that it contains a text, or each of
// several, or another matcher.
template <typename Part>
auto MessagePart(const Part& part) {
  if constexpr (std::is_constructible_v<std::string, Part>) {
    return ::testing::HasSubstr(std::string(part));
  } else if constexpr (std::is_same_v<Part, std::vector<std::string>>) {
    std::vector<::testing::Matcher<std::string>> all;
    for (const std::string& text : part) {
      all.push_back(::testing::HasSubstr(text));
    }
    return ::testing::AllOfArray(all);
  } else {
    return part;
  }
}

// NotFound("step 7", Not(HasSubstr("step 8"))): the code, and a message that
// has all these parts.
#define CKPTDB_STATUS_MATCHER(Code)                                         \
  template <typename... Parts>                                              \
  auto Code(const Parts&... parts) {                                        \
    return StatusIs(absl::StatusCode::k##Code,                              \
                    ::testing::AllOf(::testing::_, MessagePart(parts)...)); \
  }
CKPTDB_STATUS_MATCHER(Aborted)
CKPTDB_STATUS_MATCHER(AlreadyExists)
CKPTDB_STATUS_MATCHER(Cancelled)
CKPTDB_STATUS_MATCHER(DataLoss)
CKPTDB_STATUS_MATCHER(FailedPrecondition)
CKPTDB_STATUS_MATCHER(Internal)
CKPTDB_STATUS_MATCHER(InvalidArgument)
CKPTDB_STATUS_MATCHER(NotFound)
CKPTDB_STATUS_MATCHER(OutOfRange)
CKPTDB_STATUS_MATCHER(PermissionDenied)
CKPTDB_STATUS_MATCHER(ResourceExhausted)
CKPTDB_STATUS_MATCHER(Unavailable)
CKPTDB_STATUS_MATCHER(Unimplemented)
#undef CKPTDB_STATUS_MATCHER

// GoogleMock's matchers, for tests in this namespace.
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

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
