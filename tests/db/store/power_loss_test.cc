// SPDX-License-Identifier: Apache-2.0
// Power is lost after every single change that a store makes to its disk, in
// every variant of what a disk forgets. What is left opens, holds each step
// that was acknowledged, and whole; nothing else; and goes on working.

#include "tests/db/sim_store.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

struct Moment {
  size_t operations = 0;
  std::string action;
  StoreModel model;
};

class Workload {
 public:
  // Runs them on a new disk, starting with the making of the store.
  void Run(const std::vector<Action>& actions,
           std::optional<uint64_t> max_manifest_bytes) {
    SimStore sim(files_);
    if (max_manifest_bytes.has_value())
      sim.environment()->set_max_manifest_bytes(*max_manifest_bytes);
    moments_.push_back({0, "nothing", {}});
    ASSERT_OK(sim.Open());
    moments_.push_back({files_->operations(), "make the store", {}});
    for (const Action& action : actions) {
      StoreModel model = moments_.back().model;
      ASSERT_OK(action.run(&sim)) << action.name;
      action.apply(&model);
      moments_.push_back({files_->operations(), action.name, std::move(model)});
    }
    ExpectModel(sim.store(), moments_.back().model);
    sim.Close();
  }
  const SimFileSystem& files() const { return *files_; }
  size_t made_at() const { return moments_[1].operations; }
  size_t last_at() const { return moments_[moments_.size() - 2].operations; }
  size_t MomentAt(size_t k) const {
    size_t at = 0;
    while (at + 1 < moments_.size() && moments_[at + 1].operations <= k) ++at;
    return at;
  }
  // What a store may hold after a loss of power then: what was acknowledged,
  // or that and the change under way.
  std::vector<const StoreModel*> ModelsAt(size_t k) const {
    const size_t at = MomentAt(k);
    std::vector<const StoreModel*> models = {&moments_[at].model};
    if (moments_[at].operations < k && at + 1 < moments_.size())
      models.push_back(&moments_[at + 1].model);
    return models;
  }
  std::string Describe(size_t k, PowerLoss variant) const {
    const size_t at = std::min(MomentAt(k) + 1, moments_.size() - 1);
    return std::string(PowerLossName(variant)) + " after operation " +
           std::to_string(k) + " of " + std::to_string(files_->operations()) +
           ", during or before: " + moments_[at].action +
           "; next is: " + files_->OperationText(k);
  }

 private:
  std::shared_ptr<SimFileSystem> files_ = std::make_shared<SimFileSystem>();
  std::vector<Moment> moments_;
};

// The store must hold one of `models`; which one, or null and a failure.
const StoreModel* Matching(const Store& store,
                           const std::vector<const StoreModel*>& models) {
  const std::string outline = Outline(store);
  for (const StoreModel* model : models) {
    if (Outline(*model) == outline) return model;
  }
  ADD_FAILURE() << "steps " << outline << "instead of "
                << Outline(*models.front()) << "or " << Outline(*models.back());
  return nullptr;
}

void CheckImage(std::shared_ptr<SimFileSystem> image,
                const std::vector<const StoreModel*>& models) {
  SimStore sim(std::move(image));
  ASSERT_OK(sim.Open());
  const StoreModel* const model = Matching(*sim.store(), models);
  if (model == nullptr) return;
  ASSERT_OK(ReadModel(sim.store(), *model));
  ASSERT_OK(FoldAll(&sim));
  ASSERT_OK(ReadModel(sim.store(), *model));
  ExpectNoOrphans(&sim);
  ASSERT_OK(sim.Open());
  ExpectModel(sim.store(), *model);
  ExpectUsable(&sim, *model);
}

// Power is lost again while the store recovers from the first time.
void CheckSecondLoss(const std::shared_ptr<SimFileSystem>& image,
                     const std::vector<const StoreModel*>& models,
                     std::mt19937_64* random) {
  SimStore sim(image);
  ASSERT_OK(sim.Open());
  ASSERT_OK(sim.store()->Sweep());
  const StoreModel* const model = Matching(*sim.store(), models);
  if (model == nullptr) return;
  sim.Close();
  const size_t k = (*random)() % (image->operations() + 1);
  const PowerLoss variant =
      kAllPowerLosses[(*random)() % std::size(kAllPowerLosses)];
  SCOPED_TRACE("then " + std::string(PowerLossName(variant)) +
               " after operation " + std::to_string(k) +
               " of the recovery: " + image->OperationText(k));
  CheckImage(image->CrashAfter(k, variant), {model});
}

