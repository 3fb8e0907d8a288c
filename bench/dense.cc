// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "bench/cases.h"
#include "bench/payload.h"
#include "bench/store_save.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr double kMaxDenseRatio = 1.05;
constexpr double kMaxDenseCpuSecondsPerGb = 0.6;

}  // namespace

absl::Status RunDense(const BenchOptions& options, Report* report) {
  constexpr uint64_t kCopies = 3;
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * options.dense_bytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto tensors,
                          Tensors::Make(options.dense_bytes, options.seed));
  RankState state;
  tensors->AddTo(&state);
  CKPTDB_ASSIGN_OR_RETURN(const auto save,
                          StoreSave::Make(*workspace, options, &state));

  std::vector<Contestant> contestants = {save->AsContestant()};
  for (Contestant& writer : RawWriters(*workspace, tensors->payload())) {
    contestants.push_back(std::move(writer));
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<Outcome> outcomes,
                          TakeTurns("dense", contestants, options.repetitions));
  CaseResult result = Compare("dense", tensors->bytes(), outcomes);
  result.figures = {{"stored_bytes", static_cast<double>(save->stored_bytes())},
                    {"peak_bytes", static_cast<double>(save->peak_bytes())}};
  result.goals = {{"ratio", result.ratio(), kMaxDenseRatio},
                  {"cpu_seconds_per_gb", result.cpu_seconds_per_gb(),
                   kMaxDenseCpuSecondsPerGb}};
  report->Add(std::move(result));
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
