// SPDX-License-Identifier: Apache-2.0
// Folding: the same rows before and after, what stays and what goes, and a
// fold that is cut short.

#include <future>

#include "db/options.h"
#include "tests/db/delta_content.h"
#include "tests/db/odd_files.h"

namespace ckptdb::testing {
namespace {

const std::vector<Slot> kSlots = {{"embedding", DType::kF32, 4},
                                  {"freq", DType::kI32, 1}};
constexpr uint64_t kRowBytes = 20;

// A table in memory with the changes since the last save of it.
struct TestTable {
  Rows rows;
  Rows upserted;
  std::vector<int64_t> erased;
  void Upsert(int64_t id, const std::string& value) {
    rows[id] = upserted[id] = value;
    std::erase(erased, id);
  }
  void Erase(int64_t id) {
    rows.erase(id);
    upserted.erase(id);
    erased.push_back(id);
  }
};

BlockRows Blocks(const Rows& rows) {
  return {kSlots, {rows.begin(), rows.end()}, 100};
}

class FoldTest : public StoreFixture {
 protected:
  FoldTest() : random_(TestSeed()) {}
  // Saves the changes over `parent_`, with a tensor of the step's number.
  absl::StatusOr<SaveResult> SaveTable(int64_t step, TestTable* table) {
    const BlockRows rows = Blocks(table->rows);
    const BlockRows upserted = Blocks(table->upserted);
    RankState::Table item{"user", kSlots};
    item.rows = &rows;
    item.changes = RankState::Changes{&upserted, table->erased};
    RankState state;
    state.AddTable(item);
    state.AddTensor("step", TensorView::Of(&step, {}));
    state.AddTensor("same", TensorView::Of(kSame.data(), {3}));
    absl::StatusOr<SaveResult> saved =
        store_->Save({.step = step, .parent = parent_}, state);
    if (!saved.ok()) return saved;
    parent_ = saved->version;
    states_[step] = table->rows;
    table->upserted.clear();
    table->erased.clear();
    return saved;
  }
  // A base at step 0 and `deltas` deltas after it.
  void SaveChain(TestTable* table, int deltas, size_t base_rows = 500) {
    for (const auto& [id, value] : RandomRows(&random_, kRowBytes, base_rows))
      table->Upsert(id, value);
    ASSERT_OK(SaveTable(0, table).status());
    for (int step = 1; step <= deltas; ++step) {
      Change(table);
      ASSERT_EQ(SaveTable(step, table).value().kind, StepRecord::Kind::kDelta);
    }
  }
  void Change(TestTable* table) {
    for (const auto& [id, value] : RandomRows(&random_, kRowBytes, 20))
      table->Upsert(id, value);
    for (int i = 0; i < 10 && !table->rows.empty(); ++i) {
      auto row = table->rows.begin();
      std::advance(row, random_() % table->rows.size());
      if (i % 2 == 0) {
        table->Erase(row->first);
      } else {
        table->Upsert(row->first, RandomBytes(&random_, kRowBytes));
      }
    }
  }
  void ExpectStates() {
    for (const auto& [step, rows] : states_) {
      SCOPED_TRACE("step " + std::to_string(step));
      ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(step));
      EXPECT_EQ(Scan(*reader, "user").value(), rows);
      int64_t number = -1;
      EXPECT_OK(reader->ReadTensor("step", &number, sizeof(number)));
      EXPECT_EQ(number, step);
      EXPECT_OK(reader->Verify());
    }
  }
  // Stops the folding of step 2 when all parts are staged and nothing is
  // published, or at another point.
  void StopAFoldOfStep2(absl::string_view point = point::kStaged) {
    options_.on_point = [point](absl::string_view at) {
      if (at == point) throw std::runtime_error("stopped");
    };
    options_.background_sweep = false;
    Reopen();
    EXPECT_THAT(store_->Fold(2), Internal("threw: stopped"));
    options_.on_point = nullptr;
    Reopen();
  }
  Store::FoldResult Fold(int64_t step) { return store_->Fold(step).value(); }
  // Saves step 1, and step 2 with a row less in each table.
  void SaveTwoSteps(const RankContent& content) {
    const Version base = Save(1, content).value().version;
    changed_ = content;
    for (auto& [name, table] : changed_.tables)
      table.rows.erase(table.rows.begin());
    ASSERT_OK(store_->Save(
        {.step = 2, .parent = base},
        HeldChanges(changed_, ChangesBetween(content, changed_)).state()));
  }
  int64_t StagingFolders() const {
    return std::distance(std::filesystem::directory_iterator(In("staging")),
                         std::filesystem::directory_iterator());
  }
  size_t StagedFiles(const std::string& extension) const {
    size_t count = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(In("staging"))) {
      if (entry.path().extension() == extension) ++count;
    }
    return count;
  }
  static constexpr std::array<float, 3> kSame = {1, 2, 3};
  std::mt19937_64 random_;
  std::optional<Version> parent_;
  std::map<int64_t, Rows> states_;
  RankContent changed_;
};

