// SPDX-License-Identifier: Apache-2.0
// Deltas: a save of the rows that changed; restores of a base alone, with ten
// deltas over it and with a hundred; a follower's read of one delta; and the
// fold of ten deltas into a base.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/cases.h"
#include "bench/disk.h"
#include "bench/measure.h"
#include "bench/payload.h"
#include "bench/store_save.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

// A delta changes one row in so many, scattered over the trainer's memory.
constexpr uint64_t kRowsPerChanged = 100;

// A store with a base of a table and deltas over it, each of 1 % of the rows,
// and what it takes to restore, follow and compare them.
class ChainStore {
 public:
  // Makes the store in the workspace, and the table with it.
  static absl::StatusOr<std::unique_ptr<ChainStore>> Make(
      const Workspace& workspace, const BenchOptions& options);

  // Saves the whole table as the next step, with no chain.
  absl::StatusOr<SaveResult> SaveBase();
  // Changes 1 % of the rows, and saves them over the step before.
  absl::StatusOr<SaveResult> SaveDelta();
  // Removes all steps, and waits until their space is back.
  absl::Status Clear();

  Table& table() { return *table_; }
  Store& store() { return *store_; }
  const std::string& path() const { return store_->path(); }
  int64_t last_step() const { return step_; }
  // The time of the last save itself.
  const Sample& last_sample() const { return last_sample_; }
  // Returns the digest of the table's rows after a step was saved.
  uint64_t digest(int64_t step) const { return digests_.at(step); }
  uint64_t rows_changed() const;
  uint64_t bytes_changed() const { return rows_changed() * Table::kRowBytes; }

  // Reads a step with nothing of it in the page cache: Prepare, the restore,
  // and a check of what came.
  Contestant RestoreOf(int64_t step, const std::string& name);

 private:
  ChainStore(std::unique_ptr<Store> store, std::unique_ptr<Table> table,
             const BenchOptions& options)
      : store_(std::move(store)), table_(std::move(table)), options_(options) {}

  absl::StatusOr<SaveResult> Save(const RankState& state);

  std::unique_ptr<Store> store_;
  const std::unique_ptr<Table> table_;
  const BenchOptions options_;
  int64_t step_ = 0;
  uint64_t deltas_ = 0;
  std::optional<Version> last_;
  Sample last_sample_;
  std::vector<uint64_t> digests_ = {0};  // by step
};

absl::StatusOr<std::unique_ptr<ChainStore>> ChainStore::Make(
    const Workspace& workspace, const BenchOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(auto table, Table::Make(options.rows, options.seed));
  CKPTDB_ASSIGN_OR_RETURN(auto store, Store::Open(workspace.Path("store"),
                                                  StoreOptionsOf(options)));
  return std::unique_ptr<ChainStore>(
      new ChainStore(std::move(store), std::move(table), options));
}

uint64_t ChainStore::rows_changed() const {
  return (table_->rows() + kRowsPerChanged - 1) / kRowsPerChanged;
}

absl::StatusOr<SaveResult> ChainStore::Save(const RankState& state) {
  SaveSpec spec;
  spec.step = step_ + 1;
  spec.parent = last_;
  SaveResult saved;
  CKPTDB_ASSIGN_OR_RETURN(last_sample_, Measure([&]() -> absl::Status {
                            CKPTDB_ASSIGN_OR_RETURN(saved,
                                                    store_->Save(spec, state));
                            return absl::OkStatus();
                          }));
  last_ = saved.version;
  step_ = saved.version.step;
  digests_.push_back(table_->Digest());
  return saved;
}

absl::StatusOr<SaveResult> ChainStore::SaveBase() {
  RankState state;
  table_->AddTo(&state);
  return Save(state);
}

absl::StatusOr<SaveResult> ChainStore::SaveDelta() {
  const uint64_t first = deltas_++ % kRowsPerChanged;
  const auto changed = table_->Change(first, kRowsPerChanged);
  RankState state;
  table_->AddChangesTo(*changed, &state);
  CKPTDB_ASSIGN_OR_RETURN(SaveResult saved, Save(state));
  if (saved.kind == StepRecord::Kind::kDelta) return saved;
  return absl::InternalError("a save of changes wrote the whole table");
}

absl::Status ChainStore::Clear() {
  for (const StepRecord& step : store_->Steps()) {
    CKPTDB_RETURN_IF_ERROR(store_->Delete(step.version.step));
  }
  last_.reset();
  CKPTDB_RETURN_IF_ERROR(store_->Sweep().status());
  return SyncFileSystem(path());
}

