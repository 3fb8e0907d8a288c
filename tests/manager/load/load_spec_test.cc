// SPDX-License-Identifier: Apache-2.0
#include "manager/load/load_patterns.h"
#include "manager/tables.h"
#include "tests/manager/test_model.h"
#include "tests/manager/test_options.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using ::testing::_;
using Outcome = LoadSummary::LoadedItem::Outcome;

TEST(ParseLoadSpecTest, ReadsAllKeys) {
  ASSERT_OK_AND_ASSIGN(const std::vector<LoadRule> rules, ParseLoadSpec(R"([
    {"path": "p", "step": 7, "load": ["sparse", "mlp.*"], "exclude": ["x"],
     "oname": {"user": "member"}, "strict": false, "hashtable_clear": false,
     "tables": {"user": {"oname": {"a": "b"}, "fill": {"c": 0.5}}},
     "cast": true, "is_dynamic": false, "ignore_error": true, "skip": true},
    {"best": {"metric": "auc", "lower_is_better": true}}])"));
  ASSERT_EQ(rules.size(), 2U);
  const LoadRule& all = rules[0];
  EXPECT_EQ(all.path, "p");
  EXPECT_EQ(all.step, 7);
  EXPECT_THAT(all.load, ElementsAre("sparse", "mlp.*"));
  EXPECT_THAT(all.exclude, ElementsAre("x"));
  EXPECT_THAT(all.oname, ElementsAre(Pair("user", "member")));
  EXPECT_EQ(all.tables.at("user").oname.at("a"), "b");
  EXPECT_EQ(all.tables.at("user").fill.at("c"), 0.5);
  EXPECT_FALSE(all.strict || all.hashtable_clear);
  EXPECT_TRUE(all.cast && all.only_if_empty && all.ignore_error && all.skip);
  const LoadRule& least = rules[1];
  EXPECT_EQ(least.best->metric, "auc");
  EXPECT_TRUE(least.best->lower_is_better);
  EXPECT_EQ(least.step, std::nullopt);
  EXPECT_THAT(least.load, ElementsAre("*"));
  EXPECT_TRUE(least.strict && least.hashtable_clear);
  EXPECT_FALSE(least.cast);
}

TEST(ParseLoadSpecTest, ErrorsNameTheRuleAndTheKey) {
  const std::pair<const char*, const char*> cases[] = {
      {"[", "invalid JSON"},
      {"[{},\n {\"path\": \"p\",}]", "invalid JSON (line 2, column 15)"},
      {"[{},\n  3]",
       "rule 1: the value is 3; expected an object (line 2, column 3)"},
      {"[{},\n {\"step\":\n   -1}]", "0 to 2^63 - 1 (line 3, column 4)"},
      {"{}", "the value is {}; expected a list of rules"},
      {"[3]", "rule 0: the value is 3; expected an object"},
      {R"([{}, {"patch": "p"}])",
       R"(rule 1: unknown key "patch"; did you mean "path"?)"},
      {R"([{"hashtable_clean": true}])", R"(did you mean "hashtable_clear"?)"},
      {R"([{"path": 3}])", R"("path" is 3; expected a string)"},
      {R"([{"strict": "yes"}])", R"("strict" is "yes"; expected a boolean)"},
      {R"([{"cast": "bf16"}])", R"("cast" is "bf16"; expected a boolean)"},
      {R"([{"casts": true}])", R"(unknown key "casts"; did you mean "cast"?)"},
      {R"([{"step": -1}])",
       R"("step" is -1; expected a number, 0 to 2^63 - 1)"},
      {R"([{"step": 9223372036854775808}])",
       R"("step" is 9223372036854775808; expected a number)"},
      {R"([{"step": 1.5}])", R"("step" is 1.5; expected a number)"},
      {R"([{"load": "sparse"}])", R"("load" is "sparse"; expected a list)"},
      {R"([{"load": [1]}])", R"("load" is [1]; expected a list of strings)"},
      {R"([{"oname": {"a": 1}}])", R"(expected an object of strings)"},
      {R"([{"path": "p"}, {"strict": true, "strict": false}])",
       "load specification: duplicate key \"strict\""},
      {R"([{"oname": {"user": "a", "user": "b"}}])",
       "duplicate key \"user\", first given (line 1, column 13)"},
      {R"([{"best": "auc"}])", R"("auc"; expected an object)"},
      {R"([{"best": {"metrics": "auc"}}])", R"(did you mean "metric"?)"},
      {R"([{"tables": {"user": {"fill": {"sum": true}}}}])",
       R"(rule 0.tables.user.fill: "sum" is true; expected a number)"},
  };
  for (const auto& [json, what] : cases) {
    EXPECT_THAT(ParseLoadSpec(json), InvalidArgument(what)) << json;
    EXPECT_THAT(ParseLoadSpec(json).status().ToString(),
                AllOf(HasSubstr("(line "), Not(HasSubstr("ckptdb/"))));
  }
}