TEST_F(FoldTest, RowsAreTheSame) {
  TestTable table;
  SaveChain(&table, 5);
  const Store::FoldResult folded = Fold(3);
  EXPECT_TRUE(folded.folded);
  EXPECT_EQ(folded.written_rows, states_[3].size());
  const StepRecord record = Record(3);
  EXPECT_EQ(record.version, folded.version);
  EXPECT_EQ(record.kind, StepRecord::Kind::kFull);
  EXPECT_EQ(record.chain.size(), 1u);
  EXPECT_EQ(record.rows, states_[3].size());
  EXPECT_EQ(record.delta_bytes, 0u);
  ExpectStates();
  Reopen();
  ExpectStates();
  ASSERT_OK(store_->Sweep());
  ExpectStates();
}

TEST_F(FoldTest, LeavesAFullStepUnchanged) {
  TestTable table;
  SaveChain(&table, 0);
  const Version before = Record(0).version;
  EXPECT_FALSE(Fold(0).folded);
  EXPECT_EQ(Fold(0).version, before);
  EXPECT_THAT(store_->Fold(9), NotFound("no step 9"));
}

TEST_F(FoldTest, SavesAndFollowersGoOnOverTheFoldedStep) {
  TestTable table;
  SaveChain(&table, 4);
  const Version held = Record(2).version;
  // The trainer knows the step by the version that it saved.
  EXPECT_TRUE(Fold(4).folded);
  EXPECT_TRUE(Fold(3).folded);
  Change(&table);
  ASSERT_OK_AND_ASSIGN(const SaveResult saved, SaveTable(5, &table));
  EXPECT_EQ(saved.kind, StepRecord::Kind::kDelta);
  EXPECT_EQ(saved.deltas, 1u);
  ExpectStates();
  ASSERT_OK(store_->Sweep());
  EXPECT_TRUE(store_->OpenChanges(held, 5).value()->forwards());
}

TEST_F(FoldTest, TheOldChainGoesWithTheLastThatNeedsIt) {
  options_.background_sweep = false;
  Reopen();
  TestTable table;
  SaveChain(&table, 3);
  EXPECT_TRUE(Fold(3).folded);
  DeleteSteps({0, 1, 2});
  // The base and the first deltas; that of step 3 itself is its increment.
  EXPECT_THAT(Swept(), SizeIs(2));
  for (const int64_t step : {0, 1, 2}) states_.erase(step);
  ExpectStates();
}

TEST_F(FoldTest, ResumesAnInterruptedFold) {
  TestTable table;
  SaveChain(&table, 3, 20000);
  EXPECT_THAT(store_->Fold(3, {.cancelled = [] { return true; }}),
              Cancelled("interrupted"));
  ExpectStates();
  ASSERT_OK(store_->Sweep());
  Reopen();
  EXPECT_TRUE(Fold(3).folded);
  ExpectStates();
}

// An attempt is listed in memory first. Where its record could not be written,
// the next fold writes it.
TEST_F(FoldTest, KeepsFinishedPartsOfAFoldThatCouldNotBegin) {
  TestTable table;
  SaveChain(&table, 2, 3000);
  const auto files = OnDisk<StaleFiles>();
  options_.environment = EnvironmentOf(files);
  // A sweep in the background would open OWNER as well.
  options_.background_sweep = false;
  bool fail = false;
  options_.on_point = [&](absl::string_view at) {
    if (fail && at == point::kStaged) throw std::runtime_error("stopped");
  };
  Reopen();
  files->stale_name = "/OWNER";
  files->stale_opens = 1;
  EXPECT_THAT(store_->Fold(2), Unavailable("OWNER"));
  EXPECT_EQ(files->stale_opens, 0);
  fail = true;
  EXPECT_THAT(store_->Fold(2), Internal("threw: stopped"));
  options_.on_point = nullptr;
  Reopen();
  const Store::FoldResult folded = Fold(2);
  EXPECT_GT(folded.parts, 0u);
  EXPECT_EQ(folded.resumed_parts, folded.parts);
  ExpectStates();
}

TEST_F(FoldTest, KeepsFinishedPartsAndRepeatsADamagedOne) {
  for (const bool damaged : {false, true}) {
    TestTable table;
    if (damaged) DeleteSteps({0, 1, 2});
    parent_.reset();
    SaveChain(&table, 2, 3000);
    StopAFoldOfStep2();
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(In("staging"))) {
      if (damaged && entry.path().extension() == ".note")
        std::filesystem::resize_file(entry.path(), 10);
    }
    const Store::FoldResult folded = Fold(2);
    EXPECT_GT(folded.parts, 0u);
    EXPECT_EQ(folded.resumed_parts, damaged ? 0u : folded.parts);
    ExpectStates();
  }
}

