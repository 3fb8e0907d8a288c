// SPDX-License-Identifier: Apache-2.0
// Random operations against a plain model in memory, compared after each.
//
//   CKPTDB_SEED=7 CKPTDB_LONG=1 model_test

#include "tests/db/store_fixture.h"
#include "tests/support/long_run.h"

namespace ckptdb::testing {
namespace {

struct SavedStep {
  std::vector<RankContent> ranks;
  Metrics metrics;
  uint64_t saved = 0;  // counts the saves
  bool pinned = false;
  bool quarantined = false;
};

class ModelTest : public StoreFixture {
 protected:
  ModelTest() : random_(TestSeed()) {}
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  // A step of the model, or now and then one that it may not have.
  int64_t AnyStep() {
    if (steps_.empty() || OneIn(6)) return static_cast<int64_t>(Below(30));
    auto it = steps_.begin();
    std::advance(it, static_cast<ptrdiff_t>(Below(steps_.size())));
    return it->first;
  }
  SavedStep* Find(int64_t step) {
    const auto it = steps_.find(step);
    return it == steps_.end() ? nullptr : &it->second;
  }
  TensorContent RandomTensor() {
    TensorContent tensor;
    tensor.dtype = static_cast<DType>(Below(kDTypes));
    tensor.codec = static_cast<Codec>(Below(3));
    size_t bytes = DTypeBytes(tensor.dtype);
    for (uint64_t d = Below(4); d > 0; --d) {
      tensor.shape.push_back(static_cast<int64_t>(Below(12)));
      bytes *= static_cast<size_t>(tensor.shape.back());
    }
    tensor.bytes = RandomBytes(&random_, bytes);
    return tensor;
  }
  // What ranks save: at times bulk, at times what they saved last, changed in
  // one place or in none.
  std::vector<RankContent> RandomRanks() {
    if (!last_.empty() && OneIn(3)) {
      std::vector<RankContent> ranks = last_;
      if (OneIn(2)) ranks[Below(ranks.size())].blobs["changed"] = RandomText();
      return ranks;
    }
    std::vector<RankContent> ranks(1 + Below(3));
    const SliceHash hash = OneIn(2) ? SliceHash::kMix : SliceHash::kModulo;
    const auto width = static_cast<uint32_t>(1 + Below(64));
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      RankContent& content = ranks[rank];
      const std::string suffix = "." + std::to_string(rank);
      for (uint64_t t = Below(4); t > 0; --t)
        content.tensors["t" + std::to_string(t) + suffix] = RandomTensor();
      for (uint64_t b = Below(3); b > 0; --b)
        content.blobs["b" + std::to_string(b)] = RandomText();
      if (OneIn(12)) {
        content.tensors["bulk" + suffix] =
            BulkTensor(random_(), (size_t{9} << 20) / ranks.size());
      }
      TableContent& table = content.tables["user"];
      table.slots = {{"v", DType::kU8, width}, {"freq", DType::kI32, 1}};
      table.hash = hash;
    }
    const uint64_t row_bytes = ranks[0].tables["user"].row_bytes();
    for (auto& [id, values] : RandomRows(&random_, row_bytes, Below(400)))
      ranks[Below(ranks.size())].tables["user"].rows[id] = values;
    return ranks;
  }
  std::string RandomText() { return RandomBytes(&random_, Below(20'000)); }
  absl::StatusOr<SaveResult> SaveRanks(const SaveSpec& spec,
                                       const std::vector<RankContent>& ranks,
                                       const SaveSpec& publish) {
    CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt save, store_->Begin(spec));
    std::vector<StagedRank> staged;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const HeldState held(ranks[rank], 1 + Below(300),
                           AnyRank(save.tickets[rank]));
      CKPTDB_ASSIGN_OR_RETURN(const StagedRank one,
                              Stage(path(), save.tickets[rank], held.state()));
      staged.push_back(one);
    }
    auto result = store_->Publish(save.version, staged, publish);
    if (!result.ok() && OneIn(2)) {
      EXPECT_OK(store_->Abandon(save.version));
    }
    return result;
  }
  // Steps to retire, and what publishing them comes to.
  std::vector<int64_t> RandomRetirement(int64_t saved) {
    std::vector<int64_t> retire;
    if (!OneIn(4)) return retire;
    for (uint64_t i = 1 + Below(3); i > 0; --i) {
      const int64_t step = AnyStep();
      const bool known =
          std::find(retire.begin(), retire.end(), step) != retire.end();
      if (step != saved && !known) retire.push_back(step);
    }
    std::sort(retire.begin(), retire.end());
    return retire;
  }
  absl::StatusCode SaveOutcome(const SaveSpec& spec,
                               const std::vector<int64_t>& retire) {
    const SavedStep* existing = Find(spec.step);
    if (existing != nullptr && !spec.overwrite)
      return absl::StatusCode::kAlreadyExists;
    if (existing != nullptr && existing->pinned && !existing->quarantined)
      return absl::StatusCode::kFailedPrecondition;
    for (const int64_t step : retire) {
      if (Find(step) == nullptr) return absl::StatusCode::kNotFound;
      if (Find(step)->pinned) return absl::StatusCode::kFailedPrecondition;
    }
    return absl::StatusCode::kOk;
  }
  void DoSave() {
    const std::vector<RankContent> ranks = RandomRanks();
    const SaveSpec spec{
        .step = OneIn(4) ? AnyStep() : static_cast<int64_t>(Below(60)),
        .overwrite = OneIn(2),
        .world_size = static_cast<uint32_t>(ranks.size())};
    const SaveSpec publish{
        .metrics = {{"loss", static_cast<double>(Below(1000))}},
        .retire = RandomRetirement(spec.step)};
    const absl::StatusCode expected = SaveOutcome(spec, publish.retire);
    const auto result = SaveRanks(spec, ranks, publish);
    ASSERT_EQ(result.status().code(), expected) << result.status();
    if (!result.ok()) return;
    // A pin passes to the step that replaces a quarantined one.
    const SavedStep* const replaced = Find(spec.step);
    const bool pinned = replaced != nullptr && replaced->pinned;
    for (const int64_t step : publish.retire) steps_.erase(step);
    steps_[spec.step] = {ranks, publish.metrics, ++saves_, pinned, false};
    last_ = ranks;
  }
  void DoFailingSave() {
    std::vector<RankContent> ranks = RandomRanks();
    ranks.back().tensors["bad"] = {DType::kF32, {2}, std::string(8, 'x'),
                                   {},          {3}, {2}};
    EXPECT_THAT(SaveRanks({.step = 77,
                           .world_size = static_cast<uint32_t>(ranks.size())},
                          ranks, {}),
                InvalidArgument("\"bad\""));
  }
  void DoAbandonedSave() {
    const std::vector<RankContent> ranks = RandomRanks();
    const Store::Attempt save =
        Begin({.step = 78, .world_size = static_cast<uint32_t>(ranks.size())});
    const size_t rank = Below(ranks.size());
    ASSERT_OK(StageRank(save.tickets[rank], ranks[rank]));
    if (OneIn(2)) {
      ASSERT_OK(store_->Abandon(save.version));
    }
  }
  void DoDelete() {
    const int64_t step = AnyStep();
    const SavedStep* model = Find(step);
    const absl::Status status = store_->Delete(step);
    const absl::StatusCode expected =
        model == nullptr ? absl::StatusCode::kNotFound
        : model->pinned  ? absl::StatusCode::kFailedPrecondition
                         : absl::StatusCode::kOk;
    ASSERT_EQ(status.code(), expected) << status;
    if (status.ok()) steps_.erase(step);
  }
  void DoFlag() {
    const int64_t step = AnyStep();
    SavedStep* model = Find(step);
    const uint64_t kind = Below(5);
    const absl::Status status = kind == 0   ? store_->Quarantine(step)
                                : kind == 1 ? store_->Pin(step)
                                            : store_->Unpin(step);
    ASSERT_EQ(status.code(), model == nullptr ? absl::StatusCode::kNotFound
                                              : absl::StatusCode::kOk)
        << status;
    if (model == nullptr) return;
    if (kind == 0) {
      model->quarantined = true;
    } else {
      model->pinned = kind == 1;
    }
  }
  void DoSweep() {
    EXPECT_TRUE(store_->Sweep().value().quarantined_versions.empty());
  }
  void DoReopen() {
    options_.background_sweep = OneIn(2);
    Reopen();
  }
  void DoOne() {
    const uint64_t kind = Below(20);
    if (kind < 9) return DoSave();
    if (kind < 12) return DoDelete();
    if (kind < 15) return DoFlag();
    if (kind == 15) return DoFailingSave();
    if (kind == 16) return DoAbandonedSave();
    if (kind == 17) return DoSweep();
    DoReopen();
  }
  void CheckList() {
    const std::vector<StepRecord> records = store_->Steps();
    ASSERT_EQ(records.size(), steps_.size());
    size_t i = 0;
    const std::pair<const int64_t, SavedStep>* latest = nullptr;
    for (const auto& entry : steps_) {
      const auto& [step, model] = entry;
      const StepRecord& record = records[i++];
      EXPECT_EQ(record.version.step, step);
      EXPECT_EQ(record.pinned, model.pinned) << step;
      EXPECT_EQ(record.quarantined, model.quarantined) << step;
      EXPECT_EQ(record.metrics, model.metrics) << step;
      EXPECT_EQ(record.world_size, model.ranks.size()) << step;
      if (!model.quarantined &&
          (latest == nullptr || model.saved > latest->second.saved)) {
        latest = &entry;
      }
    }
    const auto found = store_->Latest();
    ASSERT_EQ(found.ok(), latest != nullptr) << found.status();
    if (latest != nullptr) {
      EXPECT_EQ(found->version.step, latest->first);
    }
  }
  void CheckStep() {
    if (steps_.empty()) return;
    const int64_t step = AnyStep();
    const SavedStep* model = Find(step);
    if (model != nullptr) return ExpectStep(step, model->ranks);
    EXPECT_THAT(store_->OpenStep(step), NotFound("step"));
  }
  void CheckEnd() {
    Reopen();
    DoSweep();
    for (const auto& [step, model] : steps_) ExpectStep(step, model.ranks);
    EXPECT_THAT(UsageNow().held_versions,
                Each(::testing::Field(&Usage::Held::reason,
                                      Usage::Held::Reason::kReferenced)));
    for (const int64_t step : ListSteps()) {
      ASSERT_OK(store_->Unpin(step));
      ASSERT_OK(store_->Delete(step));
    }
    DoSweep();
    EXPECT_THAT(UsageNow().held_versions, IsEmpty());
    EXPECT_LT(UsageNow().disk_bytes,
              StoreOptions().spare_bytes + (uint64_t{4} << 20));
  }
  std::mt19937_64 random_;
  std::map<int64_t, SavedStep> steps_;
  std::vector<RankContent> last_;
  uint64_t saves_ = 0;
};

TEST_F(ModelTest, RandomOperations) {
  const int operations = IsLongRun() ? 20'000 : 400;
  for (int i = 0; i < operations && !HasFailure(); ++i) {
    SCOPED_TRACE("operation " + std::to_string(i));
    DoOne();
    CheckList();
    CheckStep();
  }
  if (!HasFailure()) CheckEnd();
}

}  // namespace
}  // namespace ckptdb::testing