TEST(GlobTest, MatchesAnyCharacters) {
  using internal::GlobMatches;
  EXPECT_TRUE(GlobMatches("*", ""));
  EXPECT_TRUE(GlobMatches("exp_avg", "exp_avg"));
  EXPECT_FALSE(GlobMatches("exp_avg", "exp_avg_sq"));
  EXPECT_TRUE(GlobMatches("exp_avg*", "exp_avg_sq"));
  EXPECT_TRUE(GlobMatches("mlp.?.*", "mlp.0.weight"));
  EXPECT_FALSE(GlobMatches("mlp.?.*", "mlp.10.weight"));
  EXPECT_TRUE(GlobMatches("*a*b", "xaybzb"));
  EXPECT_FALSE(GlobMatches("*a*b", "xayb?"));
  EXPECT_FALSE(GlobMatches("", "x"));
  EXPECT_FALSE(GlobMatches("?", ""));
}

class LoadTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return dir_.path() + "/" + name;
  }
  // Saves `step` of a trained model to a store.
  void SaveIn(const std::string& name, int64_t step) {
    TestModel model;
    ASSERT_OK_AND_ASSIGN(
        const auto manager,
        CheckpointManager::Open({.path = Path(name)}, &model.state));
    TrainTo(step, &model);
    ASSERT_OK(manager->StepTo(step));
    ASSERT_OK(manager->Save());
    ASSERT_OK(manager->Close());
  }
  void Start() {
    manager_.reset();
    ASSERT_OK_AND_ASSIGN(manager_, CheckpointManager::Open(
                                       {.path = Path("own")}, &model_.state));
  }
  LoadRule From(const std::string& name) const { return {.path = Path(name)}; }
  static std::map<std::string, Outcome> OutcomesOf(const LoadSummary& summary) {
    std::map<std::string, Outcome> outcomes;
    for (const LoadSummary::LoadedItem& item : summary.rules[0].items) {
      outcomes[item.name] = item.outcome;
    }
    return outcomes;
  }

  TempDir dir_;
  TestModel model_;
  std::unique_ptr<CheckpointManager> manager_;
};

TEST_F(LoadTest, LaterRulesOverwriteEarlierOnes) {
  SaveIn("base", 3);
  SaveIn("tuned", 5);
  Start();
  LoadRule tuned = {
      .path = Path("tuned"), .load = {"w", "extra"}, .exclude = {"note"}};
  const LoadSummary summary = manager_->Load({From("base"), tuned}).value();
  TestModel base;
  TrainTo(3, &base);
  TestModel expected;
  TrainTo(5, &expected);
  EXPECT_EQ(model_.weights, expected.weights);
  EXPECT_EQ(model_.epoch, expected.epoch);
  EXPECT_EQ(model_.note, base.note);
  EXPECT_EQ(model_.reader.position, base.reader.position);
  EXPECT_TRUE(model_.users.rows() == base.users.rows());
  EXPECT_EQ(manager_->global_step(), 0);
  ASSERT_EQ(summary.rules.size(), 2U);
  EXPECT_EQ(summary.rules[0].step, 3);
  EXPECT_THAT(summary.rules[0].unexpected, IsEmpty());
  EXPECT_THAT(summary.rules[1].unexpected, IsEmpty())
      << "everything is registered";
  EXPECT_THAT(summary.ToString(),
              HasSubstr("  loaded: dense \"w\", 24 bytes\n"));
}

