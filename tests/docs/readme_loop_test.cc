// SPDX-License-Identifier: Apache-2.0
// The loop of README.md between runs: resumed, with a changed model, with
// damage, in the wrong folder. It never starts over where a model was trained.
#include <ckptdb/ckptdb.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/support/row_files.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

// Train(folder) of README.md as it stands there, and with one line changed.
namespace as_written {
#include "readme/loop.inc"
}
namespace table_renamed {
#include "readme/renamed.inc"
}
namespace tensor_added {
#include "readme/with_tensor.inc"
}
namespace many_rows {
#include "readme/many_rows.inc"
}

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ReadmeLoop : public ::testing::Test {
 protected:
  using Loop = absl::Status (*)(const std::string&);

  // Returns what a run printed, and its status.
  std::string Run(Loop loop, const std::string& folder, absl::Status* status) {
    ::testing::internal::CaptureStdout();
    *status = loop(folder);
    return ::testing::internal::GetCapturedStdout();
  }
  std::string RunWell(Loop loop, const std::string& folder) {
    absl::Status status;
    std::string printed = Run(loop, folder, &status);
    EXPECT_OK(status);
    return printed;
  }
  // Runs it to its error: it trains nothing, and the store is as it was.
  absl::Status RunToError(Loop loop) {
    const std::vector<std::string> before = Steps();
    absl::Status status;
    EXPECT_EQ(Run(loop, folder_, &status), "");
    EXPECT_EQ(Steps(), before);
    return status;
  }

  // The steps of the store, each with the attempt that saved it.
  std::vector<std::string> Steps() const {
    std::vector<std::string> steps;
    const auto reader = Reader::Open(folder_, {});
    EXPECT_OK(reader.status());
    if (!reader.ok()) return steps;
    for (const StepRecord& record : (*reader)->Steps()) {
      steps.push_back(absl::StrCat(record.version.step, " by attempt ",
                                   record.version.attempt));
    }
    return steps;
  }
  void SetQuarantined(int64_t step) const {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(folder_, {}));
    ASSERT_OK(store->Quarantine(step));
  }
  TempDir dir_;
  const std::string folder_ = dir_.path() + "/store";
};

TEST_F(ReadmeLoop, StartsFreshOnceAndThenResumes) {
  EXPECT_EQ(RunWell(as_written::Train, folder_),
            absl::StrCat("fresh start: store \"", folder_,
                         "\" has no step\nstep 1000: user 17 has 999\n"));
  const std::vector<std::string> saved = Steps();
  EXPECT_EQ(RunWell(as_written::Train, folder_),
            absl::StrCat("restored step 1000 from \"", folder_,
                         "\"\nstep 1000: user 17 has 999\n"));
  EXPECT_EQ(Steps(), saved);
}

TEST_F(ReadmeLoop, RefusesAStepThatLacksATensorOrATable) {
  RunWell(as_written::Train, folder_);
  EXPECT_THAT(RunToError(tensor_added::Train),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("step 1000"), HasSubstr("\"bias\""))));
  EXPECT_THAT(RunToError(table_renamed::Train),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("step 1000"), HasSubstr("\"member\""))));
}

TEST_F(ReadmeLoop, ReturnsTheDamageOfTheNewestStep) {
  RunWell(as_written::Train, folder_);
  ASSERT_NO_FATAL_FAILURE(DamageStep(folder_, 1000));
  EXPECT_THAT(RunToError(as_written::Train),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("step 1000")));
}

TEST_F(ReadmeLoop, ReturnsTheDamageOfTheBase) {
  RunWell(many_rows::Train, folder_);
  // The only full step, of which the newest one is made, is the largest file.
  std::filesystem::path base;
  uintmax_t largest = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_ + "/db")) {
    if (entry.path().extension() != ".sst" || entry.file_size() <= largest) {
      continue;
    }
    largest = entry.file_size();
    base = entry.path();
  }
  ASSERT_GT(largest, 512U << 10);
  ASSERT_NO_FATAL_FAILURE(DamageFile(base));
  EXPECT_THAT(RunToError(many_rows::Train),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("the restore of step 1000: step 100 ")));
}

TEST_F(ReadmeLoop, RestoresTheStepBeforeAQuarantinedOne) {
  RunWell(as_written::Train, folder_);
  ASSERT_NO_FATAL_FAILURE(SetQuarantined(1000));
  EXPECT_EQ(RunWell(as_written::Train, folder_),
            absl::StrCat("restored step 900 from \"", folder_,
                         "\"\nstep 1000: user 17 has 999\n"));
}

TEST_F(ReadmeLoop, RefusesAStoreWhoseStepsAreAllQuarantined) {
  RunWell(as_written::Train, folder_);
  for (const int64_t step : {800, 900, 1000}) {
    ASSERT_NO_FATAL_FAILURE(SetQuarantined(step));
  }
  EXPECT_THAT(
      RunToError(as_written::Train),
      StatusIs(absl::StatusCode::kDataLoss,
               AllOf(HasSubstr("steps are quarantined"), HasSubstr("verify"))));
}

TEST_F(ReadmeLoop, SaysWhereItStartsInTheWrongFolder) {
  RunWell(as_written::Train, folder_);
  const std::string other = dir_.path() + "/stroe";
  EXPECT_THAT(RunWell(as_written::Train, other),
              HasSubstr(absl::StrCat("fresh start: store \"", other,
                                     "\" has no step")));
  const std::string file = dir_.path() + "/a file";
  std::ofstream(file) << "not a store";
  absl::Status status;
  EXPECT_EQ(Run(as_written::Train, file, &status), "");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("a file")));
}

}  // namespace
}  // namespace ckptdb::testing
