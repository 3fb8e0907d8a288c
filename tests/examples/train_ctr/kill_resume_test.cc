// SPDX-License-Identifier: Apache-2.0
// A run that is killed and resumed ends like one that was not, wherever it was
// killed.
#include <csignal>
#include <random>
#include <string>
#include <vector>

#include "db/options.h"
#include "db/store.h"
#include "schema/bytes/limits.h"
#include "schema/types.h"
#include "tests/examples/train_ctr/program.h"
#include "tests/examples/train_ctr/workloads.h"
#include "tests/support/long_run.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace train_ctr {
namespace {

using ::ckptdb::testing::kSanitized;
using ::ckptdb::testing::TestSeed;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kSteps = 18;
constexpr int kSaveEvery = 3;
constexpr int kCrashStep = 12;
// A run takes ten times as long under a sanitizer.
size_t PointStride() {
  if (ckptdb::testing::IsLongRun()) return 1;
  return kSanitized ? 19 : 3;
}

// How many saves lie between two kills.
constexpr int kSavesPerKill = kSanitized ? 3 : 1;

bool IsCommittedAt(const std::string& point) {
  bool committed = false;
  for (const absl::string_view each : ckptdb::kCrashPoints) {
    committed |= each == ckptdb::point::kCommitted;
    if (point == std::string(each)) return committed;
  }
  return false;
}

class KillResumeTest : public ::testing::TestWithParam<Workload> {
 protected:
  void SetUp() override {
    if (!PrepareLog(GetParam(), dir_.path(), &arguments_)) {
      GTEST_SKIP() << "no " << GetParam().shared_file << " in " << SharedData()
                   << "; CKPTDB_DATA names the folder";
    }
  }