TEST_F(LoadTest, DryRunChangesNothing) {
  SaveIn("base", 3);
  Start();
  model_.Train(1);
  float more = 4;
  ASSERT_OK(model_.state.AddTensor("more", TensorState::Of(&more, {1})));
  const TestRows before = model_.users.rows();
  LoadRule rule = {.path = Path("base"), .oname = {{"more", "w"}}};
  const LoadSummary dry = manager_->Load({rule}, /*dry_run=*/true).value();
  EXPECT_TRUE(model_.users.rows() == before);
  EXPECT_EQ(dry.rows(), 15U);
  auto outcomes = OutcomesOf(dry);
  EXPECT_EQ(outcomes["more"], Outcome::kMisfit);
  EXPECT_EQ(outcomes["user"], Outcome::kLoaded);
  EXPECT_THAT(dry.ToString(),
              HasSubstr("does not fit: dense \"more\" from \"w\", 24 bytes: "
                        "expected f32 [1], got f32 [2, 3]"));
  EXPECT_THAT(manager_->Load({rule}),
              FailedPrecondition("dense \"w\": expected f32 [1]"));
  EXPECT_TRUE(model_.users.rows() == before);
}

TEST_F(LoadTest, StrictLoadFails_WhenAnItemIsMissing) {
  SaveIn("base", 3);
  Start();
  LoadRule rule = {.path = Path("base"), .oname = {{"w", "v"}}};
  EXPECT_THAT(
      manager_->Load({rule}),
      FailedPrecondition("step 3 does not fit the model; missing in the step: "
                         "dense \"v\" (did you mean dense \"w\"?)"));
  rule.ignore_error = true;
  EXPECT_THAT(manager_->Load({rule}).value().rules[0].note,
              HasSubstr("missing in the step: dense \"v\""));
  EXPECT_THAT(model_.users.rows(), IsEmpty());
  rule.ignore_error = false;
  rule.strict = false;
  ASSERT_OK(manager_->Load({rule}));
  EXPECT_EQ(model_.epoch, 1);
  EXPECT_EQ(model_.weights[0], 0);
}

TEST_F(LoadTest, StrictLoadFails_WhenAPatternMatchesNothing) {
  SaveIn("base", 3);
  Start();
  LoadRule rule = {.path = Path("base"), .load = {"user", "wv"}};
  EXPECT_THAT(manager_->Load({rule}),
              InvalidArgument("load pattern \"wv\" matches nothing registered; "
                              "did you mean \"w\"?"));
  EXPECT_THAT(model_.users.rows(), IsEmpty());
  // A misspelt category is a name.
  rule.load = {"spars"};
  EXPECT_THAT(manager_->Load({rule}),
              InvalidArgument("did you mean \"sparse\"?"));
  const LoadSummary dry = manager_->Load({rule}, /*dry_run=*/true).value();
  EXPECT_THAT(dry.ToString(),
              HasSubstr("  load pattern \"spars\" matches nothing "
                        "registered; did you mean \"sparse\"?\n"));
  rule.load = {"user", "wv"};
  rule.strict = false;
  ASSERT_OK(manager_->Load({rule}));
  EXPECT_FALSE(model_.users.rows().empty());
}

// Without the pattern or the name the rule would overwrite items that it should
// not load.
TEST_F(LoadTest, LoadFails_WhenExcludeOrOnameMatchesNothing) {
  SaveIn("base", 3);
  Start();
  LoadRule exclude = {.path = Path("base"), .exclude = {"usr"}};
  LoadRule oname = {.path = Path("base"), .oname = {{"usr", "w"}}};
  const std::pair<LoadRule, const char*> cases[] = {
      {exclude,
       "exclude pattern \"usr\" matches nothing registered; "
       "did you mean \"user\"?"},
      {oname,
       "oname key \"usr\" matches nothing registered; did you "
       "mean \"user\"?"},
  };
  for (auto [rule, what] : cases) {
    const LoadSummary dry = manager_->Load({rule}, /*dry_run=*/true).value();
    EXPECT_THAT(dry.ToString(), HasSubstr(what));
    for (const bool strict : {true, false}) {
      rule.strict = strict;
      EXPECT_THAT(manager_->Load({rule}), InvalidArgument(what));
    }
  }
  EXPECT_THAT(model_.users.rows(), IsEmpty());
}