class PowerLossTest : public ::testing::Test {
 protected:
  // One image in so many loses power a second time.
  static constexpr uint64_t kSecondLosses = 8;
  // From the making of the store on, or only after it, or after each operation
  // of the last action.
  enum class From { kMaking, kMade, kLast };
  static size_t FirstOperation(const Workload& workload, From from) {
    if (from == From::kMaking) return 0;
    return from == From::kMade ? workload.made_at() : workload.last_at();
  }
  void LosePowerEverywhere(const std::vector<Action>& actions,
                           From from = From::kMade) {
    Workload workload;
    workload.Run(actions, max_manifest_bytes_);
    if (HasFailure()) return;
    std::mt19937_64 random(TestSeed());
    // The same bytes mean more when more was acknowledged.
    std::set<std::pair<uint64_t, size_t>> seen;
    const size_t operations = workload.files().operations();
    const size_t first = FirstOperation(workload, from);
    const uint64_t stride = from == From::kLast ? 1 : Stride();
    for (size_t k = first + FirstCase(stride); k <= operations && !HasFailure();
         k += stride) {
      for (const PowerLoss variant : kAllPowerLosses) {
        const auto image = workload.files().CrashAfter(k, variant);
        const size_t moment = workload.MomentAt(k);
        if (!seen.emplace(image->ImageDigest(), moment).second) continue;
        SCOPED_TRACE(workload.Describe(k, variant));
        const bool again = random() % kSecondLosses == 0;
        const auto copy = CopyOf(*image);
        CheckImage(image, workload.ModelsAt(k));
        if (again && !HasFailure())
          CheckSecondLoss(copy, workload.ModelsAt(k), &random);
      }
    }
    std::cout << operations - first << " operations, " << seen.size()
              << " images" << std::endl;
  }
  std::optional<uint64_t> max_manifest_bytes_;
};

TEST_F(PowerLossTest, MakingAStore) { LosePowerEverywhere({}, From::kMaking); }

TEST_F(PowerLossTest, SaveInline) {
  LosePowerEverywhere(
      {SaveAction(10, InlineStep(1)), SaveAction(20, InlineStep(2))});
}

TEST_F(PowerLossTest, SaveBulk) {
  LosePowerEverywhere(
      {SaveAction(10, BulkStep(1)), SaveAction(20, BulkStep(2))});
}

// Store::Save does not sync the record of the attempt when it begins, but
// before the files of the attempt are in the database.
TEST_F(PowerLossTest, EachMomentOfASaveInOneCall) {
  constexpr size_t kElements = size_t{9} << 18;  // in files
  ModelStep content{std::vector<RankContent>(1), 1, false, false};
  TensorContent& zeros = content.ranks[0].tensors["zeros"];
  zeros = TensorContent::Of<float>({static_cast<int64_t>(kElements)},
                                   std::vector<float>(kElements));
  zeros.codec = Codec::kLz4;
  const auto run = [&](SimStore* sim) {
    return sim->store()
        ->Save({.step = 10, .metrics = {{"serial", content.serial}}},
               HeldState(content.ranks[0]).state())
        .status();
  };
  const auto apply = [&](StoreModel* model) { (*model)[10] = content; };
  LosePowerEverywhere({{"save in one call", run, apply}}, From::kLast);
}

// One batch makes the new step, and ends the old ones.
TEST_F(PowerLossTest, EachMomentOfACommit) {
  LosePowerEverywhere(
      {SaveAction(10, InlineStep(1)), SaveAction(20, InlineStep(2)),
       SaveAction(20, InlineStep(3), {10})},
      From::kLast);
}

TEST_F(PowerLossTest, Overwrite) {
  LosePowerEverywhere({SaveAction(10, InlineStep(1)),
                       SaveAction(10, BulkStep(2)), SaveAction(10, BulkStep(3)),
                       SaveAction(10, InlineStep(4)), SweepAction()});
}

