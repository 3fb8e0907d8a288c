// SPDX-License-Identifier: Apache-2.0
// What nearly every test uses: GoogleTest, matchers, and the usual containers.
#ifndef CKPTDB_TESTS_SUPPORT_TEST_H_
#define CKPTDB_TESTS_SUPPORT_TEST_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {

using ::testing::ElementsAreArray;
using ::testing::EndsWith;
using ::testing::StartsWith;

template <typename... Parts>
auto DeadlineExceeded(const Parts&... parts) {
  return StatusIs(absl::StatusCode::kDeadlineExceeded,
                  AllOf(::testing::_, MessagePart(parts)...));
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_TEST_H_
