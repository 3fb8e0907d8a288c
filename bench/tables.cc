// Very many small tables, against one table with as many rows.
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/bench/cases.h"
#include "ckptdb/bench/disk.h"
#include "ckptdb/bench/measure.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/db/state.h"
#include "ckptdb/db/store.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr uint64_t kTables = 10'000;
constexpr uint64_t kRowsPerTable = 30;
constexpr uint32_t kElements = 16;

// Rows 0 to `count` - 1, all with the same values.
class EqualRows : public RowSource {
 public:
  explicit EqualRows(uint64_t count)
      : ids_(count), values_(count * kElements, 1.0F) {
    std::iota(ids_.begin(), ids_.end(), int64_t{0});
  }
  uint64_t block_count() const override { return 1; }
  absl::StatusOr<RowBlock> Block(uint64_t /*block*/) const override {
    return RowBlock{ids_, {&column_, 1}};
  }

 private:
  std::vector<int64_t> ids_;
  const std::vector<float> values_;
  const RowBlock::Column column_{values_.data(), kElements * sizeof(float)};
};

class CountRows : public RowSink {
 public:
  absl::Status Consume(int /*worker*/, const Batch& batch) override {
    rows_ += batch.ids.size();
    return absl::OkStatus();
  }
  uint64_t rows() const { return rows_; }

 private:
  std::atomic<uint64_t> rows_ = 0;
};

// A store whose steps have so many tables of so many rows: a base, and changes
// of one row of each table.
class TablesStore {
 public:
  static absl::StatusOr<std::unique_ptr<TablesStore>> Make(std::string path,
                                                           uint64_t tables,
                                                           uint64_t rows) {
    CKPTDB_ASSIGN_OR_RETURN(auto store, Store::Open(path));
    return std::unique_ptr<TablesStore>(
        new TablesStore(std::move(path), std::move(store), tables, rows));
  }

  absl::Status Clear() {
    for (const StepRecord& step : store_->Steps()) {
      CKPTDB_RETURN_IF_ERROR(store_->Delete(step.version.step));
    }
    parent_.reset();
    CKPTDB_RETURN_IF_ERROR(store_->Sweep().status());
    return SyncFileSystem(path_);
  }
  absl::Status Save(bool changes) {
    RankState state;
    for (uint64_t i = 0; i < tables_; ++i) {
      RankState::Table table{absl::StrCat("table", i),
                             {{"embedding", DType::kF32, kElements}},
                             &all_};
      if (changes) table.changes = RankState::Changes{&changed_, {}};
      state.AddTable(std::move(table));
    }
    SaveSpec spec;
    spec.step = ++step_;
    if (changes) spec.parent = parent_;
    CKPTDB_ASSIGN_OR_RETURN(const SaveResult saved, store_->Save(spec, state));
    parent_ = saved.version;
    return absl::OkStatus();
  }
  absl::Status SaveChain() {
    CKPTDB_RETURN_IF_ERROR(Clear());
    CKPTDB_RETURN_IF_ERROR(Save(/*changes=*/false));
    return Save(/*changes=*/true);
  }
  absl::Status Restore() {
    CKPTDB_ASSIGN_OR_RETURN(const auto step, store_->OpenStep(step_));
    CountRows rows;
    for (uint64_t i = 0; i < tables_; ++i) {
      CKPTDB_RETURN_IF_ERROR(
          step->ScanTable(absl::StrCat("table", i), {}, &rows));
    }
    if (rows.rows() == kTables * kRowsPerTable) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(rows.rows(), " rows"));
  }
  absl::Status Fold() { return store_->Fold(step_).status(); }
  const std::string& path() const { return path_; }

 private:
  TablesStore(std::string path, std::unique_ptr<Store> store, uint64_t tables,
              uint64_t rows)
      : path_(std::move(path)),
        store_(std::move(store)),
        tables_(tables),
        all_(rows),
        changed_(1) {}

  const std::string path_;
  const std::unique_ptr<Store> store_;
  const uint64_t tables_;
  const EqualRows all_;
  const EqualRows changed_;
  int64_t step_ = 0;
  std::optional<Version> parent_;
};

using Act = absl::Status (*)(TablesStore* store);

Contestant Of(const std::string& name, TablesStore* store, Act prepare,
              Act run) {
  Contestant contestant;
  contestant.name = name;
  contestant.prepare = [store, prepare]() -> absl::Status {
    CKPTDB_RETURN_IF_ERROR(prepare(store));
    return MakeCold(store->path());
  };
  contestant.run = [store, run] { return run(store); };
  return contestant;
}

}  // namespace

absl::Status RunTables(const BenchOptions& options, Report* report) {
  constexpr uint64_t kRowBytes = sizeof(int64_t) + kElements * sizeof(float);
  constexpr uint64_t kBytes = kTables * kRowsPerTable * kRowBytes;
  constexpr uint64_t kNeeded = uint64_t{1} << 30;
  CKPTDB_ASSIGN_OR_RETURN(const auto workspace,
                          Workspace::Make(options.dir, kNeeded));
  CKPTDB_ASSIGN_OR_RETURN(
      const auto many,
      TablesStore::Make(workspace->Path("many"), kTables, kRowsPerTable));
  CKPTDB_ASSIGN_OR_RETURN(
      const auto one,
      TablesStore::Make(workspace->Path("one"), 1, kTables * kRowsPerTable));
  const Act clear = [](TablesStore* store) { return store->Clear(); };
  const Act chain = [](TablesStore* store) { return store->SaveChain(); };
  struct {
    std::string name;
    Act prepare;
    Act run;
  } const cases[] = {
      {"tables/save", clear,
       [](TablesStore* store) { return store->Save(/*changes=*/false); }},
      {"tables/restore", chain,
       [](TablesStore* store) { return store->Restore(); }},
      {"tables/fold", chain, [](TablesStore* store) { return store->Fold(); }},
  };
  for (const auto& each : cases) {
    CKPTDB_ASSIGN_OR_RETURN(
        const std::vector<Outcome> outcomes,
        TakeTurns(each.name,
                  {Of("ours", many.get(), each.prepare, each.run),
                   Of("one table", one.get(), each.prepare, each.run)},
                  options.repetitions));
    report->Add(Compare(each.name, kBytes, outcomes));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