  // Trains to `steps` in the store of this name.
  ProgramResult Train(const std::string& store,
                      const std::vector<std::string>& more = {},
                      int steps = kSteps) {
    std::vector<std::string> arguments = arguments_;
    arguments.insert(
        arguments.end(),
        {"--store", StorePath(store), "--steps", std::to_string(steps),
         "--save-every", std::to_string(kSaveEvery), "--keep", "2",
         "--erase-after", "5", "--shuffle", "20"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunProgram(dir_.path(), arguments);
  }

  // Each workload takes one point in so many, another one than the workload
  // before; the seed chooses where the first begins.
  static std::vector<std::string> TakeTurns(
      const std::vector<std::string>& points) {
    const std::vector<Workload> workloads = Workloads();
    size_t at = 0;
    while (workloads[at].name != GetParam().name) ++at;
    const size_t stride = PointStride();
    std::vector<std::string> taken;
    for (at = (at + TestSeed()) % stride; at < points.size(); at += stride) {
      taken.push_back(points[at]);
    }
    return taken;
  }

  // The digest of a run that nothing interrupts.
  std::string UninterruptedDigest() {
    const ProgramResult result = Train("uninterrupted");
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.exit_code == 0 ? result.json["digest"] : "";
  }

  // Only the two newest steps are there, and a sweep leaves nothing else.
  void CheckStore(const std::string& name) {
    ASSERT_OK_AND_ASSIGN(const auto store,
                         ckptdb::Store::Open(StorePath(name)));
    std::vector<int64_t> steps;
    for (const auto& record : store->Steps()) {
      steps.push_back(record.version.step);
    }
    EXPECT_THAT(steps, ElementsAre(kSteps - kSaveEvery, kSteps));
    ASSERT_OK(store->Sweep());
    ASSERT_OK_AND_ASSIGN(const ckptdb::Usage usage, store->GetUsage());
    for (const ckptdb::Usage::Held& other : usage.held_versions) {
      // The deltas that the two go on from.
      EXPECT_GT(GetParam().base_every, 0);
      EXPECT_EQ(other.reason, ckptdb::Usage::Held::Reason::kReferenced)
          << ToString(other.version);
    }
  }

  // The save before may still have gone on when the process died in training.
  static void ExpectResumedFrom(int64_t step, const std::string& point) {
    const int64_t before = kCrashStep - kSaveEvery;
    if (point.empty()) {
      EXPECT_THAT(step, AnyOf(before - kSaveEvery, before));
    } else {
      EXPECT_EQ(step, IsCommittedAt(point) ? kCrashStep : before);
    }
  }

  std::string StorePath(const std::string& store) const {
    return dir_.path() + "/" + store;
  }

  ckptdb::testing::TempDir dir_;
  std::vector<std::string> arguments_;
};

TEST_P(KillResumeTest, EndsTheSameFromEveryPoint) {
  const std::string expected = UninterruptedDigest();
  std::vector<std::string> points = {""};  // before the save
  for (const absl::string_view point : ckptdb::kCrashPoints) {
    points.emplace_back(point);
  }
  for (const std::string& point : TakeTurns(points)) {
    SCOPED_TRACE("at point \"" + point + "\"");
    const std::string store = "store" + point;
    const std::string crash =
        std::to_string(kCrashStep) + (point.empty() ? "" : ":" + point);
    const ProgramResult killed = Train(store, {"--crash-at", crash});
    ASSERT_EQ(killed.signal, SIGKILL) << killed.errors;

    const ProgramResult resumed = Train(store, {"--resume"});
    ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
    ExpectResumedFrom(resumed.json["resumed_from"], point);
    EXPECT_EQ(resumed.json["digest"], expected);
    EXPECT_EQ(resumed.json["step"], kSteps);
    CheckStore(store);
  }
}

// Killed again and again, at points that the seed chooses.
TEST_P(KillResumeTest, EndsTheSameAfterManyKills) {
  std::mt19937_64 random(TestSeed());
  const std::string expected = UninterruptedDigest();
  const auto& points = ckptdb::kCrashPoints;
  for (int step = kSaveEvery; step < kSteps;
       step += kSavesPerKill * kSaveEvery) {
    const std::string point(points[random() % points.size()]);
    const std::string crash = std::to_string(step) + ":" + point;
    SCOPED_TRACE("killed at " + crash);
    const ProgramResult killed =
        Train("store", {"--resume", "--crash-at", crash});
    ASSERT_EQ(killed.signal, SIGKILL) << killed.errors;
  }
  const ProgramResult resumed = Train("store", {"--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_EQ(resumed.json["digest"], expected);
  CheckStore("store");
}

TEST_P(KillResumeTest, ReportsItsSaves) {
  const ProgramResult result = Train("store", {"--eval-every", "4"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(result.json["resumed_from"].is_null());
  EXPECT_GT(result.json["rows"], 0);
  EXPECT_GT(result.json["loss"], 0.0);
  EXPECT_GT(result.json["auc"], 0.0);
  const auto& saves = result.json["saves"];
  ASSERT_EQ(saves.size(), size_t{kSteps / kSaveEvery});
  for (size_t s = 0; s < saves.size(); ++s) {
    EXPECT_EQ(saves[s]["step"], (s + 1) * kSaveEvery);
    const bool full =
        GetParam().base_every == 0 || s % size_t(GetParam().base_every) == 0;
    EXPECT_EQ(saves[s]["kind"], full ? "full" : "delta");
    EXPECT_EQ(saves[s].contains("base_reason"),
              full && GetParam().base_every > 0);
    EXPECT_GT(saves[s]["rows_upserted"], 0);
    EXPECT_EQ(saves[s]["rows_erased"] > 0, !full && s > 1) << s;
    EXPECT_GT(saves[s]["bytes"], 0);
    EXPECT_GT(saves[s]["blocking_ms"], 0.0);
    EXPECT_GT(saves[s]["commit_ms"], 0.0);
  }
  const bool bulk = saves.back()["bytes"] > ckptdb::kInlineBytes;
  EXPECT_EQ(bulk, GetParam().size == SaveSize::kBulk) << saves.back()["bytes"];
}

INSTANTIATE_TEST_SUITE_P(Workloads, KillResumeTest,
                         ::testing::ValuesIn(Workloads()),
                         [](const auto& workload) {
                           return workload.param.name;
                         });

class ResumeTest : public KillResumeTest {};

TEST_P(ResumeTest, FinishedRunOnlyReports) {
  const std::string expected = UninterruptedDigest();
  const ProgramResult again = Train("uninterrupted", {"--resume"});
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(again.json["digest"], expected);
  EXPECT_EQ(again.json["resumed_from"], kSteps);
  EXPECT_TRUE(again.json["saves"].empty());
}

TEST_P(ResumeTest, StartsAtTheBeginningOfAnEmptyStore) {
  const ProgramResult result = Train("store", {"--resume"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.json["digest"], UninterruptedDigest());
}

TEST_P(ResumeTest, RejectsAStoreWithStepsWithoutResume) {
  UninterruptedDigest();
  const ProgramResult result = Train("uninterrupted");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("ALREADY_EXISTS"), HasSubstr("has step 18"),
                    HasSubstr("--resume")));
}

TEST_P(ResumeTest, RejectsOtherOptions) {
  UninterruptedDigest();
  const ProgramResult other =
      Train("uninterrupted", {"--resume", "--seed", "5"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.errors,
              AllOf(HasSubstr("trained with seed 1"), HasSubstr("seed 5")));
  const ProgramResult fewer = Train("uninterrupted", {"--resume"}, 15);
  EXPECT_EQ(fewer.exit_code, 1);
  EXPECT_THAT(fewer.errors, HasSubstr("is at step 18, after the last of 15"));
}

TEST_P(ResumeTest, ResumesAnOlderStep) {
  const std::string expected = UninterruptedDigest();
  for (const std::string abandoned : {"keep", "remove"}) {
    const ProgramResult resumed =
        Train("uninterrupted",
              {"--resume-step", "15", "--abandoned", abandoned, "--delta"});
    ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
    EXPECT_EQ(resumed.json["resumed_from"], 15);
    EXPECT_EQ(resumed.json["digest"], expected);
    ASSERT_EQ(resumed.json["saves"].size(), 1u);
    EXPECT_EQ(resumed.json["saves"][0]["kind"], "delta");
  }
  const ProgramResult none = Train("uninterrupted", {"--resume-step", "4"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.errors, HasSubstr("no step 4; the step after it is 15"));
}

INSTANTIATE_TEST_SUITE_P(Generated, ResumeTest,
                         ::testing::Values(Workloads().front()));

TEST(CommandLine, LogErrorsNameTheLine) {
  const ckptdb::testing::TempDir dir;
  WriteFile(dir.path() + "/log", MovieLensLog(9, 1, "\t") + "1\t2\tx\t4\n" +
                                     MovieLensLog(9, 2, "\t"));
  const ProgramResult result =
      RunProgram(dir.path(), {"--store", dir.path() + "/store", "--steps", "9",
                              "--batch", "4", "--save-every", "9", "--data",
                              dir.path() + "/log", "--format", "movielens"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors,
              HasSubstr("/log:10: rating \"x\" is not a finite number"));
}

TEST(CommandLine, RefusesWrongValues) {
  const ckptdb::testing::TempDir dir;
  const auto errors_with = [&dir](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"--store", dir.path() + "/store",
                                          "--steps", "9"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = RunProgram(dir.path(), arguments);
    EXPECT_NE(result.exit_code, 0);
    return result.errors;
  };
  EXPECT_THAT(errors_with({}), HasSubstr("--save-every"));
  EXPECT_THAT(errors_with({"--save-every", "0"}),
              HasSubstr("--save-every 0 is less than 1"));
  EXPECT_THAT(errors_with({"--save-every", "3", "--data", "log"}),
              HasSubstr("--data needs --format"));
  EXPECT_THAT(errors_with({"--save-every", "3", "--base-every", "3"}),
              AllOf(HasSubstr("--base-every"), HasSubstr("--delta")));
  EXPECT_THAT(
      errors_with({"--save-every", "3", "--delta", "--base-every", "-1"}),
      HasSubstr("--base-every -1 is less than 0"));
  EXPECT_THAT(errors_with({"--save-every", "3", "--abandoned", "sell"}),
              AllOf(HasSubstr("--abandoned"), HasSubstr("sell")));
  EXPECT_THAT(errors_with({"--save-every", "3", "--crash-at", "10"}),
              HasSubstr("--crash-at 10 is after the last of 9 steps"));
  EXPECT_THAT(errors_with({"--save-every", "3", "--crash-at", "4:stage:done"}),
              HasSubstr("step 4 is not saved, every 3 are"));
  EXPECT_THAT(errors_with({"--save-every", "3", "--crash-at", "3:stage:end"}),
              HasSubstr("there is no point \"stage:end\""));
}

TEST(RealDataTest, LearnsMovieLens) {
  // How well it learns is the same under a sanitizer, and the workloads above
  // run the same code.
  if (kSanitized) GTEST_SKIP() << "takes a minute under a sanitizer";
  const std::string log = SharedData() + "/ml-100k/u.data";
  if (!std::filesystem::exists(log)) {
    GTEST_SKIP() << "no " << log << "; CKPTDB_DATA names the folder";
  }
  const ckptdb::testing::TempDir dir;
  const ProgramResult result =
      RunProgram(dir.path(), {"--store", dir.path() + "/store", "--steps",
                              "1500", "--batch", "128", "--save-every", "1500",
                              "--data", log, "--format", "movielens"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_GT(result.json["auc"], 0.72);
}

}  // namespace
}  // namespace train_ctr
