// SPDX-License-Identifier: Apache-2.0
// Tables of each kind of adapter, saved with one and restored with another.
#include <array>
#include <atomic>
#include <random>
#include <unordered_map>

#include "absl/container/flat_hash_map.h"
#include "manager/map_table.h"
#include "manager/tables.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/test_options.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

constexpr int64_t kAdaptedIds = 300;

struct AdaptedRow {
  std::array<float, 3> weights = {};
  int64_t count = 0;

  bool operator==(const AdaptedRow&) const = default;
};
using AdaptedRows = std::map<int64_t, AdaptedRow>;

AdaptedRow NewAdaptedRow(int64_t id, int64_t value) {
  return {{static_cast<float>(id), static_cast<float>(value), 1}, value + 1};
}

// A trainer's table of any kind. A row of zeros counts as missing, because
// arrays contain all rows.
class Adapted {
 public:
  virtual ~Adapted() = default;
  virtual TableState* state() = 0;
  virtual void Set(int64_t id, const AdaptedRow& row) = 0;
  virtual void Erase(int64_t id) = 0;
  virtual void ForRows(
      const std::function<void(int64_t, const AdaptedRow&)>& visit) = 0;

  AdaptedRows rows() {
    AdaptedRows rows;
    ForRows([&](int64_t id, const AdaptedRow& row) {
      if (row != AdaptedRow()) rows[id] = row;
    });
    return rows;
  }
};

// A map whose rows are AdaptedRows or convert from and to them.
template <typename Map>
class AdaptedMap : public Adapted {
 public:
  explicit AdaptedMap(typename MapTable<Map>::Fields fields)
      : table_(&map_, std::move(fields)) {}
  TableState* state() override { return &table_; }
  void Set(int64_t id, const AdaptedRow& row) override {
    map_[id] = row;
    table_.MarkUpserted({id});
  }
  void Erase(int64_t id) override {
    map_.erase(id);
    table_.MarkErased({id});
  }
  void ForRows(
      const std::function<void(int64_t, const AdaptedRow&)>& visit) override {
    for (const auto& [id, row] : map_) visit(id, row);
  }

 private:
  Map map_;
  MapTable<Map> table_;
};

struct VectorRow {
  VectorRow() = default;
  VectorRow(const AdaptedRow& row)  // NOLINT(google-explicit-constructor)
      : weights(row.weights.begin(), row.weights.end()), count({row.count}) {}
  operator AdaptedRow() const {  // NOLINT(google-explicit-constructor)
    return {{weights[0], weights[1], weights[2]}, count[0]};
  }

  std::vector<float> weights;
  std::vector<int64_t> count;
};

class AdaptedColumns : public Adapted {
 public:
  AdaptedColumns()
      : table_({{"weights", DType::kF32, 3}, {"count", DType::kI64, 1}}) {}
  TableState* state() override { return &table_; }
  void Set(int64_t id, const AdaptedRow& row) override {
    const absl::StatusOr<ColumnTable::Inserted> at = table_.Insert(id);
    ASSERT_OK(at);
    std::copy(row.weights.begin(), row.weights.end(), weights()[at->row]);
    *count()[at->row] = row.count;
  }
  void Erase(int64_t id) override { table_.Erase(id); }
  void ForRows(
      const std::function<void(int64_t, const AdaptedRow&)>& visit) override {
    table_.ForEach([&](int64_t id, uint64_t row) {
      AdaptedRow read;
      std::copy_n(weights()[row], 3, read.weights.begin());
      read.count = *count()[row];
      visit(id, read);
    });
  }

 private:
  ColumnTable::Column<float> weights() const {
    return *table_.column<float>("weights");
  }
  ColumnTable::Column<int64_t> count() const {
    return *table_.column<int64_t>("count");
  }

  ColumnTable table_;
};