TEST_F(PowerLossTest, DeleteAndSweep) {
  LosePowerEverywhere({SaveAction(10, InlineStep(1)),
                       SaveAction(20, BulkStep(2)), DeleteAction(10),
                       DeleteAction(20), SweepAction(),
                       SaveAction(10, BulkStep(3))});
}

TEST_F(PowerLossTest, RetireWhatAnotherStepUses) {
  LosePowerEverywhere({SaveAction(10, BulkStep(1)),
                       SaveAction(20, BulkStep(2), {10}), SweepAction(),
                       DeleteAction(20), SweepAction()});
}

TEST_F(PowerLossTest, SaveChangesAndRetireTheBase) {
  const ModelStep base = InlineStep(1);
  const ModelStep second = ChangedStep(2, base);
  const ModelStep third = ChangedStep(3, second);
  LosePowerEverywhere({SaveAction(10, base),
                       SaveOverAction(20, second, 10, base),
                       SaveOverAction(30, third, 20, second, {10, 20}),
                       SweepAction(), DeleteAction(30), SweepAction()});
}

TEST_F(PowerLossTest, Fold) {
  const ModelStep base = InlineStep(1);
  const ModelStep second = ChangedStep(2, base);
  const ModelStep third = ChangedStep(3, second);
  LosePowerEverywhere(
      {SaveAction(10, base), SaveOverAction(20, second, 10, base),
       FoldAction(20), DeleteAction(10), SweepAction(),
       SaveOverAction(30, third, 20, second, {20}), SweepAction()});
}

TEST_F(PowerLossTest, Flags) {
  LosePowerEverywhere({SaveAction(10, InlineStep(1)), PinAction(10),
                       QuarantineAction(10), UnpinAction(10)});
}

TEST_F(PowerLossTest, Evaluations) {
  const ModelStep base = InlineStep(1);
  const ModelStep second = ChangedStep(2, base);
  LosePowerEverywhere(
      {SaveAction(10, base), EvaluateAction(10, "half"),
       SaveOverAction(20, second, 10, base), EvaluateAction(20, "a third"),
       FoldAction(20), DeleteEvaluationsAction({10}), SaveAction(10, base),
       EvaluateAction(20, "all"), DeleteAction(20), SweepAction()});
}

TEST_F(PowerLossTest, UnfinishedSaveAndReopening) {
  LosePowerEverywhere({UnfinishedAction(10, BulkStep(1)), ReopenAction(),
                       SweepAction(), UnfinishedAction(20, InlineStep(2)),
                       SaveAction(20, InlineStep(3)), ReopenAction()});
}

// With each record, while the store is open.
TEST_F(PowerLossTest, AManifestThatBeginsAnew) {
  max_manifest_bytes_ = 1;
  LosePowerEverywhere({SaveAction(10, InlineStep(1)),
                       SaveAction(20, BulkStep(2)), DeleteAction(10),
                       SweepAction(), SaveAction(30, BulkStep(3), {20}),
                       SweepAction()});
}

// A stager in another process may still write to the folder of its number.
TEST_F(PowerLossTest, AnAttemptThatHasBegunIsNotUsedAgain) {
  const auto files = std::make_shared<SimFileSystem>();
  SimStore sim(files);
  ASSERT_OK(sim.Open());
  const SaveSpec spec{.step = 10, .world_size = 2};
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save, sim.store()->Begin(spec));
  for (const PowerLoss variant : kAllPowerLosses) {
    SCOPED_TRACE(PowerLossName(variant));
    SimStore after(files->CrashAfter(files->operations(), variant));
    ASSERT_OK(after.Open());
    ASSERT_OK_AND_ASSIGN(const Store::Attempt next, after.store()->Begin(spec));
    EXPECT_GT(next.version.attempt, save.version.attempt);
  }
}

// All kinds of changes, one after the other: CKPTDB_LONG=1 runs it.
TEST_F(PowerLossTest, Everything) {
  if (!IsLongRun()) GTEST_SKIP() << "CKPTDB_LONG is not set";
  LosePowerEverywhere(EveryAction());
}

}  // namespace
}  // namespace ckptdb::testing
