// SPDX-License-Identifier: Apache-2.0
// Restores of a base alone, with ten deltas over it and with a hundred; and
// a follower's read of one delta.
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/cases.h"
#include "bench/chain_store.h"
#include "bench/store_save.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

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

}  // namespace ckptdb::bench