class AdaptedArrays : public Adapted {
 public:
  explicit AdaptedArrays(std::function<bool(int64_t)> holds)
      : table_(kAdaptedIds,
               {Array("weights", weights_[0].data(), 3),
                Array("count", &counts_[0][1], 1, {.stride_bytes = 16})},
               {}, std::move(holds)) {}
  TableState* state() override { return &table_; }
  void Set(int64_t id, const AdaptedRow& row) override {
    weights_[static_cast<size_t>(id)] = row.weights;
    counts_[static_cast<size_t>(id)][1] = row.count;
    EXPECT_OK(table_.MarkUpserted({id}));
  }
  void Erase(int64_t id) override { Set(id, {}); }
  void ForRows(
      const std::function<void(int64_t, const AdaptedRow&)>& visit) override {
    for (size_t id = 0; id < kAdaptedIds; ++id) {
      visit(static_cast<int64_t>(id), {weights_[id], counts_[id][1]});
    }
  }

 private:
  std::array<std::array<float, 3>, kAdaptedIds> weights_ = {};
  std::array<std::array<int64_t, 2>, kAdaptedIds> counts_ = {};
  VectorTable table_;
};

// Marks a row, as a trainer's thread does.
void MarkAdapted(TableState* table, int64_t id) {
  if (auto* const bitmap = dynamic_cast<RowBitmap*>(table->tracker())) {
    EXPECT_OK(bitmap->MarkUpserted({id}));
  } else {
    dynamic_cast<RowTracker*>(table->tracker())->MarkUpserted({id});
  }
}

constexpr int kAdaptedArrays = 4;
constexpr int kAdaptedKinds = 5;

MapTable<std::map<int64_t, AdaptedRow>>::Fields RowFields() {
  return {Field("weights", &AdaptedRow::weights),
          Field("count", &AdaptedRow::count)};
}

std::unique_ptr<Adapted> NewAdapted(int kind,
                                    std::function<bool(int64_t)> holds) {
  switch (kind) {
    case 0:
      return std::make_unique<
          AdaptedMap<std::unordered_map<int64_t, AdaptedRow>>>(RowFields());
    case 1:
      return std::make_unique<
          AdaptedMap<absl::flat_hash_map<int64_t, AdaptedRow>>>(RowFields());
    case 2:
      return std::make_unique<
          AdaptedMap<std::unordered_map<int64_t, VectorRow>>>(
          MapTable<std::map<int64_t, VectorRow>>::Fields{
              Field("weights", &VectorRow::weights, {.dim = 3}),
              Field("count", &VectorRow::count, {.dim = 1})});
    case 3:
      return std::make_unique<AdaptedColumns>();
    case kAdaptedArrays:
    default:
      return std::make_unique<AdaptedArrays>(std::move(holds));
  }
}

class TablesTest : public ::testing::Test {
 protected:
  struct AdaptedRank {
    uint32_t rank = 0;
    uint32_t world_size = 1;
    std::unique_ptr<Adapted> table;
    ModelState model;
    std::unique_ptr<CheckpointManager> manager;

    bool Owns(int64_t id) const {
      return static_cast<uint64_t>(id) % world_size == rank;
    }
  };

  void SetUp() override {
    options_ = TestOptions(dir_.path() + "/store");
    options_.schedule = {};
    options_.save.audit_deltas = true;
    options_.observers.on_warning = [](const std::string&) {};
  }

  // Runs `body` on each rank of a new training.
  void Run(int kind, uint32_t world_size,
           const std::function<absl::Status(AdaptedRank*)>& body) {
    const auto run = [&](uint32_t r, auto ranks) -> absl::Status {
      AdaptedRank rank;
      rank.rank = r;
      rank.world_size = world_size;
      rank.table =
          NewAdapted(kind, [&rank](int64_t id) { return rank.Owns(id); });
      CKPTDB_RETURN_IF_ERROR(rank.model.AddTable("t", rank.table->state(),
                                                 TableSharding::ByModulo()));
      CKPTDB_ASSIGN_OR_RETURN(
          rank.manager,
          CheckpointManager::Open(options_, &rank.model, std::move(ranks)));
      CKPTDB_RETURN_IF_ERROR(body(&rank));
      return rank.manager->Close();
    };
    EXPECT_THAT(OnRanks(world_size, run), Each(IsOk()));
  }