// A save on top of step 2 makes step 3 the one to fold.
TEST_F(FoldTest, InterruptedFoldIsSweptOnceAnotherStepIsSaved) {
  TestTable table;
  SaveChain(&table, 2, 3000);
  StopAFoldOfStep2();
  ASSERT_OK(store_->Sweep());
  EXPECT_EQ(StagingFolders(), 1);
  Change(&table);
  ASSERT_OK(SaveTable(3, &table));
  Reopen();
  EXPECT_THAT(Swept(), SizeIs(1));
  EXPECT_EQ(StagingFolders(), 0);
  const Store::FoldResult folded = Fold(2);
  EXPECT_TRUE(folded.folded);
  EXPECT_EQ(folded.resumed_parts, 0U);
  ExpectStates();
}

// Other steps were saved before the fold began, but none after it.
TEST_F(FoldTest, InterruptedFoldOfAnOlderStepIsKept) {
  TestTable table;
  SaveChain(&table, 4, 3000);
  StopAFoldOfStep2();
  ASSERT_OK(store_->Sweep());
  const Store::FoldResult folded = Fold(2);
  EXPECT_GT(folded.parts, 0U);
  EXPECT_EQ(folded.resumed_parts, folded.parts);
  ExpectStates();
}

// No fold resumes an attempt whose files were ingested.
TEST_F(FoldTest, FoldThatStopsBeforeItsCommitIsSwept) {
  TestTable table;
  SaveChain(&table, 2, 3000);
  StopAFoldOfStep2(point::kIngested);
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, SizeIs(1));
  EXPECT_GT(swept.freed_bytes, 0U);
  EXPECT_EQ(StagingFolders(), 0);
  EXPECT_EQ(Fold(2).resumed_parts, 0U);
  ExpectStates();
}

// Tables a and b share the first part's file, c is a part with two files, and y
// and z share a file again.
TEST_F(FoldTest, CancelledFoldLeavesOnlyFinishedParts) {
  constexpr uint32_t kLargeRowBytes = uint32_t{1} << 16;
  RankContent content;
  for (const auto* name : {"a", "b", "y", "z"}) {
    content.tables[name] = {kSlots, SliceHash::kModulo,
                            RandomRows(&random_, kRowBytes, 50)};
  }
  content.tables["c"] = {{{"embedding", DType::kU8, kLargeRowBytes}},
                         SliceHash::kModulo,
                         RandomRows(&random_, kLargeRowBytes, 300)};
  SaveTwoSteps(content);
  // Cancels the fold when so many files are staged.
  const auto cancel_at = [&](size_t files) {
    const auto cancelled = [&] { return StagedFiles(".sst") >= files; };
    EXPECT_THAT(store_->Fold(2, {.threads = 1, .cancelled = cancelled}),
                Cancelled("interrupted"));
  };
  cancel_at(1);
  EXPECT_EQ(StagedFiles(".sst"), 0U);
  cancel_at(4);
  EXPECT_EQ(StagedFiles(".sst"), 3U);
  EXPECT_EQ(StagedFiles(".note"), 2U);
  const Store::FoldResult folded = Fold(2);
  EXPECT_EQ(folded.parts, 3U);
  EXPECT_EQ(folded.resumed_parts, 2U);
  ExpectStep(2, {changed_});
}

// Large tables are between the small ones in the order of keys.
TEST_F(FoldTest, SmallTablesShareFiles) {
  constexpr int kTables = 300;
  constexpr uint32_t kLargeRowBytes = uint32_t{1} << 16;
  RankContent content;
  for (int i = 0; i < kTables; ++i) {
    content.tables["t" + std::to_string(i)] = {
        kSlots, SliceHash::kModulo, RandomRows(&random_, kRowBytes, 5)};
  }
  for (const auto* name : {"t150_large", "t9_large"}) {
    content.tables[name] = {{{"embedding", DType::kU8, kLargeRowBytes}},
                            SliceHash::kModulo,
                            RandomRows(&random_, kLargeRowBytes, 300)};
  }
  SaveTwoSteps(content);
  const size_t before = TableFiles().size();
  EXPECT_LE(Fold(2).parts, 5U);
  EXPECT_LE(TableFiles().size(), before + 10);
  ExpectStep(2, {changed_});
  Reopen();
  ExpectStep(2, {changed_});
}

