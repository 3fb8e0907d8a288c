// SPDX-License-Identifier: Apache-2.0
#include "manager/checkpoint_manager.h"

#include "manager/policy/keep_rule.h"
#include "manager/policy/save_rule.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

TEST(ManagerConfigTest, SetsTheGivenOptions) {
  ManagerOptions options;
  ASSERT_OK(ReadManagerConfig(R"({
      "path": "p", "read_only": true, "saving": false,
      "ephemeral_cooldown_steps": 7,
      "keep_ephemeral": 2, "removal": "ephemeral_only",
      "best": {"metric": "auc", "lower_is_better": true}, "deltas": false, "audit_deltas": true,
      "audit_replicas": true,
      "base_every": 9, "max_deltas": 11, "max_delta_ratio": 0.5,
      "abandoned": "keep", "user_metadata": {"run": "a"},
      "store_metadata": {"owner": "b"}, "async": false,
      "arena_bytes": 4096, "copy_threads": 3, "busy": "coalesce",
      "tolerated_failures": 4, "retry_after_steps": 5, "warn_waiting": 0.25, "first_save": "never",
      "preemption_grace": 30, "deadline": 60, "notice_interval": 0.5, "poll_every": 2, "await_store": 3,
      "io_state_resize": "reset", "sharding": "modulo",
      "replicated_saver": "owner", "broadcast_replicated": true,
      "statistics_path": "s.jsonl",
      "background_sweep": false, "background_fold": true})",
                              &options));
  EXPECT_EQ(options.path, "p");
  EXPECT_TRUE(options.read_only);
  EXPECT_FALSE(options.save.enabled);
  EXPECT_EQ(options.schedule.ephemeral_cooldown_steps, 7);
  EXPECT_EQ(options.retention.keep_ephemeral, 2);
  EXPECT_EQ(options.retention.removal,
            RetentionOptions::Removal::kEphemeralOnly);
  ASSERT_TRUE(options.restore.best.has_value());
  EXPECT_EQ(options.restore.best->metric, "auc");
  EXPECT_TRUE(options.restore.best->lower_is_better);
  EXPECT_FALSE(options.save.deltas);
  EXPECT_TRUE(options.save.audit_deltas);
  EXPECT_TRUE(options.save.audit_replicas);
  EXPECT_EQ(options.save.base_every, 9);
  EXPECT_EQ(options.save.bounds.max_deltas, 11U);
  EXPECT_EQ(options.save.bounds.max_delta_ratio, 0.5);
  EXPECT_EQ(options.restore.abandoned, SaveSpec::Abandoned::kKeep);
  EXPECT_EQ(options.save.user_metadata.at("run"), "a");
  EXPECT_EQ(options.save.store_metadata.at("owner"), "b");
  EXPECT_FALSE(options.save.async);
  EXPECT_EQ(options.save.arena_bytes, 4096U);
  EXPECT_EQ(options.save.copy_threads, 3);
  EXPECT_EQ(options.save.busy, ManagerOptions::BusyPolicy::kCoalesce);
  EXPECT_EQ(options.save.tolerated_failures, 4);
  EXPECT_EQ(options.save.retry_after_steps, 5);
  EXPECT_EQ(options.observers.warn_waiting, absl::Milliseconds(250));
  EXPECT_EQ(options.save.first_save, ManagerOptions::FirstSave::kNever);
  EXPECT_EQ(options.save.preemption_grace, absl::Seconds(30));
  EXPECT_EQ(options.ranks.deadline, absl::Seconds(60));
  EXPECT_EQ(options.ranks.notice_interval, absl::Milliseconds(500));
  EXPECT_EQ(options.follow.poll_every, absl::Seconds(2));
  EXPECT_EQ(options.follow.await_store, absl::Seconds(3));
  EXPECT_EQ(options.restore.io_state_resize,
            ManagerOptions::IoStateResize::kReset);
  EXPECT_EQ(options.ranks.sharding.kind(), Item::Sharding::kByModulo);
  EXPECT_EQ(options.ranks.replicated_saver,
            ManagerOptions::ReplicatedSaver::kOwner);
  EXPECT_TRUE(options.ranks.broadcast_replicated);
  EXPECT_EQ(options.observers.statistics_path, "s.jsonl");
  EXPECT_FALSE(options.store.background_sweep);
  EXPECT_TRUE(options.store.background_fold);
}

TEST(ManagerConfigTest, KeepsOtherOptions) {
  ManagerOptions options;
  options.path = "p";
  options.save.base_every = 5;
  ASSERT_OK(ReadManagerConfig("{}", &options));
  EXPECT_EQ(options.path, "p");
  EXPECT_EQ(options.save.base_every, 5);
  EXPECT_FALSE(options.schedule.permanent.has_value());
}