  // Trains a step on one rank: the same changes on any number of ranks.
  static void Train(uint64_t seed, int64_t step, AdaptedRank* rank) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(step));
    for (int i = 0; i < 60; ++i) {
      const auto id = static_cast<int64_t>(random() % kAdaptedIds);
      const bool erases = random() % 4 == 0;
      if (!rank->Owns(id)) continue;
      if (erases) {
        rank->table->Erase(id);
      } else {
        rank->table->Set(id, NewAdaptedRow(id, step * 100 + i));
      }
    }
  }

  // Returns the state of all ranks together after that many steps.
  static AdaptedRows Expected(uint64_t seed, int64_t steps) {
    AdaptedRank one;
    one.table = NewAdapted(0, {});
    for (int64_t step = 1; step <= steps; ++step) Train(seed, step, &one);
    return one.table->rows();
  }

  static AdaptedRows OwnOf(const AdaptedRank& rank, AdaptedRows rows) {
    std::erase_if(rows, [&](const auto& row) { return !rank.Owns(row.first); });
    return rows;
  }

  TempDir dir_;
  ManagerOptions options_;
};

// Deltas are audited, so that no changed row is omitted.
TEST_F(TablesTest, AnyKindRestoresWhatAnyKindSaved) {
  constexpr int64_t kSteps = 6;
  std::mt19937_64 random(TestSeed());
  for (int saver = 0; saver < kAdaptedKinds; ++saver) {
    for (int restorer = 0; restorer < kAdaptedKinds; ++restorer) {
      options_.path = absl::StrCat(dir_.path(), "/", saver, "_", restorer);
      const uint64_t seed = random();
      options_.save.async = random() % 2 == 0;
      // Arrays contain rows that the step does not.
      options_.save.audit_deltas = restorer != kAdaptedArrays;
      const auto saving = static_cast<uint32_t>(1 + random() % 3);
      const auto restoring = static_cast<uint32_t>(1 + random() % 3);
      const auto step = static_cast<int64_t>(1 + random() % kSteps);
      SCOPED_TRACE(absl::StrCat("kind ", saver, " on ", saving, " ranks to ",
                                restorer, " on ", restoring, ", step ", step));
      Run(saver, saving, [&](AdaptedRank* rank) -> absl::Status {
        for (int64_t s = 1; s <= kSteps; ++s) {
          Train(seed, s, rank);
          CKPTDB_RETURN_IF_ERROR(rank->manager->Step().status());
          CKPTDB_RETURN_IF_ERROR(rank->manager->Save().status());
        }
        return rank->manager->WaitUntilFinished();
      });
      const AdaptedRows expected = Expected(seed, step);
      const AdaptedRows later = Expected(seed, step + 1);
      Run(restorer, restoring, [&](AdaptedRank* rank) -> absl::Status {
        rank->table->Set(rank->rank, NewAdaptedRow(-1, -1));  // to be cleared
        CKPTDB_RETURN_IF_ERROR(rank->manager->Restore({.step = step}).status());
        EXPECT_EQ(rank->table->rows(), OwnOf(*rank, expected));
        // It continues from there with changes.
        Train(seed, step + 1, rank);
        CKPTDB_RETURN_IF_ERROR(
            StepAndSave(rank->manager.get(), {.overwrite = true}));
        CKPTDB_RETURN_IF_ERROR(rank->manager->Restore().status());
        EXPECT_EQ(rank->table->rows(), OwnOf(*rank, later));
        return absl::OkStatus();
      });
    }
  }
}

