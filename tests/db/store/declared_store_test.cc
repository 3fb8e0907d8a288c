// SPDX-License-Identifier: Apache-2.0
// The store of tests/golden/declared_sharding, as it lies there and as it is
// written today: both hold the values of its formulas, and are gone on with.

#include "schema/records/records.h"
#include "tests/db/store_fixture.h"
#include "tests/golden/declared_sharding/history.h"
#include "tests/golden/declared_sharding/make_store.h"
#include "tests/support/source_folder.h"

namespace ckptdb::testing {
namespace {

using ::testing::Optional;

enum class GoldenSource { kStored, kWrittenToday };

using Reason = Usage::Held::Reason;

class DeclaredStoreTest : public SweptFixture,
                          public ::testing::WithParamInterface<GoldenSource> {
 protected:
  void SetUp() override {
    if (GetParam() == GoldenSource::kStored) {
      std::filesystem::copy(SourcePath("tests/golden/declared_sharding/store"),
                            path(), std::filesystem::copy_options::recursive);
    } else {
      ASSERT_OK(MakeDeclaredShardingStore(path()));
    }
    Reopen();
  }
  void ExpectTables(const StepReader& reader, const GoldenStep& golden) {
    for (const auto& [name, table] : golden.tables) {
      SCOPED_TRACE("table " + name);
      ASSERT_OK_AND_ASSIGN(const StepReader::TableSpec spec,
                           reader.FindTable(name));
      EXPECT_TRUE(SameSlots(spec.slots, table.slots));
      EXPECT_EQ(spec.slice_hash, table.hash);
      EXPECT_EQ(spec.sharding, GoldenSharding(name).kind());
      EXPECT_EQ(spec.sharding_name, GoldenSharding(name).name());
      ASSERT_OK_AND_ASSIGN(const Rows rows, Scan(reader, name));
      EXPECT_EQ(rows.size(), table.rows.size());
      std::set<int64_t> ids = {-1, 1};
      for (const auto& [id, row] : table.rows) {
        ids.insert(id);
        const auto read = rows.find(id);
        ASSERT_NE(read, rows.end()) << "id " << id;
        EXPECT_TRUE(read->second == row) << "id " << id;
      }
      ExpectLookups(reader, name, table, ids);
    }
  }
  static void ExpectTensors(const StepReader& reader,
                            const GoldenStep& golden) {
    for (const auto& [name, tensor] : golden.tensors) {
      SCOPED_TRACE("tensor " + name);
      const Item spec = reader.FindTensor(name).value();
      EXPECT_EQ(spec.dtype, tensor.dtype);
      EXPECT_EQ(spec.shape, tensor.shape);
      EXPECT_TRUE(ReadTensorBytes(reader, name).value() == tensor.bytes);
    }
  }
  static void ExpectBlobs(const StepReader& reader, const GoldenStep& golden) {
    for (uint32_t rank = 0; rank < golden.plan.world_size; ++rank) {
      for (const auto& [name, bytes] : golden.blobs[rank]) {
        EXPECT_TRUE(reader.ReadBlob(rank, name).value() == bytes)
            << "blob " << name << " of rank " << rank;
      }
    }
  }
  static void ExpectNames(const StepReader& reader, const GoldenStep& golden) {
    using Names = std::map<Item::Kind, std::multiset<std::string>>;
    Names names;
    Names expected;
    for (const StepRecord::Rank& rank : reader.ranks()) {
      for (const Item& item : rank.items) {
        const bool once = item.kind == Item::Kind::kBlob ||
                          names[item.kind].count(item.name) == 0;
        if (once) names[item.kind].insert(item.name);
      }
    }
    for (const auto& [name, table] : golden.tables)
      expected[Item::Kind::kRows].insert(name);
    for (const auto& [name, tensor] : golden.tensors)
      expected[Item::Kind::kTensor].insert(name);
    for (const auto& rank : golden.blobs) {
      for (const auto& [name, bytes] : rank)
        expected[Item::Kind::kBlob].insert(name);
    }
    EXPECT_EQ(names, expected);
  }
  void ExpectGolden(const StepReader& reader, int64_t step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const GoldenStep golden = GoldenStepOf(step);
    EXPECT_EQ(reader.record().version.step, step);
    EXPECT_EQ(reader.record().slice_bounds, golden.plan.slice_bounds);
    ASSERT_EQ(reader.ranks().size(), golden.plan.world_size);
    ExpectNames(reader, golden);
    ExpectTables(reader, golden);
    ExpectTensors(reader, golden);
    ExpectBlobs(reader, golden);
    EXPECT_OK(reader.Verify());
  }
  void ExpectGolden(const std::vector<int64_t>& steps) {
    EXPECT_EQ(ListSteps(), steps);
    for (const int64_t step : steps)
      ExpectGolden(*store_->OpenStep(step).value(), step);
  }
  std::vector<int64_t> ChainOf(int64_t step) {
    std::vector<int64_t> chain;
    for (const Version& version : Record(step).chain)
      chain.push_back(version.step);
    return chain;
  }
  std::multimap<int64_t, Reason> Others() {
    std::multimap<int64_t, Reason> others;
    for (const Usage::Held& other : UsageNow().held_versions)
      others.emplace(other.version.step, other.reason);
    return others;
  }
  // A process that holds `from` comes to `to`.
  static void ExpectFollows(const ChangeReader& changes, int64_t from,
                            int64_t to) {
    SCOPED_TRACE("from " + std::to_string(from) + " to " + std::to_string(to));
    const GoldenStep before = GoldenStepOf(from);
    const GoldenStep after = GoldenStepOf(to);
    for (const auto& [name, table] : after.tables) {
      LiveRows live(table.slots, before.tables.at(name).rows);
      EXPECT_OK(changes.ScanTable(name, {}, &live));
      EXPECT_TRUE(live.rows() == table.rows) << "table " << name;
    }
    std::vector<std::pair<uint32_t, std::string>> items;
    for (const StepRecord::Rank& rank : changes.ChangedItems()) {
      for (const Item& item : rank.items) {
        items.emplace_back(
            rank.rank, absl::StrCat(ItemKindName(item.kind), " ", item.name));
      }
    }
    EXPECT_THAT(items, Contains(Pair(0U, "blob reader")));
    EXPECT_THAT(items, Contains(Pair(0U, "tensor scalar")));
    EXPECT_THAT(items, Not(Contains(Pair(::testing::_, "tensor frozen"))));
  }
  void ExpectFollows(int64_t from, int64_t to, bool forwards) {
    ASSERT_OK_AND_ASSIGN(const auto changes,
                         store_->OpenChanges(Record(from).version, to));
    EXPECT_EQ(changes->forwards(), forwards);
    ExpectFollows(*changes, from, to);
  }
  const std::vector<int64_t> steps_ = {20,  30,  40,  100, 120, 130,
                                       140, 150, 160, 170, 180, 190};
};

INSTANTIATE_TEST_SUITE_P(Golden, DeclaredStoreTest,
                         ::testing::Values(GoldenSource::kStored,
                                           GoldenSource::kWrittenToday),
                         [](const auto& source) {
                           return source.param == GoldenSource::kStored
                                      ? "Stored"
                                      : "WrittenToday";
                         });

TEST_P(DeclaredStoreTest, HoldsItsFormulas) { ExpectGolden(steps_); }

TEST_P(DeclaredStoreTest, HoldsItsFormulasForAReader) {
  store_.reset();
  ASSERT_OK_AND_ASSIGN(const auto follower, Reader::Open(path()));
  EXPECT_EQ(follower->Steps().size(), steps_.size());
  for (const int64_t step : steps_)
    ExpectGolden(*follower->OpenStep(step).value(), step);
  ASSERT_OK_AND_ASSIGN(const StepRecord from, follower->FindStep(150));
  ExpectFollows(*follower->OpenChanges(from.version, 160).value(), 150, 160);
}

TEST_P(DeclaredStoreTest, HasItsRecords) {
  EXPECT_THAT(store_->user_metadata(),
              ElementsAre(Pair("bytes", std::string("\0\xff", 2)),
                          Pair("run", "golden")));
  EXPECT_EQ(store_->Latest().value().version.step, 190);
  std::set<int64_t> full;
  std::set<int64_t> ephemeral;
  std::set<int64_t> pinned;
  std::set<int64_t> quarantined;
  std::set<int64_t> folded;
  for (const StepRecord& record : store_->Steps()) {
    const int64_t step = record.version.step;
    if (record.kind == StepRecord::Kind::kFull) full.insert(step);
    if (record.ephemeral) ephemeral.insert(step);
    if (record.pinned) pinned.insert(step);
    if (record.quarantined) quarantined.insert(step);
    if (record.folded) folded.insert(step);
    EXPECT_EQ(record.store_uuid, store_->uuid());
    EXPECT_GT(record.committed_at_micros, 0);
  }
  EXPECT_THAT(full, ElementsAre(20, 30, 100, 140, 180));
  EXPECT_THAT(ephemeral, ElementsAre(120));
  EXPECT_THAT(pinned, ElementsAre(100));
  EXPECT_THAT(quarantined, ElementsAre(180));
  EXPECT_THAT(folded, ElementsAre(140));
  EXPECT_THAT(Record(100).metrics,
              ElementsAre(Pair("auc", 0.75), Pair("loss", -0.5)));
  EXPECT_THAT(Record(100).user_metadata, ElementsAre(Pair("note", "a base")));
}

TEST_P(DeclaredStoreTest, HasItsLineage) {
  EXPECT_THAT(ChainOf(40), ElementsAre(30, 40));
  EXPECT_THAT(ChainOf(130), ElementsAre(100, 110, 120, 130));
  EXPECT_THAT(ChainOf(160), ElementsAre(140, 150, 160));
  EXPECT_THAT(ChainOf(190), ElementsAre(140, 170, 190));
  EXPECT_EQ(Record(170).parent, Record(140).version);
  EXPECT_EQ(Record(180).parent, Record(170).version);
  EXPECT_EQ(Record(160).branches.size(), 1U);
  EXPECT_EQ(Record(170).branches.size(), 2U);
  EXPECT_EQ(Record(180).branches.size(), 2U);
  EXPECT_EQ(Record(190).branches.size(), 3U);
  EXPECT_THAT(Others(), UnorderedElementsAre(Pair(110, Reason::kReferenced),
                                             Pair(140, Reason::kReferenced),
                                             Pair(160, Reason::kInProgress),
                                             Pair(210, Reason::kGarbage)));
}

// Small parts and files, what codecs made smaller and what they did not, bytes
// of its own and borrowed ones.
TEST_P(DeclaredStoreTest, HasItemsOfEveryKind) {
  std::set<Item::Placement> placements;
  std::set<Codec> codecs;
  std::set<DType> slot_dtypes;
  std::set<Item::Run> runs;
  bool borrowed = false;
  bool erased = false;
  for (const int64_t step : steps_) {
    ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(step));
    for (const StepRecord::Rank& rank : reader->ranks()) {
      for (const Item& item : rank.items) {
        placements.insert(item.placement);
        codecs.insert(item.codec);
        borrowed |= item.data_version != reader->record().version;
        erased |= item.erased_rows > 0;
        if (item.kind == Item::Kind::kRows) runs.insert(item.run);
        for (const Slot& slot : item.slots) slot_dtypes.insert(slot.dtype);
        if (step == 180 && item.kind == Item::Kind::kRows) {
          EXPECT_EQ(item.base_reason, "the tracker is over its bound");
        }
      }
    }
  }
  EXPECT_EQ(placements.size(), 2U);
  EXPECT_EQ(codecs.size(), 3U);
  EXPECT_EQ(slot_dtypes.size(), size_t{kDTypes});
  EXPECT_EQ(runs.size(), 2U);
  EXPECT_TRUE(borrowed);
  EXPECT_TRUE(erased);
}

TEST_P(DeclaredStoreTest, ChangesLeadFromStepToStep) {
  for (const auto& [from, to] :
       {std::pair{100, 130}, {130, 140}, {130, 160}, {140, 190}}) {
    ExpectFollows(from, to, /*forwards=*/true);
  }
  ExpectFollows(160, 140, /*forwards=*/false);
  ExpectFollows(160, 190, /*forwards=*/false);
}

TEST_P(DeclaredStoreTest, HasItsEvaluations) {
  EXPECT_THAT(store_->ListEvaluations(150).value(),
              ElementsAre(Pair("test/day_7", 0), Pair("test/day_7", 1)));
  const StepRecord::Evaluation first{10,
                                     std::string("\0\xff", 2),
                                     "line 10",
                                     Record(150).version,
                                     "test/day_7",
                                     "eval/ctr",
                                     0,
                                     2};
  EXPECT_THAT(*store_->FindEvaluation(150, "test/day_7", 0), Optional(first));
  // The evaluation was saved with the version that the step was folded from.
  const StepRecord::Evaluation folded{
      7,          "meters", "line 7", Record(140).folded_from, "test/day_6",
      "eval/ctr", 0,        1};
  EXPECT_THAT(*store_->FindEvaluation(140, "test/day_6", 0), Optional(folded));
}

TEST_P(DeclaredStoreTest, HasItsLease) {
  const std::filesystem::directory_iterator leases(path() + "/leases");
  ASSERT_NE(begin(leases), end(leases));
  std::ifstream file(leases->path(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  ASSERT_OK_AND_ASSIGN(const Lease lease, DecodeLease(bytes));
  EXPECT_EQ(lease.uuid, leases->path().filename().string());
  EXPECT_EQ(lease.step, 100);
  EXPECT_THAT(lease.versions, Contains(Record(100).version));
  EXPECT_GT(lease.expires_at_micros, Record(100).committed_at_micros);
}

TEST_P(DeclaredStoreTest, AFoldThatWasCutShortGoesOn) {
  ASSERT_OK_AND_ASSIGN(const Store::FoldResult fold, store_->Fold(160));
  EXPECT_TRUE(fold.folded);
  // Earlier versions divided a fold into other parts, which are done anew.
  const bool stored = GetParam() == GoldenSource::kStored;
  EXPECT_EQ(fold.resumed_parts, stored ? 0U : 1U);
  EXPECT_GT(fold.parts, fold.resumed_parts);
  EXPECT_THAT(ChainOf(160), ElementsAre(160));
  ExpectGolden(steps_);
  ExpectFollows(150, 160, /*forwards=*/true);
}

TEST_P(DeclaredStoreTest, CanBeSavedTo) {
  GoldenSave save;
  save.publish.retire = {20, 120, 160};
  ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                       SaveGoldenStep(store_.get(), 200, save));
  EXPECT_EQ(saved.kind, StepRecord::Kind::kDelta);
  EXPECT_EQ(saved.deltas, 3U);
  ASSERT_OK(store_->Delete(40));
  ASSERT_OK(store_->Sweep());
  Reopen();
  const std::vector<int64_t> left = {30,  100, 130, 140, 150,
                                     170, 180, 190, 200};
  ExpectGolden(left);
  ExpectFollows(190, 200, /*forwards=*/true);
  ASSERT_OK(store_->Fold(200));
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectGolden(left);
  ExpectFollows(190, 200, /*forwards=*/true);
  // Nothing is left of the save that was in progress.
  EXPECT_THAT(Others(), Each(Pair(::testing::_, Reason::kReferenced)));
  EXPECT_FALSE(Others().contains(210));
  EXPECT_FALSE(Others().contains(160));
}

}  // namespace
}  // namespace ckptdb::testing
