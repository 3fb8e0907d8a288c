// SPDX-License-Identifier: Apache-2.0
// The documents state the error bounds that
// Bf16.SmallNumbersAreOffByTheConstant and
// Int8.NarrowRowsAreOffByTheRoundingToo measure.
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/source_folder.h"

namespace ckptdb::testing {
namespace {

using ::testing::HasSubstr;

// Joins the lines of comments, which may wrap anywhere.
std::string TextOf(const std::string& path) {
  std::ifstream file(SourcePath(path));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return absl::StrReplaceAll(text, {{"\n// ", " "}});
}

TEST(LossyDocuments, StateTheMeasuredBounds) {
  constexpr std::pair<const char*, const char*> kStatements[] = {
      {"docs/manager.md",
       "| 1/256 of itself, or 2^-134 (4.6e-41) if that is "
       "more |"},
      {"docs/manager.md",
       "| 1/509 of its row's range, about half a "
       "quantization step, plus half the distance between "
       "two f32 at the row's largest magnitude |"},
      {"docs/format.md", "at most |x| / 256 or 2^-134, whichever is more"},
      {"schema/types.h", "most 1/256 of the number, or 2^-134 if that is more"},
      {"schema/types.h", "The error is at most 1/509 of this"},
  };
  for (const auto& [path, statement] : kStatements) {
    EXPECT_THAT(TextOf(path), HasSubstr(statement)) << path;
  }
}

}  // namespace
}  // namespace ckptdb::testing