TEST_F(LoadTest, LoadsTheBestStepByAMetric) {
  SaveIn("base", 3);
  SaveIn("base", 5);
  SaveIn("base", 7);
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(Path("base")));
    ASSERT_OK(store->AddMetrics(3, {{"loss", 0.3}}));
    ASSERT_OK(store->AddMetrics(5, {{"loss", 0.1}}));
  }
  Start();
  LoadRule rule = {.path = Path("base"),
                   .best = KeepPolicy::BestOptions{.metric = "loss",
                                                   .lower_is_better = true}};
  ASSERT_OK_AND_ASSIGN(LoadSummary summary, manager_->Load({rule}));
  EXPECT_EQ(summary.rules[0].step, 5);
  TestModel expected;
  TrainTo(5, &expected);
  EXPECT_EQ(model_.weights, expected.weights);
  rule.best->lower_is_better = false;
  ASSERT_OK_AND_ASSIGN(summary, manager_->Load({rule}));
  EXPECT_EQ(summary.rules[0].step, 3);
  rule.best->metric = "auc";
  EXPECT_THAT(manager_->Load({rule}), FailedPrecondition("\"auc\""));
  rule.step = 3;
  EXPECT_THAT(manager_->Load({rule}),
              InvalidArgument("\"step\" is 3 and \"best\" is by \"auc\""));
}

TEST_F(LoadTest, SummaryPrintsAtMostForRowsOfADelta) {
  {
    TestModel model;
    ASSERT_OK_AND_ASSIGN(
        const auto manager,
        CheckpointManager::Open(TestOptions(Path("base")), &model.state));
    for (int step = 1; step <= 2; ++step) {
      model.Train(step);
      ASSERT_OK(manager->Step());
    }
    ASSERT_OK(manager->Close());
  }
  Start();
  ASSERT_OK_AND_ASSIGN(const LoadSummary dry,
                       manager_->Load({From("base")}, /*dry_run=*/true));
  // Row 7 counts in both steps.
  EXPECT_THAT(dry.ToString(), HasSubstr("loaded: sparse \"user\", at most 12 "
                                        "rows, at most 240 bytes\n"));
  LoadRule first = {.path = Path("base"), .step = 1};
  const LoadSummary exact = manager_->Load({first}, /*dry_run=*/true).value();
  EXPECT_THAT(exact.ToString(), HasSubstr("\"user\", 6 rows, 120 bytes\n"));
}

TEST_F(LoadTest, IgnoredErrorLeavesItemsPartlyLoadedOrNotLoaded) {
  SaveIn("base", 3);
  Start();
  LoadRule rule = {.path = Path("base"), .ignore_error = true};
  model_.users.FailLoads(absl::DataLossError("no memory left on the device"));
  ASSERT_OK_AND_ASSIGN(LoadSummary summary, manager_->Load({rule}));
  EXPECT_THAT(summary.rules[0].note, HasSubstr("no memory left on the device"));
  auto outcomes = OutcomesOf(summary);
  EXPECT_EQ(outcomes["w"], Outcome::kLoaded);
  EXPECT_EQ(outcomes["user"], Outcome::kPartlyLoaded);
  EXPECT_EQ(outcomes["reader"], Outcome::kNotLoaded);
  EXPECT_EQ(summary.rows(), 0U);
  EXPECT_THAT(summary.ToString(),
              HasSubstr("  partly loaded: sparse \"user\""));
  // Nothing is loaded from a step that does not fit either.
  rule.oname = {{"w", "v"}};
  ASSERT_OK_AND_ASSIGN(summary, manager_->Load({rule}));
  EXPECT_THAT(
      OutcomesOf(summary),
      Each(Pair(_, Not(AnyOf(Outcome::kLoaded, Outcome::kPartlyLoaded)))));
}