Contestant ChainStore::RestoreOf(int64_t step, const std::string& name) {
  Contestant restore;
  restore.name = name;
  restore.prepare = [this] {
    table_->Clear();
    return MakeCold(path());
  };
  restore.run = [this, step]() -> absl::Status {
    CKPTDB_ASSIGN_OR_RETURN(const auto reader, store_->OpenStep(step));
    return table_->ReadFrom(*reader, ReadOptionsOf(options_));
  };
  restore.finish = [this, step] {
    if (table_->Digest() == digest(step)) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("what was restored of step ", step,
                                            " is not what was saved"));
  };
  return restore;
}

constexpr int64_t kFew = 10;
constexpr int64_t kMany = 100;
constexpr double kMaxRatioFew = 1.25;
constexpr double kMaxRatioMany = 2.5;
constexpr double kMaxPartOfChain = 0.03;
constexpr double kMaxFixedChainSeconds = 0.020;

absl::StatusOr<std::unique_ptr<ChainStore>> MakeChain(
    const Workspace& workspace, const BenchOptions& options, int64_t deltas) {
  CKPTDB_ASSIGN_OR_RETURN(auto chain, ChainStore::Make(workspace, options));
  CKPTDB_RETURN_IF_ERROR(chain->SaveBase().status());
  for (int64_t i = 0; i < deltas; ++i) {
    CKPTDB_RETURN_IF_ERROR(chain->SaveDelta().status());
  }
  return chain;
}

// Copies changed rows into its arrays.
class ChangedRows : public LiveTable {
 public:
  explicit ChangedRows(uint64_t rows)
      : ids_(rows), values_(rows * 2 * Table::kSlotBytes) {}

  absl::Status Clear() override { return absl::OkStatus(); }
  absl::Status Erase(int, absl::Span<const int64_t>) override {
    return absl::InternalError("no row was erased");
  }
  absl::Status Consume(int, const RowSink::Batch& batch) override {
    const uint64_t count = batch.ids.size();
    const uint64_t first = next_.fetch_add(count);
    if (first + count > ids_.size()) {
      return absl::DataLossError("more rows than were changed");
    }
    std::memcpy(ids_.data() + first, batch.ids.data(), count * sizeof(int64_t));
    char* const values = values_.data() + first * 2 * Table::kSlotBytes;
    const uint64_t bytes = count * Table::kSlotBytes;
    std::memcpy(values, batch.slots[0], bytes);
    std::memcpy(values + bytes, batch.slots[1], bytes);
    return absl::OkStatus();
  }
  absl::Status Check() {
    if (next_.exchange(0) == ids_.size()) return absl::OkStatus();
    return absl::DataLossError("fewer rows than were changed");
  }

 private:
  std::vector<int64_t> ids_;
  std::vector<char> values_;
  std::atomic<uint64_t> next_ = 0;
};

// Follows the chain from the step before the last to the last.
Contestant FollowLast(ChainStore* chain, const ReadOptions& read,
                      ChangedRows* rows) {
  Contestant follow;
  follow.name = "ours";
  follow.prepare = [chain] { return MakeCold(chain->path()); };
  follow.run = [chain, read, rows]() -> absl::Status {
    const int64_t last = chain->last_step();
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord held,
                            chain->store().FindStep(last - 1));
    CKPTDB_ASSIGN_OR_RETURN(const auto changes,
                            chain->store().OpenChanges(held.version, last));
    ScanOptions options;
    options.read = read;
    return changes->ScanTable("table", options, rows);
  };
  follow.finish = [rows] { return rows->Check(); };
  return follow;
}

CaseResult AgainstBase(const std::string& name, uint64_t bytes,
                       const Outcome& ours, const Outcome& base, double limit) {
  CaseResult result = Compare(name, bytes, std::vector<Outcome>{ours, base});
  result.goals = {{"ratio", result.ratio(), limit}};
  return result;
}

constexpr double kMaxBytesRatio = 1.03;
constexpr double kMaxPartOfFull = 0.03;
constexpr double kMaxFixedSeconds = 0.020;

// Each repetition: a base, a delta over it, and the delta's bytes written raw.
class DeltaSaves {
 public:
  DeltaSaves(ChainStore* chain, const Workspace& workspace)
      : chain_(chain), raw_(workspace.Path("raw")) {
    full_.name = "full save";
    delta_.name = "ours";
    for (const RawVariant& variant : RawVariants(workspace.Path(""))) {
      variants_.push_back(variant);
      writes_.push_back({variant.Name(), {}});
    }
  }

