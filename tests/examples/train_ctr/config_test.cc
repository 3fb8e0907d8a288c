// SPDX-License-Identifier: Apache-2.0
// The trainer with a configuration of its manager, an evaluation that is cut
// off, and a signal that ends it.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "db/reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/examples/train_ctr/program.h"
#include "tests/support/source_folder.h"
#include "tests/support/temp_dir.h"

namespace train_ctr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ConfigTest : public ::testing::Test {
 protected:
  std::string StorePath(const std::string& store) const {
    return dir_.path() + "/" + store;
  }

  std::vector<std::string> Arguments(const std::string& store, int steps,
                                     const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "--store",         StorePath(store),
        "--steps",         std::to_string(steps),
        "--batch",         "16",
        "--zipf-examples", "600",
        "--erase-after",   "5",
        "--holdout",       "0.2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  ProgramResult Train(const std::string& store, int steps,
                      const std::vector<std::string>& more) {
    return RunProgram(dir_.path(), Arguments(store, steps, more));
  }
  ProgramResult TrainWith(const std::string& store, int steps,
                          const std::string& config) {
    const std::string path = dir_.path() + "/config.json";
    std::ofstream(path) << config;
    return Train(store, steps, {"--config", path});
  }

  static std::vector<int> SavedSteps(const ProgramResult& result) {
    std::vector<int> steps;
    for (const auto& save : result.json["saves"]) steps.push_back(save["step"]);
    return steps;
  }

  ckptdb::testing::TempDir dir_;
};

TEST_F(ConfigTest, SchedulesSaves) {
  const ProgramResult result = TrainWith(
      "store", 12,
      R"({"permanent": {"save_at_steps": [4, 9]}, "keep": "keep_all", "async": false,
          "first_save": "always"})");
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  // The first step and the last one, besides.
  EXPECT_THAT(SavedSteps(result), ElementsAre(0, 4, 9, 12));
}

// The first block of JSON after a heading of the document.
std::string SampleOf(const std::string& document, const std::string& heading) {
  const std::string text = ReadFile(document);
  const std::string begin = "```json\n";
  const size_t section = text.find("\n## " + heading + "\n");
  const size_t at = text.find(begin, section);
  if (section == std::string::npos || at == std::string::npos) {
    ADD_FAILURE() << "no sample under " << heading << " in " << document;
    return "";
  }
  const size_t from = at + begin.size();
  return text.substr(from, text.find("```", from) - from);
}

// As it stands there but for a path, for so long that its retention has
// something to remove.
TEST_F(ConfigTest, DocumentedSampleRetainsAsDescribed) {
  std::string sample = SampleOf(ckptdb::testing::SourcePath("docs/manager.md"),
                                "Configuration files");
  const std::string statistics = dir_.path() + "/saves.jsonl";
  const std::string relative = "\"saves.jsonl\"";
  const size_t at = sample.find(relative);
  ASSERT_NE(at, std::string::npos);
  sample.replace(at, relative.size(), "\"" + statistics + "\"");
  const auto json = nlohmann::json::parse(sample, nullptr, false);
  ASSERT_TRUE(json.is_object()) << sample;
  constexpr int kSaves = 12;
  const int every = json["permanent"]["any"][0]["save_every_n_steps"];
  const ProgramResult result = TrainWith("store", every * kSaves, sample);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, Not(HasSubstr("BestN")));
  EXPECT_GE(SavedSteps(result).size(), size_t{kSaves});
  const auto reader = ckptdb::Reader::Open(StorePath("store"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  int permanent = 0;
  for (const ckptdb::StepRecord& step : (*reader)->Steps()) {
    permanent += !step.ephemeral;
  }
  const int latest = json["keep"]["any"][0]["latest_n"];
  const int best = json["keep"]["any"][1]["best_n"]["count"];
  EXPECT_GE(permanent, latest);
  EXPECT_LE(permanent, latest + best);
  EXPECT_FALSE(ReadFile(statistics).empty());
}

// Neither by the schedule nor at the end, although the flags ask for it.
TEST_F(ConfigTest, OneSwitchTurnsSavingOff) {
  const std::string path = dir_.path() + "/off.json";
  std::ofstream(path) << R"({"saving": false})";
  const ProgramResult off =
      Train("off", 12, {"--save-every", "4", "--config", path});
  ASSERT_EQ(off.exit_code, 0) << off.errors;
  EXPECT_THAT(SavedSteps(off), IsEmpty());
  const ProgramResult on = Train("on", 12, {"--save-every", "4"});
  EXPECT_THAT(SavedSteps(on), ElementsAre(4, 8, 12));
  EXPECT_EQ(off.json["digest"], on.json["digest"]);
}

TEST_F(ConfigTest, RejectsWrongOptions) {
  const std::pair<const char*, const char*> cases[] = {
      {"[", "no JSON object"},
      {R"({"permanant": "save_initially"})", R"(did you mean "permanent"?)"},
      {R"({"busy": "wat"})", R"(did you mean "wait"?)"},
      {"{\n  \"busy\": \"wat\"}", "(line 2, column 11)"},
      {R"({"path": "elsewhere"})", R"("elsewhere", but --store)"},
      {R"({"read_only": true})", "read_only"},
      {R"({"load": [{"patch": "p"}]})", R"(did you mean "path"?)"},
      {R"({"load": [], "load": []})", R"(duplicate key "load")"},
      {R"({"keep": {"latest_n": 3, "latest_n": 0}, "load": []})",
       R"(duplicate key "latest_n")"}};
  for (const auto& [config, says] : cases) {
    const ProgramResult result = TrainWith("store", 12, config);
    EXPECT_EQ(result.exit_code, 1) << config;
    EXPECT_THAT(result.errors, HasSubstr(says));
  }
  const ProgramResult none = Train("store", 12, {"--config", "/none.json"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.errors, HasSubstr("/none.json"));
}

// The second machine has only the configuration.
TEST_F(ConfigTest, ResumesFromShippedStepsOnAnotherMachine) {
  const std::string url = "file://" + dir_.path() + "/remote";
  std::filesystem::create_directory(dir_.path() + "/remote");
  const std::string config = R"({"permanent": {"save_every_n_steps": 10},
      "fetch_from": ")" + url +
                             R"(", "ship": {"to": ")" + url +
                             R"(", "look": 0.01}})";
  const ProgramResult first = TrainWith("first", 20, config);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  std::filesystem::remove_all(StorePath("first"));
  const ProgramResult resumed = Train(
      "second", 30, {"--config", dir_.path() + "/config.json", "--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_EQ(resumed.json["resumed_from"], 20);
  const ProgramResult whole = Train("whole", 30, {"--save-every", "10"});
  EXPECT_EQ(resumed.json["digest"], whole.json["digest"]);
}

TEST_F(ConfigTest, LoadsAnotherRunsModel) {
  const ProgramResult first = Train("first", 12, {"--save-every", "6"});
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const ProgramResult second =
      TrainWith("second", 2,
                R"({"load": [{"path": ")" + StorePath("first") +
                    R"(", "load": ["sparse"]}]})");
  ASSERT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_THAT(second.errors, HasSubstr("loaded: sparse \"user\""));
  EXPECT_GE(second.json["rows"], first.json["rows"]);
  const ProgramResult alone = Train("alone", 2, {"--save-every", "6"});
  EXPECT_LT(alone.json["rows"], second.json["rows"]);
}

