// SPDX-License-Identifier: Apache-2.0
// Folding ten deltas into a base, against reading and writing the same bytes.
#include <algorithm>
#include <string>
#include <vector>

#include "bench/cases.h"
#include "bench/chain_store.h"
#include "bench/store_save.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

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
    FoldOptions how;
    if (options.threads > 0) how.threads = options.threads;
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