  absl::Status Turn() {
    CKPTDB_RETURN_IF_ERROR(chain_->Clear());
    CKPTDB_RETURN_IF_ERROR(Save(&full_, [&] { return chain_->SaveBase(); }));
    const uint64_t before = FileBytes(chain_->path());
    CKPTDB_RETURN_IF_ERROR(Save(&delta_, [&] { return chain_->SaveDelta(); }));
    written_bytes_ = static_cast<double>(FileBytes(chain_->path()) - before);
    const Memory all = chain_->table().payload()[1];
    const std::vector<Memory> payload = {
        {all.data, static_cast<size_t>(chain_->bytes_changed())}};
    for (size_t i = 0; i < variants_.size(); ++i) {
      CKPTDB_RETURN_IF_ERROR(MakeEmptyFolder(raw_));
      CKPTDB_RETURN_IF_ERROR(SyncFileSystem(raw_));
      CKPTDB_ASSIGN_OR_RETURN(const Sample sample, Measure([&] {
                                return RawWrite(raw_, payload, variants_[i]);
                              }));
      writes_[i].samples.push_back(sample);
    }
    return Remove(raw_);
  }

  CaseResult Result() const {
    std::vector<Outcome> outcomes = {delta_};
    outcomes.insert(outcomes.end(), writes_.begin(), writes_.end());
    CaseResult result = Compare("delta", chain_->bytes_changed(), outcomes);
    const double full = SecondsOf(full_).median;
    const double bytes_ratio =
        written_bytes_ / static_cast<double>(chain_->bytes_changed());
    result.figures = {
        {"rows", static_cast<double>(chain_->table().rows())},
        {"rows_changed", static_cast<double>(chain_->rows_changed())},
        {"full_save_seconds", full},
        {"written_bytes", written_bytes_}};
    result.goals = {{"written_bytes_ratio", bytes_ratio, kMaxBytesRatio},
                    {"seconds", result.seconds.median,
                     kMaxPartOfFull * full + kMaxFixedSeconds}};
    return result;
  }

 private:
  // Other work of the chain, such as its digest, is not measured.
  template <typename SaveFunction>
  absl::Status Save(Outcome* outcome, const SaveFunction& save) {
    CKPTDB_ASSIGN_OR_RETURN(const SaveResult saved, save());
    outcome->samples.push_back(chain_->last_sample());
    return saved.borrowed_bytes == 0
               ? absl::OkStatus()
               : absl::UnavailableError("a save wrote less than all");
  }

  ChainStore* const chain_;
  const std::string raw_;
  std::vector<RawVariant> variants_;
  std::vector<Outcome> writes_;
  Outcome full_;
  Outcome delta_;
  double written_bytes_ = 0;
};

constexpr int kDeltas = 10;
constexpr double kMaxFoldRatio = 1.5;
constexpr int kRawFoldFiles = 4;

// The raw counterpart: reads and writes as many bytes as the resulting base,
// and does not read the deltas.
class RawFold {
 public:
  RawFold(const Workspace& workspace, Table* table)
      : in_(workspace.Path("raw_in")),
        out_(workspace.Path("raw_out")),
        table_(table) {}

  absl::Status Make() {
    CKPTDB_RETURN_IF_ERROR(MakeEmptyFolder(in_));
    return RawWrite(in_, table_->payload(), {false, kRawFoldFiles});
  }

  Contestant As(const RawVariant& variant) {
    Contestant raw;
    raw.name = variant.Name();
    raw.prepare = [this] {
      CKPTDB_RETURN_IF_ERROR(MakeEmptyFolder(out_));
      CKPTDB_RETURN_IF_ERROR(SyncFileSystem(out_));
      return MakeCold(in_);
    };
    raw.run = [this, variant]() -> absl::Status {
      CKPTDB_RETURN_IF_ERROR(
          RawRead(in_, table_->payload(), kRawFoldFiles, variant));
      return RawWrite(out_, table_->payload(), variant);
    };
    raw.finish = [this] { return Remove(out_); };
    return raw;
  }

 private:
  const std::string in_;
  const std::string out_;
  Table* const table_;
};

