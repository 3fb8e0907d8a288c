// SPDX-License-Identifier: Apache-2.0
// A store on a simulated disk, the steps that it must hold, and what may be
// done to both; for tests of crashes, faults and damage.
//
//   SimStore sim(std::make_shared<SimFileSystem>());
//   ASSERT_OK(sim.Open());
//   StoreModel model;
//   for (const Action& action : EveryAction()) {
//     ASSERT_OK(action.run(&sim));
//     action.apply(&model);
//   }
//   ExpectModel(sim.store(), model);
//
// Nothing runs in the background, so a workload makes the same file system
// calls each time.
#ifndef CKPTDB_TESTS_DB_SIM_STORE_H_
#define CKPTDB_TESTS_DB_SIM_STORE_H_

#include "absl/status/status.h"
#include "db/disk/environment.h"
#include "db/store.h"
#include "tests/db/content.h"
#include "tests/support/long_run.h"
#include "tests/support/sim_file_system.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {

struct ModelStep {
  std::vector<RankContent> ranks;
  double serial = 0;  // of the save, kept in the step's metrics
  bool pinned = false;
  bool quarantined = false;
  // What an evaluation of it has measured so far; empty: there is none.
  std::string evaluation = {};
};
using StoreModel = std::map<int64_t, ModelStep>;

inline std::shared_ptr<SimFileSystem> CopyOf(
    const SimFileSystem& files, PowerLoss variant = PowerLoss::kKeepAll) {
  return files.CrashAfter(files.operations(), variant);
}

class SimStore {
 public:
  static constexpr char kPath[] = "/store";
  explicit SimStore(std::shared_ptr<SimFileSystem> files);
  SimFileSystem* files() const { return files_.get(); }
  Store* store() const { return store_.get(); }
  const std::shared_ptr<internal::Environment>& environment() const {
    return environment_;
  }
  StoreOptions* options() { return &options_; }
  const StoreOptions& stage_options() const { return options_; }
  absl::Status Open();
  void Close() { store_.reset(); }
  // Begin, stage all ranks, publish; Abandon when one fails. The serial goes
  // into the metrics.
  absl::Status Save(const SaveSpec& spec, const ModelStep& step);
  absl::StatusOr<Store::Attempt> Begin(const SaveSpec& spec,
                                       const ModelStep& step,
                                       std::vector<StagedRank>* staged);

 private:
  std::shared_ptr<SimFileSystem> files_;
  std::shared_ptr<internal::Environment> environment_;
  StoreOptions options_;
  std::unique_ptr<Store> store_;
};

// One change, which the store makes wholly or not at all.
struct Action {
  std::string name;
  std::function<absl::Status(SimStore*)> run;
  std::function<void(StoreModel*)> apply;
};

// `serial` tells saves of one step apart and is the seed of their bytes.
ModelStep InlineStep(double serial);
// Has so many ranks that even a small part is too large for the write batch.
// Half of its tensors are the same for each `serial`.
ModelStep BulkStep(double serial);
// Returns `before`, which has one rank, with some rows and a blob changed.
ModelStep ChangedStep(double serial, const ModelStep& before);

Action SaveAction(int64_t step, const ModelStep& content,
                  const std::vector<int64_t>& retire = {});
// The tables as their changes since `before`, which is what step `parent` has.
Action SaveOverAction(int64_t step, const ModelStep& content, int64_t parent,
                      const ModelStep& before,
                      const std::vector<int64_t>& retire = {});
Action FoldAction(int64_t step);
// Saves an evaluation of a step, of two ranks, or deletes those that are there.
Action EvaluateAction(int64_t step, const std::string& evaluation);
Action DeleteEvaluationsAction(const std::vector<int64_t>& steps);
Action DeleteAction(int64_t step);
Action PinAction(int64_t step);
Action UnpinAction(int64_t step);
Action QuarantineAction(int64_t step);
Action SweepAction();
Action ReopenAction();
Action UnfinishedAction(int64_t step, const ModelStep& content);

// All kinds of change, inline and bulk ones, some of them after a reopening.
std::vector<Action> EveryAction();

// What tells a model's steps, or a store's, apart from another's.
std::string Outline(const StoreModel& model);
std::string Outline(const Store& store);
std::string Outline(const Reader& reader);

// OK when every step of the model can be read and has its bytes; the first
// error otherwise, DataLoss for wrong bytes.
absl::Status ReadModel(Store* store, const StoreModel& model);
absl::Status ReadModel(Reader* reader, const StoreModel& model);
// Fails the test unless the store holds these steps, whole, and no others.
void ExpectModel(Store* store, const StoreModel& model);

// Folds every step that has a chain: a fold that was cut short goes on, and
// leaves nothing in staging.
absl::Status FoldAll(SimStore* sim);

// Sweeps, and fails the test when anything is left that no step needs. Closes
// the store.
void ExpectNoOrphans(SimStore* sim);
// A save works, can be read, and is there after a reopening.
void ExpectUsable(SimStore* sim, StoreModel model);

// Calls `run` with each number below `count`, or one in so many, many at a
// time: RocksDB spends a second asleep after each error of its background work.
// None is begun after the test has failed.
void EachAtOnce(uint64_t count, const std::function<void(uint64_t)>& run,
                uint64_t stride = Stride());

class PreparedStoreTest : public ::testing::Test {
 protected:
  void Prepare(const std::vector<Action>& actions) {
    SimStore sim(files_);
    ASSERT_OK(sim.Open());
    for (const Action& action : actions) {
      ASSERT_OK(action.run(&sim)) << action.name;
      action.apply(&model_);
    }
    sim.Close();
  }
  std::shared_ptr<SimFileSystem> files_ = std::make_shared<SimFileSystem>();
  StoreModel model_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_SIM_STORE_H_
