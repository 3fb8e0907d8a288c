// SPDX-License-Identifier: Apache-2.0
// Tests each row of the table "Coming from other libraries" in docs/manager.md.
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "tests/manager/manager_fixture.h"
#include "tests/support/source_folder.h"

namespace ckptdb::testing {
namespace {

constexpr int64_t kElsewhereSecond = 1'000'000;

class ElsewhereObject : public BlobState {
 public:
  std::string words = "none";
  absl::StatusOr<std::string> Dump() override { return words; }
  absl::Status Load(absl::string_view bytes) override {
    words = std::string(bytes);
    return absl::OkStatus();
  }
};

class ElsewhereTest : public ManagerTest {
 protected:
  // Reads a configuration.
  void Configure(absl::string_view json) {
    ASSERT_OK(ReadManagerConfig(json, &options_));
  }
  void Resume() {
    Start();
    ASSERT_OK(manager_->Restore());
  }
  void StepToEach(const std::vector<int64_t>& steps) {
    for (const int64_t step : steps) {
      model_->Train(step);
      ASSERT_OK(manager_->StepTo(step));
      ASSERT_OK(manager_->WaitUntilFinished());
    }
  }

 public:
  void OrbaxSaveIntervals() {
    Configure(R"({"permanent": {"any": [{"save_every_n_steps": 4},
                                      {"save_at_steps": [5]}]}})");
    const auto function = SaveIf(
        "should_save_fn",
        [](const SavePolicy::Context& context) { return context.step == 7; });
    options_.schedule.permanent = options_.schedule.permanent | function;
    Start();
    TrainAndWait(9);
    EXPECT_THAT(Steps(), ElementsAre(4, 5, 7, 8));
  }

  void OrbaxShouldSave() {
    Start();
    int evaluated = 0;
    for (int64_t step = 1; step <= 6; ++step) {
      ASSERT_OK_AND_ASSIGN(const SavePolicy::Decision saved,
                           manager_->ShouldSave(step));
      Metrics metrics;
      if (saved.kind != SavePolicy::Kind::kNone) metrics["auc"] = ++evaluated;
      ASSERT_OK(TrainStep(metrics));
    }
    ASSERT_OK(manager_->Close());
    EXPECT_EQ(evaluated, 3);
    for (const StepRecord& record : Records()) {
      EXPECT_EQ(record.metrics.count("auc"), 1U);
    }
  }

  void OrbaxLoopFromZero() {
    Start();
    StepToEach({0, 1, 2, 3});
    EXPECT_EQ(manager_->global_step(), 3);
    EXPECT_THAT(Steps(), ElementsAre(0, 2));
  }

  void OrbaxReachedPreemption() {
    Configure(R"({"permanent": "save_on_preemption"})");
    Start();
    TrainTo(2);
    manager_->SetPreempted();
    ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, TrainStep());
    EXPECT_TRUE(outcome.preempted);
    ASSERT_OK(manager_->Close());
    EXPECT_THAT(Steps(), ElementsAre(3));
  }

  void OrbaxRetention() {
    Configure(R"({"permanent": {"save_every_n_steps": 1},
                "keep": {"any": [{"latest_n": 2}, {"keep_every_n_steps": 5},
                                 {"keep_every_n_seconds": 6},
                                 {"best_n": {"metric": "auc"}}]}})");
    Start();
    for (int64_t step = 1; step <= 10; ++step) {
      now_micros_ = step * kElsewhereSecond;
      ASSERT_OK(TrainStep({{"auc", step == 3 ? 0.9 : 0.1}}));
      ASSERT_OK(manager_->WaitUntilFinished());
    }
    EXPECT_THAT(Steps(), ElementsAre(1, 3, 5, 7, 9, 10));
  }

  void OrbaxCustomSteps() {
    Configure(
        R"({"permanent": {"save_every_n_steps": 1}, "keep": {"keep_steps": [2, 5]}})");
    const auto function = KeepIf(
        "should_keep_fn", [](const StepInfo& step) { return step.step == 3; });
    options_.retention.keep = options_.retention.keep | function;
    Start();
    TrainAndWait(8);
    EXPECT_THAT(Steps(), ElementsAre(2, 3, 5, 8));
  }

  void OrbaxStepLists() {
    Configure(R"({"best": {"metric": "auc"}})");
    Start();
    ASSERT_OK(TrainStep());
    ASSERT_OK(TrainStep({{"auc", 0.7}}));
    ASSERT_OK(manager_->WaitUntilFinished());
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(options_.path));
    TrainAndWait(4);
    EXPECT_THAT(Steps(), ElementsAre(2, 4));
    ASSERT_OK_AND_ASSIGN(const StepRecord latest, manager_->store()->Latest());
    EXPECT_EQ(latest.version.step, 4);
    ASSERT_OK_AND_ASSIGN(const StepRecord best, manager_->BestStep());
    EXPECT_EQ(best.version.step, 2);
    EXPECT_EQ(reader->Steps().size(), 1U);
    ASSERT_OK(reader->Refresh());
    EXPECT_EQ(reader->Steps().size(), 2U);
  }

  void OrbaxForce() {
    Start();
    TrainTo(3);
    ASSERT_OK(manager_->Save());
    EXPECT_THAT(manager_->Save(), AlreadyExists("step 3 exists"));
    ASSERT_OK(manager_->Close());
    EXPECT_THAT(Steps(), ElementsAre(2, 3));
  }

  void OrbaxCustomMetadata() {
    Start();
    TrainTo(1);
    ASSERT_OK(manager_->Step({}, {{"by", "Step"}}));
    TrainTo(3);
    ASSERT_OK(manager_->Save({.user_metadata = {{"by", "Save"}}}));
    ASSERT_OK(manager_->StepTo(4, {}, {{"by", "StepTo"}}));
    ASSERT_OK(manager_->Close());
    std::vector<std::string> by;
    for (const StepRecord& record : Records()) {
      by.push_back(record.user_metadata.at("by"));
    }
    EXPECT_THAT(by, ElementsAre("Step", "Save", "StepTo"));
  }

  void OrbaxWaiting() {
    Start();
    gate_.Close();
    TrainTo(2);
    EXPECT_TRUE(manager_->IsSavingInProgress());
    EXPECT_OK(manager_->CheckForErrors());
    gate_.Open();
    ASSERT_OK(manager_->WaitUntilFinished());
    EXPECT_FALSE(manager_->IsSavingInProgress());
    ASSERT_OK(manager_->Close());
  }

  void OrbaxLogsLongWaits() {
    Configure(R"({"warn_waiting": 0})");
    options_.schedule.permanent =
        SaveIf("all", [this](const SavePolicy::Context& context) {
          if (context.saving) gate_.Open();
          return true;
        });
    Start();
    gate_.Close();
    TrainTo(1);
    EXPECT_THAT(warnings_, IsEmpty());
    TrainAndClose(2);
    EXPECT_THAT(warnings_,
                ElementsAre(HasSubstr("the save of step 2 waited ")));
    EXPECT_THAT(Steps(), ElementsAre(1, 2));
  }

  void OrbaxReadOnly() {
    Start();
    TrainAndWait(2);
    Configure(R"({"read_only": true})");
    Resume();
    EXPECT_EQ(manager_->global_step(), 2);
    TrainTo(4);
    EXPECT_THAT(manager_->Save(), FailedPrecondition("is read-only"));
    EXPECT_EQ(manager_->reader()->Steps().size(), 1U);
  }

  void OrbaxCompositeItems() {
    Start();
    TrainAndWait(4);
    Resume();
    ExpectTrained(*model_, 4);
  }

  void OlmoIntervals() {
    Configure(R"({"permanent": {"any": [{"save_every_n_steps": 5},
                                      {"save_at_steps": [7]}]}})");
    Start();
    TrainAndWait(10);
    EXPECT_THAT(Steps(), ElementsAre(5, 7, 10));
  }

  void OlmoPreTrainCheckpoint() {
    Configure(R"({"first_save": "unless_restored"})");
    Start();
    ASSERT_OK(manager_->StartTraining());
    TrainTo(3);
    ASSERT_OK(manager_->FinishTraining());
    EXPECT_THAT(Steps(), ElementsAre(0, 2, 3));
    ExpectStepHolds(0);
    Resume();
    ASSERT_OK(manager_->StartTraining());
    ASSERT_OK(manager_->FinishTraining());
    EXPECT_THAT(Steps(), ElementsAre(0, 2, 3));
  }

  void OlmoEphemeral() {
    Configure(R"({"permanent": {"save_every_n_steps": 10},
                "ephemeral": {"save_every_n_steps": 2},
                "ephemeral_cooldown_steps": 3})");
    options_.schedule.veto_ephemeral = [](int64_t step) -> std::string {
      return step == 6 ? "an evaluation is under way" : "";
    };
    Start();
    TrainAndWait(9);
    // Step 4 is too soon after 2. Of 2 and 8 the newest is kept.
    EXPECT_THAT(Steps(), ElementsAre(8));
    TrainAndWait(17);
    EXPECT_THAT(Steps(), ElementsAre(10, 14));
    EXPECT_THAT(WhySaved(16), HasSubstr("step 14 was saved less than 3 steps"));
    EXPECT_THAT(WhySaved(6), HasSubstr("an evaluation is under way"));
  }

  void OlmoRemove() {
    const std::pair<const char*, std::vector<int64_t>> strategies[] = {
        {"never", {1, 2, 3, 4, 5, 6}},
        {"ephemeral_only", {3, 5, 6}},
        {"all_non_permanent", {5, 6}}};
    for (const auto& [name, steps] : strategies) {
      SCOPED_TRACE(name);
      options_.path = absl::StrCat(dir_.path(), "/", name);
      Configure(absl::StrCat(
          R"({"permanent": {"save_every_n_steps": 3}, "ephemeral": {"save_every_n_steps": 1},
            "keep": {"latest_n": 1}, "removal": ")",
          name, "\"}"));
      Start();
      TrainAndWait(6);
      EXPECT_EQ(Steps(), steps);
    }
  }

  // Steps of the previous run count, the fixed step does not.
  void OlmoMaxCheckpoints() {
    Configure(R"({"keep": {"latest_n": 3}})");
    Start();
    TrainAndWait(6);
    Resume();
    TrainAndWait(8);
    EXPECT_THAT(Steps(), ElementsAre(4, 6, 8));

    options_.path += "+";
    Configure(R"({"permanent": {"any": [{"save_every_n_steps": 2},
                                      {"save_at_steps": [3]}]},
                "keep": {"any": [{"keep_steps": [3]},
                                 {"latest_of": {"policy": {"keep_every_n_steps": 2},
                                                "count": 3}}]}})");
    Start();
    TrainAndWait(6);
    Resume();
    TrainAndWait(10);
    EXPECT_THAT(Steps(), ElementsAre(3, 6, 8, 10));
  }

  void RecisRegister() {
    for (const bool saves : {true, false}) {
      ElsewhereObject object;
      int64_t value = 0;
      TestIo io;
      ModelState model;
      ASSERT_OK(model.AddObject("object", &object));
      ASSERT_OK(model.AddValue("value", &value));
      ASSERT_OK(model.AddIoState("reader", &io));
      ASSERT_OK_AND_ASSIGN(const auto manager,
                           CheckpointManager::Open(options_, &model));
      if (saves) {
        object.words = "some";
        value = 7;
        io.position = "line 3";
        ASSERT_OK(manager->Save());
      } else {
        ASSERT_OK(manager->Restore());
        EXPECT_EQ(object.words, "some");
        EXPECT_EQ(value, 7);
        EXPECT_EQ(io.position, "line 3");
      }
      ASSERT_OK(manager->Close());
    }
  }

  void RecisStep() {
    Configure(R"({"permanent": {"save_every_n_steps": 3}})");
    Start();
    TrainAndWait(7);
    EXPECT_THAT(Steps(), ElementsAre(3, 6));
  }

  void RecisRestore() {
    Start();
    TrainAndWait(6);
    Start();
    EXPECT_EQ(Restored(), 6);
    EXPECT_EQ(Restored({.step = 4}), 4);
    EXPECT_EQ(manager_->global_step(), 4);
  }

  void RecisLoadModelBank() {
    Start();
    TrainAndWait(2);
    const std::string base = options_.path;
    options_.path += "+";
    Start();
    ASSERT_OK_AND_ASSIGN(
        const std::vector<LoadRule> rules,
        ParseLoadSpec(absl::StrCat(R"([{"path": ")", base,
                                   R"(", "load": ["*"], "exclude": ["w"],
            "oname": {"user": "user"}, "is_dynamic": true,
            "hashtable_clear": true, "ignore_error": false}])")));
    ASSERT_OK(manager_->Load(rules));
    TestModel expected;
    testing::TrainTo(2, &expected);
    EXPECT_TRUE(model_->users.rows() == expected.users.rows());
    EXPECT_EQ(model_->epoch, expected.epoch);
    EXPECT_EQ(model_->weights, std::vector<float>(6));
    EXPECT_EQ(manager_->global_step(), 0);
  }

  void OptimusEvaluation() {
    Start();
    TrainAndWait(4);
    ElsewhereObject meters;
    TestIo loader;
    EvaluationState* const evaluation = manager_->evaluation();
    ASSERT_OK(evaluation->AddGroup("eval", &meters));
    meters.words = "half";
    for (const int64_t step : {2, 4}) {
      ASSERT_OK(evaluation->Save({step, "day", "eval"}, &loader, 50));
    }
    meters.words = "none";
    ASSERT_OK_AND_ASSIGN(const uint64_t done,
                         evaluation->Load({4, "day", "eval"}, &loader));
    EXPECT_EQ(done, 50U);
    EXPECT_EQ(meters.words, "half");
    ASSERT_OK(evaluation->Cleanup(4));
    ASSERT_OK_AND_ASSIGN(const uint64_t none,
                         evaluation->Load({4, "day", "eval"}, &loader));
    EXPECT_EQ(none, 0U);
    ASSERT_OK(evaluation->CleanupAll());
    ASSERT_OK_AND_ASSIGN(const auto left,
                         manager_->store()->ListEvaluations(2));
    EXPECT_THAT(left, IsEmpty());
  }

  void CountsSeveralAtATime() {
    Configure(R"({"permanent": {"save_at_or_after_every_n_steps": 10},
                "keep": {"any": [{"latest_n": 1},
                                 {"keep_nearest_to_every_n_steps": 20}]}})");
    Start();
    StepToEach({4, 8, 12, 16, 20, 24, 28, 33, 37, 41, 46});
    EXPECT_THAT(Steps(), ElementsAre(12, 20, 41));
  }
};