// The sum of all reads of a restore, which ascends.
TEST_F(LoadTest, RestoresReportTheirProgress) {
  SaveIn("base", 3);
  ManagerOptions options = TestOptions(Path("base"));
  uint64_t last = 0;
  uint64_t all = 0;
  options.restore.read.progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
    EXPECT_GT(done_bytes, last);
    EXPECT_LE(done_bytes, all_bytes);
    last = done_bytes;
    all = all_bytes;
  };
  TestModel model;
  ASSERT_OK_AND_ASSIGN(const auto manager,
                       CheckpointManager::Open(options, &model.state));
  ASSERT_OK_AND_ASSIGN(const RestoreReport report, manager->Restore());
  EXPECT_EQ(all, report.loaded_bytes);
  // Objects and io states come without reports, but are part of the sum.
  EXPECT_GE(last, all / 2);
}

// Tensors are read together, and a rule does not ignore that it is cancelled.
TEST_F(LoadTest, TensorsArePartlyLoadedTogether) {
  SaveIn("base", 3);
  bool throws = true;
  bool cancelled = false;
  ManagerOptions options = TestOptions(Path("other"));
  options.restore.read.cancelled = [&] {
    if (throws) throw std::runtime_error("the poll failed");
    return cancelled;
  };
  TestModel model;
  std::vector<float> copy(6);
  ASSERT_OK(model.state.AddTensor("b", TensorState::Of(copy.data(), {2, 3})));
  ASSERT_OK_AND_ASSIGN(const auto manager,
                       CheckpointManager::Open(options, &model.state));
  const LoadRule rule = {.path = Path("base"),
                         .load = {"dense"},
                         .oname = {{"b", "w"}},
                         .ignore_error = true};
  ASSERT_OK_AND_ASSIGN(LoadSummary summary, manager->Load({rule}));
  EXPECT_THAT(summary.rules[0].note, HasSubstr("the poll failed"));
  EXPECT_EQ(OutcomesOf(summary)["w"], Outcome::kPartlyLoaded);
  EXPECT_EQ(OutcomesOf(summary)["b"], Outcome::kPartlyLoaded);
  throws = false;
  cancelled = true;
  EXPECT_THAT(manager->Load({rule}), Cancelled("ReadOptions::cancelled"));
  EXPECT_THAT(manager->StepTo(2), FailedPrecondition("partly written"));
  cancelled = false;
  ASSERT_OK_AND_ASSIGN(summary, manager->Load({rule}));
  EXPECT_EQ(OutcomesOf(summary)["b"], Outcome::kLoaded);
  EXPECT_EQ(copy, model.weights);
  EXPECT_EQ(copy[5], 8.0f);
  ASSERT_OK(manager->StepTo(4));
}

// A slot that was added to the optimizer since the step was saved.
TEST_F(LoadTest, RuleFillsSlots) {
  SaveIn("base", 3);
  Start();
  ColumnTable users(
      {{"embedding", DType::kF32, 2}, {"momentum", DType::kF32, 1}});
  ModelState model;
  ASSERT_OK(model.AddTable("user", &users));
  ASSERT_OK_AND_ASSIGN(
      const auto manager,
      CheckpointManager::Open({.path = Path("other")}, &model));
  LoadRule rule = From("base");
  rule.tables["user"].fill["momentum"] = 0.5;
  ASSERT_OK_AND_ASSIGN(const LoadSummary summary, manager->Load({rule}));
  ASSERT_OK_AND_ASSIGN(const auto momentum, users.column<float>("momentum"));
  ASSERT_TRUE(users.Find(7).has_value());
  EXPECT_EQ(momentum[*users.Find(7)][0], 0.5f);
  EXPECT_THAT(summary.ToString(),
              HasSubstr("slot \"momentum\" filled, slot \"adagrad_sum\" is "
                        "not registered\n"));
}

