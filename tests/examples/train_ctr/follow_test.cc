// SPDX-License-Identifier: Apache-2.0
// A process that follows a trainer ends with the trainer's state.
#include <csignal>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/examples/train_ctr/program.h"
#include "tests/support/temp_dir.h"

namespace train_ctr {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The first step that is saved has so many rows that some steps more change
// only a part of them.
constexpr int kFirst = 60;

class FollowTest : public ::testing::Test {
 protected:
  // Goes on to `step`, and saves every three steps.
  std::vector<std::string> TrainerArguments(int step) const {
    const std::string save_every = std::to_string(step == kFirst ? kFirst : 3);
    return {"--store",       store_,     "--steps",   std::to_string(step),
            "--save-every",  save_every, "--batch",   "32",
            "--dim",         dim_,       "--hidden",  "8",
            "--erase-after", "20",       "--shuffle", "20",
            "--keep",        keep_,      "--delta",   "--base-every",
            base_every_,     "--resume"};
  }

  ProgramResult Train(int step, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = TrainerArguments(step);
    arguments.insert(arguments.end(), more.begin(), more.end());
    ProgramResult result = RunProgram(dir_.path(), arguments);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    if (result.exit_code == 0) digest_ = result.json["digest"];
    return result;
  }

  std::vector<std::string> FollowerArguments() const {
    return {"--follow", "--store", store_, "--poll-ms", "2"};
  }
  std::vector<std::string> FollowerArguments(int until) const {
    std::vector<std::string> arguments = FollowerArguments();
    arguments.insert(arguments.end(), {"--until-step", std::to_string(until)});
    return arguments;
  }
  std::string FollowerReport() const { return dir_.path() + "/follower.json"; }

  // It has the state of the trainer's last run, and went from step to step.
  void CheckFollowed(const ProgramResult& follower, int step) {
    ASSERT_EQ(follower.exit_code, 0) << follower.errors;
    EXPECT_EQ(follower.json["step"], step);
    EXPECT_EQ(follower.json["digest"], digest_) << follower.errors;
    nlohmann::json at = nullptr;
    for (const auto& restore : follower.json["restores"]) {
      EXPECT_EQ(restore["from"], at);
      at = restore["to"];
      EXPECT_GE(restore["ms"], 0.0);
    }
    EXPECT_EQ(at, step);
  }

  static std::vector<std::string> Kinds(const ProgramResult& follower) {
    std::vector<std::string> kinds;
    for (const auto& restore : follower.json["restores"]) {
      kinds.push_back(restore["kind"]);
    }
    return kinds;
  }