TEST_F(FoldTest, KeepsFinishedPartsWithManyTables) {
  RankContent content;
  for (const auto* name : {"a", "b", "c"}) {
    content.tables[name] = {kSlots, SliceHash::kModulo,
                            RandomRows(&random_, kRowBytes, 50)};
  }
  SaveTwoSteps(content);
  StopAFoldOfStep2();
  const Store::FoldResult folded = Fold(2);
  EXPECT_EQ(folded.parts, 1U);
  EXPECT_EQ(folded.resumed_parts, 1U);
  ExpectStep(2, {changed_});
}

// What a fold writes is not taken from under it, also when its step is gone.
TEST_F(FoldTest, AbortsWhenTheStepIsDeleted) {
  options_.background_sweep = false;
  for (const bool swept : {false, true}) {
    TestTable table;
    states_.clear();
    parent_.reset();
    SaveChain(&table, 2);
    options_.on_point = [&](absl::string_view at) {
      if (at != point::kStaging && at != point::kStaged) return;
      if (at == (swept ? point::kStaging : point::kStaged)) {
        ASSERT_OK(store_->Delete(2));
      }
      if (!swept) return;
      ASSERT_OK(store_->Sweep());
      EXPECT_EQ(StagingFolders(), 1);
      EXPECT_THAT(store_->unswept(), IsEmpty());
    };
    Reopen();
    EXPECT_THAT(store_->Fold(2), Aborted("was deleted or overwritten"));
    EXPECT_EQ(StagingFolders(), 1);
    options_.on_point = nullptr;
    ASSERT_OK(store_->Sweep());
    EXPECT_EQ(StagingFolders(), 0);
    states_.erase(2);
    ExpectStates();
    Reopen();
    DeleteSteps({0, 1});
  }
}

TEST_F(FoldTest, ReadersSeeTheStepAllTheTime) {
  TestTable table;
  SaveChain(&table, 3);
  ASSERT_OK_AND_ASSIGN(const auto old, store_->OpenStep(3));
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
  ASSERT_OK_AND_ASSIGN(const auto followed, reader->OpenStep(3));
  ASSERT_OK(store_->Fold(3).status());
  ASSERT_OK(store_->Delete(0));
  ASSERT_OK(store_->Sweep().status());
  for (const StepReader* step : {old.get(), followed.get()})
    EXPECT_EQ(Scan(*step, "user").value(), states_[3]);
}

TEST_F(FoldTest, InTheBackground) {
  PointCount commits(point::kFlushed);
  options_.background_fold = true;
  options_.fold_bounds.max_deltas = 3;
  options_.on_point = commits.hook();
  Reopen();
  TestTable table;
  SaveChain(&table, 3);
  ASSERT_TRUE(commits.WaitFor(5));  // four saves, and the fold of the last
  // Waits for the one in the background to end, and finds nothing to do.
  EXPECT_FALSE(Fold(3).folded);
  EXPECT_EQ(Record(3).kind, StepRecord::Kind::kFull);
  ASSERT_OK(store_->sweep_status());
  ExpectStates();
  store_.reset();
}

TEST_F(FoldTest, CloseWaitsForTheOneInTheBackground) {
  std::promise<void> folding;
  std::promise<void> go;
  options_.background_fold = true;
  options_.fold_bounds.max_deltas = 3;
  options_.on_point =
      [&, saves = std::this_thread::get_id()](absl::string_view at) {
        if (at != point::kChecked || std::this_thread::get_id() == saves)
          return;
        folding.set_value();
        go.get_future().wait();
      };
  Reopen();
  TestTable table;
  SaveChain(&table, 3);
  folding.get_future().wait();
  auto closing =
      std::async(std::launch::async, [&] { return store_->Close(); });
  EXPECT_EQ(closing.wait_for(std::chrono::milliseconds(50)),
            std::future_status::timeout);
  go.set_value();
  EXPECT_OK(closing.get());
  options_.on_point = nullptr;
  Reopen();
  EXPECT_EQ(store_->FindStep(3).value().kind, StepRecord::Kind::kFull);
  ExpectStates();
}

TEST_F(FoldTest, FlagsAndMetadataStay) {
  TestTable table;
  SaveChain(&table, 2);
  ASSERT_OK(store_->Pin(2));
  ASSERT_OK_AND_ASSIGN(const StepRecord before, store_->FindStep(2));
  ASSERT_OK(store_->Fold(2).status());
  ASSERT_OK_AND_ASSIGN(const StepRecord after, store_->FindStep(2));
  EXPECT_TRUE(after.pinned);
  EXPECT_EQ(after.committed_at_micros, before.committed_at_micros);
  EXPECT_EQ(after.parent, before.parent);
  EXPECT_EQ(after.folded_from, before.version);
  EXPECT_THAT(after.references,
              UnorderedElementsAre(before.version, before.references[0]));
}

}  // namespace
}  // namespace ckptdb::testing