// At a step in between, and at the last one.
TEST_F(ConfigTest, ResumesAnInterruptedEvaluation) {
  const std::vector<std::string> flags = {
      "--save-every", "3", "--eval-every", "6", "--eval-save-every", "2"};
  const ProgramResult whole = Train("whole", 18, flags);
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  EXPECT_EQ(whole.json["evaluation_resumed_after"], 0);
  for (const std::string step : {"12", "18"}) {
    SCOPED_TRACE(step);
    std::vector<std::string> crashing = flags;
    crashing.insert(crashing.end(), {"--crash-at", step + ":evaluation"});
    const ProgramResult crashed = Train(step, 18, crashing);
    EXPECT_EQ(crashed.signal, SIGKILL) << crashed.errors;
    std::vector<std::string> resuming = flags;
    resuming.emplace_back("--resume");
    const ProgramResult resumed = Train(step, 18, resuming);
    ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
    EXPECT_THAT(resumed.errors, HasSubstr("step " + step + ": loss"));
    EXPECT_THAT(resumed.errors, HasSubstr(", 32 of 120 examples by a run "));
    EXPECT_EQ(resumed.json["evaluation_resumed_after"], step == "18" ? 32 : 0);
    EXPECT_EQ(resumed.json["loss"], whole.json["loss"]);
    EXPECT_EQ(resumed.json["auc"], whole.json["auc"]);
    EXPECT_EQ(resumed.json["digest"], whole.json["digest"]);
  }
}

TEST_F(ConfigTest, SavesOnASignal) {
  constexpr int kMany = 1'000'000;
  Program program(dir_.path() + "/report.json",
                  Arguments("store", kMany, {"--save-every", "20"}));
  ASSERT_THAT(program.NextLine(), HasSubstr("saved"));
  program.Signal(SIGTERM);
  const ProgramResult stopped = program.Finish();
  ASSERT_EQ(stopped.exit_code, 0) << stopped.errors;
  EXPECT_TRUE(stopped.json["preempted"]);
  const int step = stopped.json["step"];
  EXPECT_LT(step, kMany);
  EXPECT_EQ(SavedSteps(stopped).back(), step);
  const ProgramResult resumed =
      Train("store", step + 5, {"--save-every", "20", "--resume"});
  EXPECT_EQ(resumed.json["resumed_from"], step);
  const ProgramResult whole = Train("whole", step + 5, {"--save-every", "20"});
  EXPECT_EQ(resumed.json["digest"], whole.json["digest"]);
}

}  // namespace
}  // namespace train_ctr