// Returns which of the steps 0 to 40 are saved, in order.
std::string SavedBy(const std::string& policy) {
  ManagerOptions options;
  EXPECT_OK(ReadManagerConfig(absl::StrCat("{\"permanent\": ", policy, "}"),
                              &options));
  std::string saved;
  SavePolicy::Context context;
  for (int64_t step = 0; step <= 40; step += 10) {
    context.step = step;
    context.now_micros = step * 1'000'000;
    context.preempted = step == 30;
    if (!internal::Decide(options.schedule.permanent, context).yes) continue;
    absl::StrAppend(&saved, step, " ");
    context.last = StepInfo{step, context.now_micros, false, {}};
  }
  return saved;
}

TEST(ManagerConfigTest, SavePolicies) {
  EXPECT_EQ(SavedBy(R"("save_initially")"), "0 ");
  EXPECT_EQ(SavedBy(R"("save_on_preemption")"), "30 ");
  EXPECT_EQ(SavedBy(R"({"save_every_n_steps": 20})"), "0 20 40 ");
  EXPECT_EQ(SavedBy(R"({"save_at_or_after_every_n_steps": 15})"), "0 20 30 ");
  EXPECT_EQ(SavedBy(R"({"save_at_steps": [10, 40]})"), "10 40 ");
  EXPECT_EQ(SavedBy(R"({"save_every_n_seconds": 15})"), "0 20 40 ");
  EXPECT_EQ(SavedBy(R"({"save_continuously": 30})"), "0 30 ");
  EXPECT_EQ(
      SavedBy(R"({"any": [{"save_at_steps": [10]}, "save_on_preemption"]})"),
      "10 30 ");
  EXPECT_EQ(SavedBy(R"({"all": [{"save_every_n_steps": 20},
                                {"not": {"save_at_steps": [20]}}]})"),
            "0 40 ");
}

// Returns which of the steps 10, 20, 30, 40 are kept at second 40.
std::string KeptBy(const std::string& policy) {
  ManagerOptions options;
  EXPECT_OK(
      ReadManagerConfig(absl::StrCat("{\"keep\": ", policy, "}"), &options));
  std::vector<StepInfo> steps;
  for (int64_t step = 10; step <= 40; step += 10) {
    steps.push_back({step, step * 1'000'000, false, {}});
    if (step != 20)
      steps.back().metrics["auc"] = 1.0 / static_cast<double>(step);
  }
  const internal::KeepAnswer answer =
      internal::Ask(options.retention.keep, steps, 40'000'000);
  std::string kept;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (answer.keep[i]) absl::StrAppend(&kept, steps[i].step, " ");
  }
  return kept;
}

TEST(ManagerConfigTest, KeepPolicies) {
  EXPECT_EQ(KeptBy(R"("keep_all")"), "10 20 30 40 ");
  EXPECT_EQ(KeptBy(R"({"latest_n": 2})"), "30 40 ");
  EXPECT_EQ(KeptBy(R"({"keep_every_n_steps": 20})"), "20 40 ");
  EXPECT_EQ(KeptBy(R"({"keep_steps": [30, 10, 70]})"), "10 30 ");
  EXPECT_EQ(KeptBy(R"({"latest_of": {"count": 1,
                                     "policy": {"keep_every_n_steps": 10}}})"),
            "40 ");
  EXPECT_EQ(KeptBy(R"({"latest_of": {"policy": {"not": {"latest_n": 1}},
                                     "count": 2}})"),
            "20 30 ");
  EXPECT_EQ(KeptBy(R"({"keep_nearest_to_every_n_steps": 25})"), "10 20 40 ");
  EXPECT_EQ(KeptBy(R"({"keep_every_n_seconds": 20})"), "10 30 ");
  EXPECT_EQ(KeptBy(R"({"best_n": {"metric": "auc"}})"), "10 20 ");
  EXPECT_EQ(
      KeptBy(
          R"({"best_n": {"metric": "auc", "count": 2, "lower_is_better": true,
                                "keep_without_metric": false}})"),
      "30 40 ");
  EXPECT_EQ(KeptBy(R"({"keep_for_n_seconds": 10})"), "30 40 ");
  EXPECT_EQ(KeptBy(R"({"any": [{"latest_n": 1}, {"keep_every_n_steps": 30}]})"),
            "30 40 ");
  EXPECT_EQ(KeptBy(R"({"all": [{"latest_n": 3}, {"not": {"latest_n": 1}}]})"),
            "20 30 ");
}

