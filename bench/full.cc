// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "bench/alternatives.h"
#include "bench/cases.h"
#include "bench/payload.h"
#include "bench/store_save.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr double kMaxFullRatio = 1.1;
constexpr double kMaxFullCpuSecondsPerGb = 0.6;

// Returns the memory limit of a save, beyond the memory of the caller.
double MemoryLimitBytes(uint64_t rows) {
  constexpr uint64_t kFixedBytes = uint64_t{256} << 20;
  constexpr uint64_t kBytesPerRow = 16;
  return static_cast<double>(kFixedBytes + kBytesPerRow * rows);
}

// The least of a save in the order of ids, without disk, hashes and formats:
// its rows copied from where the trainer has them. The name of a contestant.
constexpr char kGather[] = "rows by id, x 2";

Contestant GatherOf(const Table* table) {
  return {
      kGather, nullptr,
      [table, rows = table->SortedRows()] { return table->Gather(rows, 2); },
      nullptr};
}

CaseResult ToResult(const Table& table, const StoreSave& save,
                    std::vector<Outcome> outcomes) {
  // Not a save, and not compared with ours.
  const Outcome gather = std::move(outcomes.back());
  outcomes.pop_back();
  CaseResult result = Compare("full", table.bytes(), outcomes);
  const auto peak_bytes = static_cast<double>(save.peak_bytes());
  result.figures = {{"rows", static_cast<double>(table.rows())},
                    {"rows_per_second",
                     static_cast<double>(table.rows()) / result.seconds.median},
                    {"stored_bytes", static_cast<double>(save.stored_bytes())},
                    {"peak_bytes", peak_bytes},
                    {"gather_seconds", SecondsOf(gather).median},
                    {"gather_cpu_seconds_per_gb",
                     PerGb(CpuSecondsOf(gather).median, table.bytes())}};
  result.goals = {{"ratio", result.ratio(), kMaxFullRatio},
                  {"cpu_seconds_per_gb", result.cpu_seconds_per_gb(),
                   kMaxFullCpuSecondsPerGb},
                  {"peak_bytes", peak_bytes, MemoryLimitBytes(table.rows())}};
  return result;
}

}  // namespace

absl::Status RunFull(const BenchOptions& options, Report* report) {
  // RocksDB beside its log and under compaction takes the most.
  constexpr uint64_t kCopies = 5;
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * options.rows * Table::kRowBytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto table,
                          Table::Make(options.rows, options.seed));
  RankState state;
  table->AddTo(&state);
  CKPTDB_ASSIGN_OR_RETURN(const auto save,
                          StoreSave::Make(*workspace, options, &state));

  std::vector<Contestant> contestants = {save->AsContestant()};
  for (Contestant& writer : RawWriters(*workspace, table->payload())) {
    contestants.push_back(std::move(writer));
  }
  contestants.push_back(GatherOf(table.get()));
  CKPTDB_ASSIGN_OR_RETURN(std::vector<Outcome> outcomes,
                          TakeTurns("full", contestants, options.repetitions));
  report->Add(ToResult(*table, *save, std::move(outcomes)));
  return CompareWithAlternatives(options, *workspace, *table, save.get(),
                                 report);
}

}  // namespace ckptdb::bench
