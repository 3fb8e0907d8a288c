// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of manager/'s headers.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "manager/checkpoint_manager.h"
#include "manager/coordinator.h"
#include "manager/policies.h"
#include "manager/policy/retention.h"
#include "manager/policy/save_schedule.h"
#include "schema/status.h"
#include "tests/manager/test_model.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HeaderExamples, Policies) {
  ManagerOptions options{
      .path = "checkpoints",
      .schedule = {.permanent = SaveEveryNSteps(1000) | SaveOnPreemption(),
                   .ephemeral = SaveEveryNSeconds(300)},
      .retention = {.keep = LatestN(3) | BestN("auc", 2)}};
  EXPECT_OK(internal::CheckSchedule(options.schedule));
  EXPECT_OK(internal::CheckRetention(options.retention));
  EXPECT_EQ(internal::Decide(options.schedule, {.step = 2000}, {}).reason,
            "step 2000 is a multiple of 1000");
}

absl::Status ManagerConfigExample(ManagerOptions* made) {
  ManagerOptions options{.path = "checkpoints"};
  CKPTDB_RETURN_IF_ERROR(ReadManagerConfig(R"({
    "permanent": {"any": [{"save_every_n_steps": 1000}, "save_on_preemption"]},
    "ephemeral": {"save_every_n_seconds": 300},
    "keep": {"any": [{"latest_n": 3}, {"best_n": {"metric": "auc"}}]},
    "busy": "coalesce"
  })",
                                           &options));
  *made = options;
  return absl::OkStatus();
}

TEST(HeaderExamples, ManagerConfig) {
  ManagerOptions options;
  ASSERT_OK(ManagerConfigExample(&options));
  EXPECT_EQ(internal::Decide(options.schedule, {.step = 2000}, {}).kind,
            SavePolicy::Kind::kPermanent);
  EXPECT_EQ(options.save.busy, ManagerOptions::BusyPolicy::kCoalesce);
}

TEST(HeaderExamples, Coordinator) {
  const std::string part = "rows";
  ThreadGroup group(/*world_size=*/1);
  std::thread worker([&] {
    std::unique_ptr<Coordinator> ranks = group.Join(/*rank=*/0);
    auto parts = ranks->Gather("staged", part, absl::Seconds(60));
    ASSERT_OK(parts.status());
    EXPECT_THAT(*parts, ElementsAre("rows"));
  });
  worker.join();
}

// ModelState's example, with the parts of a model.
absl::Status RegisterExample(float* weights, TableState& user_table,
                             BlobState& reader, int64_t& epoch,
                             ModelState* registered) {
  ModelState& model = *registered;
  CKPTDB_RETURN_IF_ERROR(
      model.AddTensor("mlp.0.weight", TensorState::Of(weights, {3, 4})));
  CKPTDB_RETURN_IF_ERROR(
      model.AddTable("user", &user_table, TableSharding::BySlices()));
  CKPTDB_RETURN_IF_ERROR(model.AddIoState("reader", &reader));
  CKPTDB_RETURN_IF_ERROR(model.AddValue("epoch", &epoch));
  return absl::OkStatus();
}

absl::Status ManagerExample(const std::string& path, int64_t steps,
                            const std::function<void()>& train,
                            const std::function<void(std::string)>& log,
                            ModelState& model) {
  ManagerOptions options{.path = path,
                         .schedule = {.permanent = SaveEveryNSteps(1000)},
                         .retention = {.keep = LatestN(3)}};
  CKPTDB_ASSIGN_OR_RETURN(auto manager,
                          CheckpointManager::Open(options, &model));
  CKPTDB_ASSIGN_OR_RETURN(const RestoreReport start, manager->RestoreOrStart());
  log(start.ToString());
  while (manager->global_step() < steps) {
    train();
    CKPTDB_ASSIGN_OR_RETURN(const StepOutcome outcome, manager->Step());
    if (outcome.preempted) break;
  }
  CKPTDB_RETURN_IF_ERROR(manager->FinishTraining());
  CKPTDB_RETURN_IF_ERROR(manager->Close());
  return absl::OkStatus();
}

absl::StatusOr<int64_t> PendingSaveExample(CheckpointManager* manager) {
  CKPTDB_ASSIGN_OR_RETURN(PendingSave save, manager->Save());
  CKPTDB_RETURN_IF_ERROR(save.WaitStaged());  // the model may change now
  CKPTDB_ASSIGN_OR_RETURN(SaveResult result, save.WaitCommitted());
  return result.version.step;
}

absl::StatusOr<LoadSummary> LoadSpecExample(const std::string& json,
                                            CheckpointManager* manager) {
  CKPTDB_ASSIGN_OR_RETURN(std::vector<LoadRule> rules, ParseLoadSpec(json));
  CKPTDB_ASSIGN_OR_RETURN(LoadSummary dry, manager->Load(rules,
                                                         /*dry_run=*/true));
  return dry;
}