struct Line {
  const char* there;  // as in the document
  void (ElsewhereTest::*run)();
};
void PrintTo(const Line& line, std::ostream* out) { *out << line.there; }

constexpr Line kLines[] = {
    {"Orbax `save_interval_steps`, `save_on_steps`, `should_save_fn`",
     &ElsewhereTest::OrbaxSaveIntervals},
    {"Orbax `should_save(step)`", &ElsewhereTest::OrbaxShouldSave},
    {"Orbax: a loop that begins with step 0",
     &ElsewhereTest::OrbaxLoopFromZero},
    {"Orbax `reached_preemption(step)`",
     &ElsewhereTest::OrbaxReachedPreemption},
    {"Orbax `max_to_keep`, `keep_period`, `keep_time_interval`, `best_fn`",
     &ElsewhereTest::OrbaxRetention},
    {"Orbax `CustomSteps`, `should_keep_fn`", &ElsewhereTest::OrbaxCustomSteps},
    {"Orbax `all_steps`, `latest_step`, `best_step`, `reload`",
     &ElsewhereTest::OrbaxStepLists},
    {"Orbax `save(force=True)`", &ElsewhereTest::OrbaxForce},
    {"Orbax `save(custom_metadata=...)`", &ElsewhereTest::OrbaxCustomMetadata},
    {"Orbax `wait_until_finished`, `is_saving_in_progress`, "
     "`check_for_errors`, `close`",
     &ElsewhereTest::OrbaxWaiting},
    {"Orbax: a log line when a save waits over a second",
     &ElsewhereTest::OrbaxLogsLongWaits},
    {"Orbax `read_only`", &ElsewhereTest::OrbaxReadOnly},
    {"Orbax `StandardCheckpointer`, composite items",
     &ElsewhereTest::OrbaxCompositeItems},
    {"OLMo-core `save_interval`, `fixed_steps`", &ElsewhereTest::OlmoIntervals},
    {"OLMo-core `pre_train_checkpoint`, the save after training",
     &ElsewhereTest::OlmoPreTrainCheckpoint},
    {"OLMo-core `ephemeral_save_interval`, `ephemeral_cooldown`, "
     "`block_ephemeral_checkpoints`",
     &ElsewhereTest::OlmoEphemeral},
    {"OLMo-core `remove` strategies", &ElsewhereTest::OlmoRemove},
    {"OLMo-core `max_checkpoints`", &ElsewhereTest::OlmoMaxCheckpoints},
    {"RecIS `Saver.register_for_checkpointing`, `register_io_state`",
     &ElsewhereTest::RecisRegister},
    {"RecIS `CheckpointManager.step()`, `save_interval`",
     &ElsewhereTest::RecisStep},
    {"RecIS `restore(global_step=None)`", &ElsewhereTest::RecisRestore},
    {"RecIS `load_model_bank`", &ElsewhereTest::RecisLoadModelBank},
    {"optimus_dl `EvaluationCheckpointManager`",
     &ElsewhereTest::OptimusEvaluation},
    {"a trainer that counts several steps at a time and hits no multiple of "
     "the interval",
     &ElsewhereTest::CountsSeveralAtATime},
};

// Returns the first cell of each row.
std::vector<std::string> DocumentedLines() {
  std::ifstream file(SourcePath("docs/manager.md"));
  std::vector<std::string> lines;
  bool in_table = false;
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "## ")) {
      in_table = line == "## Coming from other libraries";
    }
    if (!in_table || !absl::StartsWith(line, "| ") ||
        absl::StartsWith(line, "| other library |")) {
      continue;
    }
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    lines.push_back(cells[0].substr(2));
  }
  return lines;
}

TEST(ElsewhereTable, EachLineHasATest) {
  std::vector<std::string> tested;
  for (const Line& line : kLines) tested.emplace_back(line.there);
  EXPECT_EQ(DocumentedLines(), tested);
}

class ElsewhereLineTest : public ElsewhereTest,
                          public ::testing::WithParamInterface<Line> {};

TEST_P(ElsewhereLineTest, MatchesTheDocument) {
  SCOPED_TRACE(GetParam().there);
  (this->*GetParam().run)();
}

INSTANTIATE_TEST_SUITE_P(Table, ElsewhereLineTest, ::testing::ValuesIn(kLines));

}  // namespace
}  // namespace ckptdb::testing