// Folds a new chain each time.
Contestant FoldOf(ChainStore* chain, const BenchOptions& options,
                  PeakMemory* memory, uint64_t* peak_bytes) {
  Contestant fold;
  fold.name = "ours";
  fold.prepare = [chain, memory]() -> absl::Status {
    CKPTDB_RETURN_IF_ERROR(chain->Clear());
    CKPTDB_RETURN_IF_ERROR(chain->SaveBase().status());
    for (int i = 0; i < kDeltas; ++i) {
      CKPTDB_RETURN_IF_ERROR(chain->SaveDelta().status());
    }
    memory->Start();
    return MakeCold(chain->path());
  };
  fold.run = [chain, options]() -> absl::Status {
    const ReadOptions how = ReadOptionsOf(options);
    return chain->store().Fold(chain->last_step(), how).status();
  };
  fold.finish = [chain, memory, peak_bytes]() -> absl::Status {
    *peak_bytes = std::max(*peak_bytes, memory->BytesAboveStart());
    const Contestant restore = chain->RestoreOf(chain->last_step(), "check");
    CKPTDB_RETURN_IF_ERROR(restore.prepare());
    CKPTDB_RETURN_IF_ERROR(restore.run());
    return restore.finish();
  };
  return fold;
}

}  // namespace

absl::Status RunChain(const BenchOptions& options, Report* report) {
  constexpr uint64_t kCopies = 3;
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * options.rows * Table::kRowBytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto chain,
                          MakeChain(*workspace, options, kMany));
  const std::vector<Contestant> contestants = {
      chain->RestoreOf(1, "the base alone"),
      chain->RestoreOf(1 + kFew, "10 deltas"),
      chain->RestoreOf(1 + kMany, "100 deltas")};
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<Outcome> outcomes,
                          TakeTurns("chain", contestants, options.repetitions));
  const uint64_t bytes = chain->table().bytes();
  report->Add(
      AgainstBase("chain/10", bytes, outcomes[1], outcomes[0], kMaxRatioFew));
  report->Add(
      AgainstBase("chain/100", bytes, outcomes[2], outcomes[0], kMaxRatioMany));
  return absl::OkStatus();
}

absl::Status RunFollow(const BenchOptions& options, Report* report) {
  constexpr uint64_t kCopies = 2;
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * options.rows * Table::kRowBytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto chain, MakeChain(*workspace, options, 2));
  ChangedRows rows(chain->rows_changed());
  const std::vector<Contestant> contestants = {
      FollowLast(chain.get(), ReadOptionsOf(options), &rows),
      chain->RestoreOf(chain->last_step(), "full restore")};
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<Outcome> outcomes,
      TakeTurns("follow", contestants, options.repetitions));
  CaseResult result = Compare("follow", chain->bytes_changed(), outcomes);
  result.goals = {
      {"seconds", result.seconds.median,
       kMaxPartOfChain * result.raw_seconds.median + kMaxFixedChainSeconds}};
  report->Add(std::move(result));
  return absl::OkStatus();
}

absl::Status RunDelta(const BenchOptions& options, Report* report) {
  constexpr uint64_t kCopies = 2;
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * options.rows * Table::kRowBytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto chain,
                          ChainStore::Make(*workspace, options));
  DeltaSaves saves(chain.get(), *workspace);
  for (int i = 0; i < options.repetitions; ++i) {
    CKPTDB_RETURN_IF_ERROR(saves.Turn());
  }
  report->Add(saves.Result());
  return absl::OkStatus();
}

absl::Status RunFold(const BenchOptions& options, Report* report) {
  constexpr uint64_t kCopies = 5;
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * options.rows * Table::kRowBytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto chain,
                          ChainStore::Make(*workspace, options));
  RawFold raw(*workspace, &chain->table());
  CKPTDB_RETURN_IF_ERROR(raw.Make());
  PeakMemory memory;
  uint64_t peak_bytes = 0;
  std::vector<Contestant> contestants = {
      FoldOf(chain.get(), options, &memory, &peak_bytes)};
  for (const RawVariant& variant : RawVariants(workspace->Path(""))) {
    contestants.push_back(raw.As(variant));
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<Outcome> outcomes,
                          TakeTurns("fold", contestants, options.repetitions));
  CaseResult result = Compare("fold", chain->table().bytes(), outcomes);
  result.figures = {{"peak_bytes", static_cast<double>(peak_bytes)}};
  result.goals = {{"ratio", result.ratio(), kMaxFoldRatio}};
  report->Add(std::move(result));
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