  const ckptdb::testing::TempDir dir_;
  const std::string store_ = dir_.path() + "/store";
  std::string dim_ = "4";
  std::string keep_ = "2";
  std::string base_every_ = "0";
  std::string digest_;
};

TEST_F(FollowTest, GoesByChangesFromSaveToSave) {
  Train(kFirst);
  Program follower(FollowerReport(), FollowerArguments(kFirst + 9));
  ASSERT_THAT(follower.NextLine(),
              HasSubstr("step 60 reached from nothing: whole"));
  for (int step = kFirst + 3; step <= kFirst + 9; step += 3) {
    const ProgramResult trainer = Train(step);
    ASSERT_EQ(trainer.json["saves"].size(), 1u) << trainer.errors;
    EXPECT_EQ(trainer.json["saves"][0]["kind"], "delta");
    ASSERT_THAT(follower.NextLine(),
                HasSubstr("step " + std::to_string(step) + " reached from " +
                          std::to_string(step - 3) + ": by changes"));
  }
  const ProgramResult result = follower.Finish();
  ASSERT_NO_FATAL_FAILURE(CheckFollowed(result, kFirst + 9));
  EXPECT_THAT(Kinds(result),
              ElementsAre("full", "changes", "changes", "changes"));
}

TEST_F(FollowTest, GoesOverSeveralSavesAtOnce) {
  Train(kFirst);
  Program follower(FollowerReport(), FollowerArguments(kFirst + 12));
  ASSERT_THAT(follower.NextLine(), HasSubstr("step 60 reached"));
  follower.Pause();
  Train(kFirst + 12);
  follower.Signal(SIGCONT);
  const ProgramResult result = follower.Finish();
  ASSERT_NO_FATAL_FAILURE(CheckFollowed(result, kFirst + 12));
  EXPECT_THAT(Kinds(result), ElementsAre("full", "changes"));
}

TEST_F(FollowTest, ReadsFullSavesBetween) {
  keep_ = "9";  // or it is luck whether the steps on the way are gone
  Train(kFirst);
  Program follower(FollowerReport(), FollowerArguments(kFirst + 15));
  ASSERT_THAT(follower.NextLine(), HasSubstr("step 60 reached"));
  base_every_ = "1";
  Train(kFirst + 3);
  ASSERT_THAT(follower.NextLine(), HasSubstr("step 63 reached from 60: whole"));
  base_every_ = "0";
  Train(kFirst + 6);
  ASSERT_THAT(follower.NextLine(),
              HasSubstr("step 66 reached from 63: by changes"));
  follower.Pause();
  base_every_ = "2";  // step 69, and so there are deltas after it
  const ProgramResult trainer = Train(kFirst + 15);
  follower.Signal(SIGCONT);
  EXPECT_EQ(trainer.json["saves"][0]["kind"], "full");
  EXPECT_EQ(trainer.json["saves"][1]["kind"], "delta");
  const ProgramResult result = follower.Finish();
  ASSERT_NO_FATAL_FAILURE(CheckFollowed(result, kFirst + 15));
  EXPECT_THAT(Kinds(result), ElementsAre("full", "full", "changes", "full"));
}

TEST_F(FollowTest, StartsLate) {
  Train(kFirst);
  Train(kFirst + 12);
  Program follower(FollowerReport(), FollowerArguments(kFirst + 12));
  const ProgramResult result = follower.Finish();
  ASSERT_NO_FATAL_FAILURE(CheckFollowed(result, kFirst + 12));
  EXPECT_THAT(Kinds(result), ElementsAre("full"));
}

// As fast as both can; which steps it sees is a matter of luck.
TEST_F(FollowTest, RunsBesideATrainer) {
  for (const std::string dim : {"4", "1024"}) {
    dim_ = dim;
    std::filesystem::remove_all(store_);
    Train(kFirst);
    const int last = kFirst + (dim == "4" ? 60 : 21);
    Program follower(FollowerReport(), FollowerArguments(last));
    const ProgramResult trainer = Train(last);
    if (trainer.exit_code != 0) follower.Signal(SIGTERM);
    ASSERT_NO_FATAL_FAILURE(CheckFollowed(follower.Finish(), last));
  }
}

// The steps that the trainer gave up cannot be undone by changes, as they are
// gone.
TEST_F(FollowTest, FollowsATrainerThatGoesBack) {
  Train(kFirst);
  Program follower(FollowerReport(), FollowerArguments());
  ASSERT_THAT(follower.NextLine(), HasSubstr("step 60 reached"));
  Train(kFirst + 3);
  ASSERT_THAT(follower.NextLine(), HasSubstr("step 63 reached"));
  Train(kFirst + 6);
  ASSERT_THAT(follower.NextLine(), HasSubstr("step 66 reached"));
  const ProgramResult trainer = Train(kFirst + 4, {"--resume-step", "63"});
  EXPECT_EQ(trainer.json["resumed_from"], 63);
  ASSERT_THAT(follower.NextLine(), HasSubstr("step 64 reached from 66: whole"));
  follower.Signal(SIGTERM);
  ASSERT_NO_FATAL_FAILURE(CheckFollowed(follower.Finish(), kFirst + 4));
}

TEST_F(FollowTest, EndsOnASignal) {
  Train(kFirst);
  for (const int signal : {SIGINT, SIGTERM}) {
    Program follower(FollowerReport(), FollowerArguments());
    ASSERT_THAT(follower.NextLine(), HasSubstr("step 60 reached"));
    follower.Signal(signal);
    ASSERT_NO_FATAL_FAILURE(CheckFollowed(follower.Finish(), kFirst));
  }
}

TEST_F(FollowTest, WaitsForAStore) {
  Program follower(FollowerReport(), FollowerArguments(1));
  ASSERT_THAT(follower.NextLine(),
              HasSubstr("waiting for a store at " + store_));
  follower.Signal(SIGTERM);
  const ProgramResult result = follower.Finish();
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(result.json["step"].is_null());
  EXPECT_TRUE(result.json["restores"].empty());
}

TEST_F(FollowTest, RefusesWrongFlags) {
  const auto errors_of = [this](const std::vector<std::string>& arguments) {
    const ProgramResult result = RunProgram(dir_.path(), arguments);
    EXPECT_NE(result.exit_code, 0);
    return result.errors;
  };
  EXPECT_THAT(errors_of({"--follow", "--store", store_, "--steps", "9"}),
              AllOf(HasSubstr("--follow"), HasSubstr("--steps")));
  EXPECT_THAT(errors_of({"--follow", "--store", store_, "--poll-ms", "0"}),
              HasSubstr("--poll-ms 0 is less than 1"));
  EXPECT_THAT(errors_of({"--follow", "--store", store_, "--until-step", "-1"}),
              HasSubstr("--until-step -1 is less than 0"));
  EXPECT_THAT(errors_of({"--store", store_, "--until-step", "5"}),
              AllOf(HasSubstr("--until-step"), HasSubstr("--follow")));
}

}  // namespace
}  // namespace train_ctr