absl::StatusOr<uint64_t> EvaluationExample(
    CheckpointManager* manager, BlobState& meters, BlobState& loader,
    uint64_t batches, const std::function<void()>& evaluate) {
  EvaluationState& evaluation = *manager->evaluation();
  CKPTDB_RETURN_IF_ERROR(evaluation.AddGroup("eval/ctr", &meters));
  const EvaluationState::Name name = {manager->global_step(), "day_7",
                                      "eval/ctr"};
  CKPTDB_ASSIGN_OR_RETURN(uint64_t done, evaluation.Load(name, &loader));
  for (; done < batches; ++done) {
    if (done % 1000 == 0) {
      CKPTDB_RETURN_IF_ERROR(evaluation.Save(name, &loader, done));
    }
    evaluate();
  }
  CKPTDB_RETURN_IF_ERROR(evaluation.Cleanup(name.step));
  return done;
}

absl::Status FollowExample(const std::string& path, ModelState& model,
                           const std::function<bool()>& evaluating,
                           const std::function<void(int64_t)>& evaluate) {
  ManagerOptions options;
  options.path = path;
  options.read_only = true;
  CKPTDB_ASSIGN_OR_RETURN(auto manager,
                          CheckpointManager::Open(options, &model));
  while (evaluating()) {
    CKPTDB_ASSIGN_OR_RETURN(const RestoreReport report,
                            manager->WaitForStep(absl::Minutes(10)));
    evaluate(report.version.step);
  }
  return absl::OkStatus();
}

absl::Status ServeExample(
    CheckpointManager* manager,
    const std::function<std::unique_lock<std::mutex>()>& lock_model) {
  CKPTDB_RETURN_IF_ERROR(manager->AwaitStep(absl::Minutes(10)).status());
  const auto lock = lock_model();
  CKPTDB_RETURN_IF_ERROR(manager->ApplyStep().status());
  return absl::OkStatus();
}

class SumMeters : public BlobState {
 public:
  absl::StatusOr<std::string> Dump() override { return "sums"; }
  absl::Status Load(absl::string_view) override { return absl::OkStatus(); }
};

TEST(HeaderExamples, CheckpointManager) {
  const testing::TempDir dir;
  std::vector<float> weights(12);
  testing::TestTable users;
  testing::TestIo reader;
  int64_t epoch = 0;
  ModelState model;
  ASSERT_OK(RegisterExample(weights.data(), users, reader, epoch, &model));
  int trained = 0;
  const auto train = [&] { ++trained; };
  std::vector<std::string> starts;
  const auto log = [&](std::string start) { starts.push_back(start); };
  ASSERT_OK(ManagerExample(dir.path() + "/store", 2001, train, log, model));
  ASSERT_OK(ManagerExample(dir.path() + "/store", 2002, train, log, model));
  EXPECT_THAT(starts, ElementsAre(HasSubstr("fresh start"),
                                  HasSubstr("restored step 2001")));
  EXPECT_EQ(trained, 2002) << "the second run begins at step 2001";
  int64_t followed = 0;
  ASSERT_OK(FollowExample(
      dir.path() + "/store", model, [&] { return followed == 0; },
      [&](int64_t step) { followed = step; }));
  EXPECT_EQ(followed, 2002);
  ManagerOptions serving;
  serving.path = dir.path() + "/store";
  serving.read_only = true;
  const auto server = CheckpointManager::Open(serving, &model).value();
  std::mutex model_mutex;
  ASSERT_OK(ServeExample(
      server.get(), [&] { return std::unique_lock<std::mutex>(model_mutex); }));
  EXPECT_EQ(server->global_step(), 2002);
  ManagerOptions options;
  options.path = dir.path() + "/another";
  const auto manager = CheckpointManager::Open(options, &model).value();
  EXPECT_EQ(PendingSaveExample(manager.get()).value(), 0);
  SumMeters meters;
  int evaluated = 0;
  ASSERT_OK_AND_ASSIGN(const uint64_t done,
                       EvaluationExample(manager.get(), meters, reader, 1001,
                                         [&] { ++evaluated; }));
  EXPECT_EQ(done, 1001U);
  EXPECT_EQ(evaluated, 1001);
  const std::string spec = R"([{"path": "$/store", "load": ["sparse", "dense"],
    "exclude": ["head.*"]},
   {"path": "$/another", "step": 0, "load": ["user"], "strict": false,
    "oname": {"user": "member"}, "hashtable_clear": false}])";
  ASSERT_OK_AND_ASSIGN(
      const LoadSummary dry,
      LoadSpecExample(absl::StrReplaceAll(spec, {{"$", dir.path()}}),
                      manager.get()));
  EXPECT_EQ(dry.rules[0].step, 2002);
  EXPECT_EQ(dry.rules[1].items[0].outcome,
            LoadSummary::LoadedItem::Outcome::kMissing);
}

}  // namespace
}  // namespace ckptdb