// A model may have no items of a category, or none at all.
TEST_F(LoadTest, CategoryMayBeEmpty) {
  SaveIn("base", 3);
  float weight = 0;
  ModelState model;
  ASSERT_OK_AND_ASSIGN(const auto empty,
                       CheckpointManager::Open({.path = Path("own")}, &model));
  LoadRule rule = From("base");
  ASSERT_OK(empty->Load({rule}));
  ASSERT_OK(model.AddTensor("weight", TensorState::Of(&weight, {})));
  rule.load = {"sparse", "dense", "extra", "io_state", "sparse_opt"};
  rule.exclude = {"*"};
  ASSERT_OK(empty->Load({rule}));
}

TEST_F(LoadTest, SparseLeavesOutOptimizerSlots) {
  SaveIn("base", 3);
  Start();
  model_.users.Set(7, 9);
  model_.users.Set(1000, 9);
  LoadRule rule = {
      .path = Path("base"), .load = {"sparse"}, .hashtable_clear = false};
  ASSERT_OK(manager_->Load({rule}));
  TestModel base;
  TrainTo(3, &base);
  const TestRow& row = model_.users.rows().at(7);
  EXPECT_EQ(row.weights[0], base.users.rows().at(7).weights[0]);
  EXPECT_EQ(row.state, -9) << "unchanged";
  EXPECT_EQ(model_.users.rows().size(), base.users.rows().size() + 1)
      << "merged";
  rule.load = {"*"};
  rule.exclude = {"sparse"};
  ASSERT_OK(manager_->Load({rule}));
  EXPECT_EQ(model_.users.rows().at(7).state, base.users.rows().at(7).state);
}

TEST_F(LoadTest, RulesForTheFirstStartAreSkippedLater) {
  SaveIn("base", 3);
  SaveIn("own", 4);
  Start();
  LoadRule rule = {.path = Path("base"), .only_if_empty = true};
  const LoadRule skipped = {.skip = true};
  const LoadSummary summary = manager_->Load({rule, skipped}).value();
  EXPECT_EQ(summary.rules[0].note, "not loaded, because the store has step 4");
  EXPECT_EQ(summary.rules[1].note, "skipped");
  EXPECT_THAT(model_.users.rows(), IsEmpty());
  rule.only_if_empty = false;
  ASSERT_OK(manager_->Load({rule}));
  EXPECT_FALSE(model_.users.rows().empty());
}

// Loaded rows are not marked.
TEST_F(LoadTest, SaveAfterALoadIsFull) {
  SaveIn("base", 3);
  SaveIn("own", 4);
  Start();
  ASSERT_OK(manager_->Restore());
  ASSERT_OK(manager_->Load({From("base")}));
  ASSERT_OK(StepAndSave(manager_.get()));
  ASSERT_OK_AND_ASSIGN(const auto step, manager_->store()->OpenStep(5));
  EXPECT_EQ(step->record().kind, StepRecord::Kind::kFull);
  for (const Item& item : step->ranks()[0].items) {
    if (item.kind != Item::Kind::kRows) continue;
    EXPECT_EQ(item.base_reason, "the model was loaded from " + Path("base"));
  }
}

// Neither are the rows that a merge has left in the table.
TEST_F(LoadTest, SaveAfterAMergeIsFull) {
  SaveIn("own", 4);
  Start();
  model_.users.Set(1000, 9);
  ASSERT_OK(manager_->Restore({.mode = LiveTable::RestoreMode::kMerge}));
  ASSERT_TRUE(model_.users.rows().contains(1000));
  ASSERT_OK(manager_->StepTo(5));
  ASSERT_OK(manager_->Save());
  ASSERT_OK(manager_->Close());
  TestModel saved;
  ASSERT_OK(CheckpointManager::Open({.path = Path("other")}, &saved.state)
                .value()
                ->Load({From("own")}));
  ExpectSame(saved, model_);
}

TEST_F(LoadTest, LoadFails_WhenTheStoreIsMissing) {
  Start();
  EXPECT_THAT(manager_->Load({From("nowhere")}), FailedPrecondition("nowhere"));
}

}  // namespace
}  // namespace ckptdb::testing