// Expects these errors, and that options stay as they were.
void ExpectErrors(
    const std::vector<std::pair<std::string, std::string>>& cases) {
  for (const auto& [json, what] : cases) {
    ManagerOptions options;
    options.save.base_every = 5;
    EXPECT_THAT(ReadManagerConfig(json, &options), InvalidArgument(what))
        << json;
    EXPECT_EQ(options.save.base_every, 5);
    EXPECT_FALSE(options.schedule.permanent.has_value());
    EXPECT_FALSE(options.retention.keep.has_value());
  }
}

TEST(ManagerConfigTest, ErrorsNameTheKeyAndTheExpectation) {
  ExpectErrors({
      {"{", "manager: invalid JSON"},
      {"[]", "manager: the value is []; expected an object"},
      {R"({"bussy": "wait"})", R"(unknown key "bussy"; did you mean "busy"?)"},
      {R"({"busy": "wit"})",
       R"("busy" is "wit"; expected one of wait, skip, coalesce)"},
      {R"({"busy": "wit"})", R"(did you mean "wait"?)"},
      {R"({"async": 1})", R"("async" is 1; expected a boolean)"},
      {R"({"base_every": -1})",
       R"("base_every" is -1; expected a number, 0 to)"},
      {R"({"copy_threads": 3000000000})", "expected a number, 0 to 2^31 - 1"},
      {R"({"max_delta_ratio": "a"})", "\"a\"; expected a number"},
      {R"({"deadline": 1e999})", "invalid JSON: a number is out of range"},
      {R"({"deadline": -1})", "expected a number of seconds, at least 0"},
      {R"({"permanent": "save_initialy"})",
       R"(did you mean "save_initially"?)"},
      {R"({"permanent": {"save_every_step": 1}})",
       R"(did you mean "save_every_n_steps"?)"},
      {R"({"permanent": {"save_every_n_steps": 0}})", "manager.permanent: "},
      {R"({"permanent": {"save_at_steps": [-1]}})", "manager.permanent: "},
      {R"({"permanent": {}})", "the policy has 0 keys; expected one"},
      {R"({"permanent": 3})",
       "manager.permanent: the value is 3; expected an object"},
      {R"({"permanent": {"any": {}}})",
       "permanent.any: the value is {}; expected a list"},
      {R"({"permanent": {"any": []}})", "manager.permanent.any: "},
      {R"({"permanent": {"any": ["save_initially", {"not": {"a": 1}}]}})",
       "manager.permanent.any[1].not: "},
      {R"({"keep": {"latest_n": 1, "keep_every_n_steps": 2}})",
       "the policy has 2 keys; expected one"},
      {R"({"keep": {"best_n": {"metrics": "a"}}})",
       R"(did you mean "metric"?)"},
      {R"({"best": {"lower_is_better": "yes"}})",
       "\"yes\"; expected a boolean"},
      {R"({"permanent": {"save_at_or_after_every_n_steps": 0}})",
       "manager.permanent: SaveAtOrAfterEveryNSteps: interval is 0"},
      {R"({"keep": {"keep_steps": [-1]}})",
       "[-1]; expected a list of numbers, 0 to"},
      {R"({"keep": {"latest_of": {"count": 1}}})",
       R"(manager.keep.latest_of: the key "policy" is missing)"},
      {R"({"keep": {"latest_of": {"policy": "keep_all", "cuont": 1}}})",
       R"(did you mean "count"?)"},
      {R"({"keep": {"latest_of": {"policy": {"a": 1}, "count": 1}}})",
       "manager.keep.latest_of.policy: "},
  });
}

TEST(ManagerConfigTest, ErrorsNameLineAndColumn) {
  ExpectErrors(
      {{"{\n  \"busy\": }", "manager: invalid JSON (line 2, column 11)"},
       {"{\"busy\": \"wait\"\n", "manager: invalid JSON (line 2, column 1)"},
       {"", "manager: invalid JSON (line 1, column 1)"},
       {"  []",
        "manager: the value is []; expected an object (line 1, column 3)"},
       {"{\n  \"busy\": \"wait\",\n  \"bussy\": 1}",
        "unknown key \"bussy\"; did you mean \"busy\"? (line 3, column 12)"},
       {"{\"busy\":\n\n\t\"wit\"}",
        "did you mean \"wait\"? (line 3, column 2)"},
       {"{\"keep\": {\"any\": [\"keep_all\",\n {\"latest_n\": 1,\n  "
        "\"best_n\": "
        "2}]}}",
        "any[1]: the policy has 2 keys; expected one; \"any\" and "
        "\"all\" combine policies (line 2, column 2)"},
       {"{\"keep\": {\"any\": [\"keep_all\", {\"not\":\n\n  {\"latest_n\": "
        "-1}}]}}",
        "0 to 2^63 - 1 (line 3, column 16)"},
       {"{\"permanent\":\n  {\"save_every_n_steps\": 0}}",
        "(line 2, column 3)"},
       {"{\"keep\": {\"any\":\n []}}", "(line 2, column 2)"},
       {"{\"keep\": {\"any\":\n {}}}",
        "the value is {}; expected a list of at least one policy (line 2, "
        "column 2)"},
       {"{\"sharding\":\n \"slice\"}", "(line 2, column 2)"},
       // The text before it may contain anything.
       {"{\"path\": \"a\\\"{[\\\\\", \"user_metadata\": {\"k,\": \"}\"},\n"
        " \"b\\u0065st\": {\"metric\": \"m\",\n     \"count\": \"x\"}}",
        "0 to 2^63 - 1 (line 3, column 15)"},
       {"\xef\xbb\xbf{\"async\":\n 1}",
        "expected a boolean (line 2, column 2)"},
       {"{\"keep\": {\"any\": [\"keep_all\",\n \"keep_al\"]}}",
        "did you mean \"keep_all\"? (line 2, column 2)"},
       {"{\"keep\":\n {\"latest_of\":\n  {\"policy\": \"keep_all\"}}}",
        "the key \"count\" is missing; it has no default (line 3, column 3)"}});
}

