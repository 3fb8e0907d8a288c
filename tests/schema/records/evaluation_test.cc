// SPDX-License-Identifier: Apache-2.0
#include "schema/records/evaluation.h"

#include <functional>
#include <string>

#include "schema/records/record_checks.h"
#include "schema/types.h"
#include "tests/schema/samples.h"
#include "tests/support/status_matchers.h"

namespace ckptdb {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SampleEvaluation;
using ::testing::StartsWith;
using testing::StatusIs;

auto IsBadRecord(const std::string& words) {
  return StatusIs(absl::StatusCode::kDataLoss,
                  AllOf(StartsWith("evaluation record: "), HasSubstr(words)));
}

// Returns the result of decoding the sample after one change.
absl::StatusOr<StepRecord::Evaluation> DecodeChanged(
    const std::function<void(StepRecord::Evaluation*)>& change) {
  StepRecord::Evaluation record = SampleEvaluation();
  change(&record);
  return DecodeEvaluationRecord(internal::EncodeUnchecked(record));
}

TEST(EvaluationRecord, RoundTrip) {
  ASSERT_OK_AND_ASSIGN(const StepRecord::Evaluation all,
                       DecodeChanged([](StepRecord::Evaluation*) {}));
  EXPECT_EQ(all, SampleEvaluation());
  const StepRecord::Evaluation least{{0, 1}, "e", "g", 0, 1, {}};
  ASSERT_OK_AND_ASSIGN(
      const StepRecord::Evaluation back,
      DecodeEvaluationRecord(internal::EncodeUnchecked(least)));
  EXPECT_EQ(back, least);
}

TEST(EvaluationRecord, RejectsWrongFields) {
  EXPECT_THAT(DecodeChanged([](auto* r) { r->version.step = -1; }),
              IsBadRecord("version has negative step -1"));
  EXPECT_THAT(DecodeChanged([](auto* r) { r->version.attempt = 0; }),
              IsBadRecord("version has attempt 0"));
  EXPECT_THAT(DecodeChanged([](auto* r) { r->evaluation = ""; }),
              IsBadRecord("evaluation \"\" is empty"));
  EXPECT_THAT(DecodeChanged([](auto* r) { r->evaluation = "\xff"; }),
              IsBadRecord("evaluation \"\\xff\" is not UTF-8 at byte 0"));
  EXPECT_THAT(DecodeChanged([](auto* r) { r->group = std::string("a\0", 2); }),
              IsBadRecord("group \"a\\x00\" has a NUL at byte 1"));
  EXPECT_THAT(DecodeChanged([](auto* r) { r->world_size = 0; }),
              IsBadRecord("world size 0 is out of range; expected 1 to 65536"));
  EXPECT_THAT(
      DecodeChanged([](auto* r) { r->world_size = kMaxWorldSize + 1; }),
      IsBadRecord("world size 65537 is out of range; expected 1 to 65536"));
  EXPECT_THAT(DecodeChanged([](auto* r) { r->rank = 2; }),
              IsBadRecord("rank 2 is out of range for world size 2"));
}

TEST(EvaluationRecord, BytesBelowAtAndOverTheLimit) {
  const auto sized = [](size_t bytes) {
    return DecodeChanged([bytes](StepRecord::Evaluation* record) {
      record->part.meters = std::string(bytes / 2, 'm');
      record->part.loader = std::string(bytes - bytes / 2, 'l');
    });
  };
  EXPECT_OK(sized(kMaxEvaluationBytes - 1));
  EXPECT_OK(sized(kMaxEvaluationBytes));
  EXPECT_THAT(
      sized(kMaxEvaluationBytes + 1),
      IsBadRecord(
          "meters and loader have 8388609 bytes; the limit is 8388608"));
}

}  // namespace
}  // namespace ckptdb