TEST_F(TablesTest, MergeKeepsOtherRows) {
  for (int kind = 0; kind < kAdaptedKinds; ++kind) {
    SCOPED_TRACE(kind);
    options_.path = absl::StrCat(dir_.path(), "/", kind);
    Run(kind, 1, [&](AdaptedRank* rank) -> absl::Status {
      rank->table->Set(1, NewAdaptedRow(1, 1));
      rank->table->Set(2, NewAdaptedRow(2, 1));
      CKPTDB_RETURN_IF_ERROR(rank->manager->Step().status());
      CKPTDB_RETURN_IF_ERROR(rank->manager->Save().status());
      rank->table->Set(2, NewAdaptedRow(2, 2));
      rank->table->Set(3, NewAdaptedRow(3, 2));
      rank->table->Erase(1);
      CKPTDB_RETURN_IF_ERROR(
          rank->manager->Restore({.mode = LiveTable::RestoreMode::kMerge})
              .status());
      AdaptedRows expected = {{1, NewAdaptedRow(1, 1)},
                              {2, NewAdaptedRow(2, 1)},
                              {3, NewAdaptedRow(3, 2)}};
      if (kind == kAdaptedArrays) expected.erase(3);  // zeros, in the step
      EXPECT_EQ(rank->table->rows(), expected);
      return absl::OkStatus();
    });
  }
}

// A reader of each kind follows the steps by changes.
TEST_F(TablesTest, EachKindFollowsByChanges) {
  const uint64_t seed = TestSeed();
  for (int kind = 0; kind < kAdaptedKinds; ++kind) {
    SCOPED_TRACE(kind);
    options_.path = absl::StrCat(dir_.path(), "/", kind);
    Run(kind, 1, [&](AdaptedRank* rank) -> absl::Status {
      Train(seed, 1, rank);
      CKPTDB_RETURN_IF_ERROR(StepAndSave(rank->manager.get()));
      AdaptedRank follower;
      follower.table = NewAdapted(kind, {});
      CKPTDB_RETURN_IF_ERROR(
          follower.model.AddTable("t", follower.table->state()));
      ManagerOptions reading = options_;
      reading.read_only = true;
      CKPTDB_ASSIGN_OR_RETURN(
          follower.manager, CheckpointManager::Open(reading, &follower.model));
      CKPTDB_RETURN_IF_ERROR(
          follower.manager->WaitForStep(absl::Seconds(60)).status());
      Train(seed, 2, rank);
      CKPTDB_RETURN_IF_ERROR(StepAndSave(rank->manager.get()));
      CKPTDB_ASSIGN_OR_RETURN(const RestoreReport report,
                              follower.manager->WaitForStep(absl::Seconds(60)));
      EXPECT_TRUE(report.incremental);
      EXPECT_EQ(follower.table->rows(), Expected(seed, 2));
      return follower.manager->Close();
    });
  }
}

// Threads mark rows continuously while saves take the marks: the last save
// contains the last mark of each id.
TEST_F(TablesTest, MarksDuringSavesAreNotLost) {
  for (int kind = 0; kind < kAdaptedKinds; ++kind) {
    SCOPED_TRACE(kind);
    options_.path = absl::StrCat(dir_.path(), "/", kind);
    Run(kind, 1, [&](AdaptedRank* rank) -> absl::Status {
      for (int64_t id = 0; id < kAdaptedIds; ++id) {
        rank->table->Set(id, NewAdaptedRow(id, 0));
      }
      std::atomic<bool> stop = false;
      std::vector<std::thread> markers;
      for (int64_t first = 0; first < 2; ++first) {
        markers.emplace_back([&, first] {
          for (int64_t id = first; !stop; id = (id + 2) % kAdaptedIds) {
            MarkAdapted(rank->table->state(), id);
          }
        });
      }
      absl::Status saved;
      for (int64_t step = 1; step <= 10 && saved.ok(); ++step) {
        rank->table->Set(step, NewAdaptedRow(step, step));
        saved.Update(rank->manager->Step().status());
        saved.Update(rank->manager->Save().status());
      }
      stop = true;
      for (std::thread& marker : markers) marker.join();
      CKPTDB_RETURN_IF_ERROR(saved);
      const AdaptedRows before = rank->table->rows();
      CKPTDB_RETURN_IF_ERROR(rank->manager->Restore().status());
      EXPECT_EQ(rank->table->rows(), before);
      return absl::OkStatus();
    });
  }
}

}  // namespace
}  // namespace ckptdb::testing