// A JSON reader that takes the last value would keep no step here.
TEST(ManagerConfigTest, RejectsDuplicateKeys) {
  ExpectErrors(
      {{R"({"keep": {"latest_n": 3}, "keep": {"latest_n": 0}})",
        "manager: duplicate key \"keep\", first given (line 1, column 2); give "
        "each key once (line 1, column 27)"},
       {"{\"keep\": {\"latest_n\": 3,\n \"latest_n\": 3}}",
        "duplicate key \"latest_n\", first given (line 1, column 11); give "
        "each "
        "key once (line 2, column 2)"},
       {R"({"keep": {"any": [{"best_n": {"count": 1, "count": 2}}]}})",
        "duplicate key \"count\""},
       {R"({"user_metadata": {"a": "1", "b": "2", "a": "3"}})",
        "duplicate key \"a\""},
       {R"({"async": true, "as\u0079nc": false})", "duplicate key \"async\""},
       {R"({"async": {"a": [{"x": {}}, 2]}, "b": [[]], "async": true})",
        "duplicate key \"async\""},
       {"\xef\xbb\xbf{\"\": 1, \"\": 1}", "duplicate key \"\""}});
}

TEST(ManagerConfigTest, AcceptsEqualKeysInDifferentObjects) {
  EXPECT_EQ(KeptBy(R"({"any": [{"latest_n": 1}, {"latest_n": 2}]})"), "30 40 ");
  EXPECT_EQ(KeptBy(R"({"latest_of": {"count": 1, "policy":
                      {"latest_of": {"count": 2, "policy": "keep_all"}}}})"),
            "40 ");
}

TEST(ManagerConfigTest, RejectsMissingRequiredKeys) {
  ExpectErrors(
      {{R"({"keep": {"latest_of": {"policy": "keep_all"}}})",
        "keep.latest_of: the key \"count\" is missing; it has no default"},
       {R"({"keep": {"latest_of": {"count": 3}}})",
        "keep.latest_of: the key \"policy\" is missing; it has no default"},
       {R"({"keep": {"best_n": {"count": 3}}})",
        "keep.best_n: the key \"metric\" is missing; it has no default"},
       {R"({"best": {}})", "best: the key \"metric\" is missing"}});
}

// Deep nesting could overflow the stack of a parser or a printer.
TEST(ManagerConfigTest, RejectsDeeplyNestedValues) {
  constexpr int kDeep = 1'000'000;
  ExpectErrors({{absl::StrCat("{\"busy\": ", std::string(kDeep, '['),
                              std::string(kDeep, ']'), "}"),
                 "more than 2000 deep"}});
}

TEST(ManagerConfigTest, RejectsDeeplyNestedKeepPolicies) {
  std::string policy = "\"keep_all\"";
  for (int i = 0; i <= 500; ++i) {
    policy = absl::StrCat(R"({"latest_of":{"count":1,"policy":)", policy, "}}");
    if (i == 31) {
      EXPECT_EQ(KeptBy(policy), "40 ");
    }
  }
  ExpectErrors(
      {{absl::StrCat("{\"keep\":", policy, "}"), "more than 32 deep"}});
}

TEST(ManagerConfigTest, RejectsDeeplyNestedSavePolicies) {
  std::string policy = "\"save_initially\"";
  for (int i = 0; i <= 1000; ++i) {
    policy = absl::StrCat("{\"not\":", policy, "}");
    if (i == 31) {
      EXPECT_EQ(SavedBy(policy), "0 ");
    }
  }
  ExpectErrors(
      {{absl::StrCat("{\"permanent\":", policy, "}"), "more than 32 deep"}});
}

}  // namespace
}  // namespace ckptdb::testing
