// SPDX-License-Identifier: Apache-2.0
// Random saves of tables, whole and as changes, by any number of ranks, with
// branches, folds, deletions, sweeps and losses of power, against a plain model
// in memory. After each, steps are restored and followed from one another.
//
//   CKPTDB_SEED=7 CKPTDB_LONG=1 delta_model_test

#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tests/db/model_trainer.h"
#include "tests/db/sim_store.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

using ::testing::Eq;
using Code = absl::StatusCode;

constexpr size_t kManySteps = 12;
constexpr size_t kHeldReaders = 3;

// A save that is staged and not yet published.
struct StagedSave {
  SaveSpec spec;
  Store::Attempt handle;
  std::vector<StagedRank> ranks;
  SavedState state;
};

class DeltaModelTest : public ::testing::Test {
 protected:
  DeltaModelTest() : random_(TestSeed()), trainer_(&random_) {}
  void SetUp() override { ASSERT_OK(sim_->Open()); }
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  template <typename Container>
  auto Any(const Container& all) {
    auto it = all.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(Below(all.size())));
    return it;
  }
  Store* store() { return sim_->store(); }
  // The trainer goes on from a step, and forgets what it did since.
  void DoRestore() {
    if (model_.steps.empty()) return;
    parent_ = Any(model_.steps)->second.state;
    trainer_.Restore(model_.states.at(parent_).tables);
  }
  // --- Saves.
  // Whether the changes of a table do over the parent.
  bool AreChanges(const SaveSpec& spec, const std::string& name) const {
    if (!spec.parent.has_value()) return false;
    const Tables& old = model_.states.at(spec.parent->attempt).tables;
    return old.contains(name) &&
           SameSlots(old.at(name), trainer_.tables().at(name));
  }
  SaveSpec RandomSpec(bool with_parent) {
    SaveSpec spec{.world_size = static_cast<uint32_t>(1 + Below(3))};
    if (OneIn(2)) spec.slice_bounds = EvenSliceBounds(spec.world_size);
    spec.step = model_.steps.empty() ? static_cast<int64_t>(Below(5))
                                     : Any(model_.steps)->first;
    if (!OneIn(4)) spec.step = next_step_ += 1 + static_cast<int64_t>(Below(2));
    spec.overwrite = OneIn(2);
    if (!with_parent || parent_ == 0) return spec;
    spec.parent = model_.states.at(parent_).version;
    spec.abandoned = OneIn(2)   ? SaveSpec::Abandoned::kRefuse
                     : OneIn(2) ? SaveSpec::Abandoned::kKeep
                                : SaveSpec::Abandoned::kRemove;
    return spec;
  }
  absl::StatusOr<StagedSave> StageSave(const SaveSpec& given) {
    StagedSave save;
    save.spec = given;
    SaveSpec& spec = save.spec;
    const uint32_t newest = model_.Newest();
    std::set<std::string> as_changes;
    for (const auto& [name, table] : trainer_.tables()) {
      const bool changes = !OneIn(8);
      if (changes) as_changes.insert(name);
      if (!changes || !AreChanges(spec, name)) save.state.whole.insert(name);
    }
    RankParts parts = trainer_.Share(spec, as_changes);
    save.state.tables = trainer_.tables();
    save.state.blob = absl::StrCat("save ", ++saves_);
    save.state.world_size = spec.world_size;
    RankContent& first = parts.contents[0];
    first.blobs["reader"] = save.state.blob;
    first.tensors["same"] = BulkTensor(1, 4096);
    if (OneIn(50)) first.tensors["bulk"] = BulkTensor(saves_, kBulkBytes);
    // The parent may have been renamed since.
    if (spec.parent.has_value()) spec.parent = NameOf(spec.parent->attempt);
    CKPTDB_ASSIGN_OR_RETURN(save.handle, store()->Begin(spec));
    save.state.version = save.handle.version;
    save.state.parent =
        given.parent.has_value() ? given.parent->attempt : newest;
    for (uint32_t rank = 0; rank < spec.world_size; ++rank) {
      const HeldChanges held(parts.contents[rank], parts.deltas[rank],
                             /*whole=*/!save.state.whole.empty() || OneIn(2),
                             1 + Below(60), AnyRank(save.handle.tickets[rank]));
      CKPTDB_ASSIGN_OR_RETURN(save.ranks.emplace_back(),
                              Stage(SimStore::kPath, save.handle.tickets[rank],
                                    held.state(), sim_->stage_options()));
    }
    return save;
  }
  // The version as it was saved, or as the step has it after a fold.
  Version NameOf(uint32_t state) {
    const Version saved = model_.states.at(state).version;
    const auto record = store()->FindStep(saved.step);
    if (!record.ok() || OneIn(2) || !record->folded) return saved;
    return record->folded_from == saved ? record->version : saved;
  }
  // What a save may come to that begins, or is published, now.
  Code CodeOf(const SaveSpec& spec, uint32_t parent,
              const std::vector<int64_t>& retire) {
    const auto replaced = model_.steps.find(spec.step);
    if (replaced != model_.steps.end() && !spec.overwrite)
      return Code::kAlreadyExists;
    if (replaced != model_.steps.end() && replaced->second.pinned &&
        !replaced->second.quarantined) {
      return Code::kFailedPrecondition;
    }
    if (spec.parent.has_value()) {
      const int64_t step = spec.parent->step;
      if (!model_.IsStep(parent) || model_.steps.at(step).quarantined)
        return Code::kFailedPrecondition;
      if (spec.step < step) return Code::kInvalidArgument;
      if (spec.abandoned == SaveSpec::Abandoned::kRefuse &&
          model_.Newest() != parent) {
        return Code::kFailedPrecondition;
      }
    }
    for (const int64_t step : retire) {
      if (!model_.steps.contains(step)) return Code::kNotFound;
      if (model_.steps.at(step).pinned) return Code::kFailedPrecondition;
    }
    return Code::kOk;
  }
  static bool Removes(const SaveSpec& spec) {
    return spec.parent.has_value() &&
           spec.abandoned == SaveSpec::Abandoned::kRemove;
  }
  std::vector<int64_t> RandomRetirement(const SaveSpec& spec) {
    std::vector<int64_t> retire;
    if (Removes(spec) || !OneIn(4)) return retire;
    const bool keep_latest = OneIn(2);
    for (const auto& [number, step] : model_.steps) {
      if (number == spec.step || (step.pinned && !OneIn(20))) continue;
      if (keep_latest || OneIn(4)) retire.push_back(number);
    }
    if (OneIn(10)) retire.push_back(1'000'000);
    return retire;
  }
  // Abandons what fails.
  absl::StatusOr<SaveResult> PublishSave(const StagedSave& save) {
    const std::vector<int64_t> retire = RandomRetirement(save.spec);
    const Code code = CodeOf(save.spec, save.state.parent, retire);
    auto result =
        store()->Publish(save.handle.version, save.ranks, {.retire = retire});
    EXPECT_EQ(result.status().code(), code) << result.status();
    if (!result.ok()) {
      EXPECT_OK(store()->Abandon(save.handle.version));
      return result;
    }
    const SavedState& state = save.state;
    EXPECT_EQ(result->kind == StepRecord::Kind::kFull,
              state.whole.size() == state.tables.size());
    ExpectParent(state);
    const auto replaced = model_.steps.find(save.spec.step);
    const bool pinned =
        replaced != model_.steps.end() && replaced->second.pinned;
    for (const int64_t step : retire) model_.steps.erase(step);
    if (Removes(save.spec)) TakeRemoved(save);
    model_.states[state.version.attempt] = state;
    // A pin passes to the step that replaces a quarantined one.
    model_.steps[save.spec.step] = {.state = state.version.attempt,
                                    .pinned = pinned};
    return result;
  }
  // By the name that it was saved with, or that a fold gave it since.
  void ExpectParent(const SavedState& state) {
    ASSERT_OK_AND_ASSIGN(const StepRecord record,
                         store()->FindStep(state.version.step));
    ASSERT_EQ(record.has_parent, state.parent != 0);
    if (state.parent == 0) return;
    const Version& saved = model_.states.at(state.parent).version;
    EXPECT_EQ(record.parent.step, saved.step);
    EXPECT_GE(record.parent.attempt, saved.attempt);
  }
  // Pinned steps of the branch stay.
  void TakeRemoved(const StagedSave& save) {
    for (const int64_t step : model_.DescendantsOf(save.state.parent)) {
      if (!model_.steps.at(step).pinned) model_.steps.erase(step);
    }
  }
  void DoSave(bool with_parent) {
    const SaveSpec spec = RandomSpec(with_parent);
    const Code code = CodeOf(spec, parent_, {});
    auto save = StageSave(spec);
    if (!save.ok()) {
      ASSERT_EQ(save.status().code(), code) << save.status();
      return;
    }
    // Another save, and much else, may come before it is published.
    if (OneIn(12)) {
      delayed_ = *std::move(save);
      return;
    }
    const auto result = PublishSave(*save);
    if (!result.ok()) return;
    parent_ = result->version.attempt;
    trainer_.Forget();
  }
  void DoPublishDelayed() {
    if (!delayed_.has_value()) return;
    const StagedSave save = *std::move(delayed_);
    delayed_.reset();
    PublishSave(save).status().IgnoreError();
  }
  void DoFailingSave() {
    SaveSpec spec = RandomSpec(/*with_parent=*/true);
    const auto save = StageSave(spec);
    if (save.ok()) {
      EXPECT_OK(store()->Abandon(save->handle.version));
    }
  }
  // --- Other changes.
  int64_t AnyStep() {
    if (model_.steps.empty() || OneIn(10)) return 999'999;
    return Any(model_.steps)->first;
  }
  void DoDelete() {
    const int64_t step = AnyStep();
    const auto found = model_.steps.find(step);
    const Code code = found == model_.steps.end() ? Code::kNotFound
                      : found->second.pinned      ? Code::kFailedPrecondition
                                                  : Code::kOk;
    EXPECT_EQ(store()->Delete(step).code(), code);
    if (code == Code::kOk) model_.steps.erase(found);
  }
  void DoFlag() {
    const int64_t step = AnyStep();
    const uint64_t kind = Below(8);
    const absl::Status status = kind == 0  ? store()->Quarantine(step)
                                : kind < 3 ? store()->Pin(step)
                                           : store()->Unpin(step);
    const auto found = model_.steps.find(step);
    EXPECT_EQ(status.ok(), found != model_.steps.end()) << status;
    if (!status.ok()) return;
    if (kind == 0) found->second.quarantined = true;
    if (kind != 0) found->second.pinned = kind < 3;
  }
  // Now and then of the step that a save which is under way goes on from.
  void DoFold() {
    int64_t step = AnyStep();
    if (delayed_.has_value() && delayed_->spec.parent.has_value())
      step = delayed_->spec.parent->step;
    const auto found = model_.steps.find(step);
    ReadOptions options{.threads = 1};
    const auto folded = store()->Fold(step, options);
    EXPECT_EQ(folded.ok(), found != model_.steps.end()) << folded.status();
    if (!folded.ok()) return;
    const SavedState& state = model_.states.at(found->second.state);
    EXPECT_EQ(folded->folded, !found->second.folded &&
                                  state.whole.size() < state.tables.size());
    if (folded->folded) found->second.folded = true;
  }
  void DoSweep() {
    EXPECT_TRUE(store()->Sweep().value().quarantined_versions.empty());
    ASSERT_OK(store()->GetUsage());
  }
  // Closes the store, or loses power.
  void DoReopen() {
    readers_.clear();
    delayed_.reset();
    const auto files = sim_->files();
    if (OneIn(2)) sim_->Close();
    auto next = std::make_unique<SimStore>(files->CrashAfter(
        files->operations(),
        OneIn(2) ? PowerLoss::kKeepAll : PowerLoss::kDropBoth));
    next->options()->background_sweep = OneIn(2);
    sim_ = std::move(next);
    ASSERT_OK(sim_->Open());
  }
  // --- Checks.
  ScanOptions RandomRead() {
    ScanOptions options{.read = {.threads = static_cast<int>(1 + Below(3))}};
    return options;
  }
  // The parts that the ranks of a world read, by slices or by a rule.
  std::vector<ScanOptions> RandomParts() {
    const auto world = static_cast<uint32_t>(1 + Below(4));
    std::vector<ScanOptions> parts(world, RandomRead());
    const std::vector<uint32_t> bounds = EvenSliceBounds(world);
    const bool by_slices = OneIn(2);
    for (uint32_t rank = 0; rank < world && world > 1; ++rank) {
      if (by_slices) parts[rank].slices = {bounds[rank], bounds[rank + 1]};
      if (by_slices) continue;
      parts[rank].wanted = [world, rank](int64_t id) {
        return static_cast<uint64_t>(id) % world == rank;
      };
    }
    return parts;
  }
  void ExpectState(const StepReader& step, const SavedState& state) {
    EXPECT_EQ(step.record().world_size, state.world_size);
    EXPECT_EQ(step.ReadBlob(0, "reader").value(), state.blob);
    for (const auto& [name, table] : state.tables) {
      SCOPED_TRACE(name);
      LiveRows live(table.slots);
      for (const ScanOptions& part : RandomParts()) {
        ASSERT_OK(step.RestoreTable(name, LiveTable::RestoreMode::kMerge, part,
                                    &live));
      }
      ASSERT_TRUE(live.rows() == table.rows);
      std::set<int64_t> ids = {RandomIds(&random_, 1).front()};
      if (!table.rows.empty()) ids.insert(Any(table.rows)->first);
      ExpectLookups(step, name, table, ids);
    }
    if (OneIn(4)) {
      EXPECT_OK(step.Verify());
    }
  }
  void CheckStep() {
    if (model_.steps.empty()) return;
    const auto& [number, model] = *Any(model_.steps);
    SCOPED_TRACE(absl::StrCat("step ", number));
    ASSERT_OK_AND_ASSIGN(auto step, store()->OpenStep(number));
    EXPECT_EQ(step->record().pinned, model.pinned);
    EXPECT_EQ(step->record().quarantined, model.quarantined);
    ExpectState(*step, model_.states.at(model.state));
    if (!OneIn(10)) return;
    readers_.emplace_back(std::move(step), model.state);
    if (readers_.size() <= kHeldReaders) return;
    // One that was opened long ago.
    ExpectState(*readers_.front().first,
                model_.states.at(readers_.front().second));
    readers_.erase(readers_.begin());
  }
  void CheckList() {
    std::vector<int64_t> steps;
    for (const StepRecord& record : store()->Steps())
      steps.push_back(record.version.step);
    std::vector<int64_t> expected;
    for (const auto& [number, step] : model_.steps) expected.push_back(number);
    ASSERT_EQ(steps, expected);
  }
  // Compares the changes between a state of any age and a step.
  void CheckChanges() {
    if (model_.steps.empty()) return;
    const uint32_t from =
        OneIn(2) ? Any(model_.states)->first : Any(model_.steps)->second.state;
    const int64_t to = Any(model_.steps)->first;
    const uint32_t target = model_.steps.at(to).state;
    SCOPED_TRACE(absl::StrCat("from ", ToString(model_.states.at(from).version),
                              " to step ", to));
    const Version name = NameOf(from);
    const auto changes = store()->OpenChanges(name, to);
    ASSERT_THAT(changes.status().code(),
                AnyOf(Eq(Code::kOk), Eq(Code::kFailedPrecondition)))
        << changes.status();
    const auto record = store()->FindStep(to);
    const std::vector<Version>& chain = record->chain;
    const bool in_chain =
        std::find(chain.begin(), chain.end(), name) != chain.end();
    for (const auto& [table, content] : model_.states.at(target).tables) {
      SCOPED_TRACE(table);
      Way way = model_.WayOf(from, target, table);
      if (in_chain && way == Way::kMay) way = Way::kMust;
      if (changes.ok()) {
        CheckFollowed(**changes, from, table, content, way);
      } else {
        EXPECT_NE(way, Way::kMust) << changes.status();
      }
    }
  }
  void CheckFollowed(const ChangeReader& changes, uint32_t from,
                     const std::string& name, const TableContent& content,
                     Way way) {
    const Tables& old = model_.states.at(from).tables;
    LiveRows live(content.slots,
                  old.contains(name) ? old.at(name).rows : Rows());
    absl::Status status;
    for (const ScanOptions& part : RandomParts())
      status.Update(changes.ScanTable(name, part, &live));
    EXPECT_EQ(status.ok(), way != Way::kNever) << status;
    if (status.ok()) {
      EXPECT_TRUE(live.rows() == content.rows);
    } else {
      EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status;
    }
  }
  void DoOne() {
    if (model_.steps.size() > kManySteps && OneIn(2)) return DoDelete();
    const uint64_t kind = Below(40);
    if (kind < 12) return trainer_.ChangeRows();
    if (kind < 24) return DoSave(/*with_parent=*/true);
    if (kind < 26) return DoSave(/*with_parent=*/false);
    if (kind < 28) return DoRestore();
    if (kind < 30) return DoDelete();
    if (kind < 32) return DoFlag();
    if (kind < 34) return DoFold();
    if (kind == 34) return trainer_.ChangeTables();
    if (kind == 35) return DoFailingSave();
    if (kind == 36) return DoPublishDelayed();
    if (kind == 37) return DoReopen();
    DoSweep();
  }
  // After all of it nothing is left that no step needs.
  void CheckEnd() {
    DoReopen();
    DoSweep();
    for (const auto& [number, model] : model_.steps) {
      ASSERT_OK_AND_ASSIGN(const auto step, store()->OpenStep(number));
      ExpectState(*step, model_.states.at(model.state));
    }
    for (const auto& [number, model] : model_.steps) {
      ASSERT_OK(store()->Unpin(number));
      ASSERT_OK(store()->Delete(number));
    }
    DoSweep();
    ASSERT_OK_AND_ASSIGN(const Usage usage, store()->GetUsage());
    EXPECT_TRUE(usage.held_versions.empty())
        << ToString(usage.held_versions[0].version);
    EXPECT_LT(usage.disk_bytes, kFixedBytes);
  }
  static constexpr size_t kBulkBytes = size_t{17} << 20;
  // The size of logs, the MANIFEST and records.
  static constexpr uint64_t kFixedBytes = uint64_t{4} << 20;
  std::mt19937_64 random_;
  std::unique_ptr<SimStore> sim_ =
      std::make_unique<SimStore>(std::make_shared<SimFileSystem>());
  DeltaModel model_;
  std::vector<std::pair<std::unique_ptr<StepReader>, uint32_t>> readers_;
  std::optional<StagedSave> delayed_;
  int64_t next_step_ = 0;
  uint64_t saves_ = 0;
  ModelTrainer trainer_;
  uint32_t parent_ = 0;  // the state that the trainer goes on from
};

TEST_F(DeltaModelTest, RandomOperations) {
  const int few = kSanitized ? 500 : 1500;
  const int operations = IsLongRun() ? 20'000 : few;
  for (int i = 0; i < operations && !HasFailure(); ++i) {
    SCOPED_TRACE("operation " + std::to_string(i));
    DoOne();
    CheckList();
    CheckStep();
    if (OneIn(2)) CheckChanges();
  }
  readers_.clear();
  if (!HasFailure()) CheckEnd();
}

}  // namespace
}  // namespace ckptdb::testing
