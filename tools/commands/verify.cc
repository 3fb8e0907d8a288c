// SPDX-License-Identifier: Apache-2.0
// ckptdb verify: reads every byte of a step, or of all steps, and checks it.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/exit_code.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/progress_line.h"
#include "tools/step_argument.h"
#include "tools/step_totals.h"

namespace ckptdb::tool {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Denotes the latest step, which is resolved when it is read.
constexpr int64_t kLatestStep = -1;

struct Verdict {
  int64_t step = 0;
  absl::Status status;
  uint64_t bytes = 0;  // stored bytes of everything that the step needs
  uint64_t chain_length = 0;
  uint64_t previously_verified = 0;  // versions verified with an earlier step
  int64_t micros = 0;
};

// Returns "ok", "damaged", "removed" (during the command) or "failed".
std::string ResultText(const absl::Status& status) {
  if (status.ok()) return "ok";
  if (absl::IsDataLoss(status)) return "damaged";
  return IsGone(status) ? "removed" : "failed";
}

// Returns the stored bytes of the step's tensors and blobs and of the runs in
// its chain.
uint64_t NeededBytes(const StepReader& step) {
  const StepRecord& record = step.record();
  return TotalsOfKind(step.ranks(), Item::Kind::kTensor).stored_bytes +
         TotalsOfKind(step.ranks(), Item::Kind::kBlob).stored_bytes +
         record.base_bytes + record.delta_bytes;
}

absl::Status VerifyStep(const Context& context, Reader* reader,
                        std::set<Version>* verified, Verdict* verdict) {
  ProgressLine progress(context.terminal,
                        absl::StrCat("verify: step ", verdict->step));
  CKPTDB_ASSIGN_OR_RETURN(auto step, reader->OpenStep(verdict->step));
  verdict->bytes = NeededBytes(*step);
  const std::vector<Version>& chain = step->record().chain;
  verdict->chain_length = chain.size();
  verdict->previously_verified = static_cast<uint64_t>(std::count_if(
      chain.begin(), chain.end(),
      [&](const Version& version) { return verified->contains(version); }));
  ReadOptions options;
  options.progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
    progress.Update(done_bytes, all_bytes);
  };
  return step->Verify(options, verified);
}

// Verifies one step. An error is part of the verdict, because the other steps
// are still verified.
Verdict Judge(const Context& context, Reader* reader, int64_t step,
              std::set<Version>* verified) {
  Verdict verdict;
  verdict.step = step;
  const auto start = SteadyClock::now();
  const absl::Status status = VerifyStep(context, reader, verified, &verdict);
  verdict.status = WithPlace(ReadingStatus(status), StepName(step));
  verdict.micros = std::chrono::duration_cast<std::chrono::microseconds>(
                       SteadyClock::now() - start)
                       .count();
  return verdict;
}

void PrintLine(const Verdict& verdict, std::ostream* out) {
  *out << absl::StrFormat("step %d: %s", verdict.step,
                          ResultText(verdict.status));
  if (verdict.status.ok()) {
    *out << ", " << FormatBytes(verdict.bytes) << " in "
         << FormatDuration(verdict.micros);
  }
  if (verdict.status.ok() && verdict.chain_length > 1) {
    *out << ", a chain of " << verdict.chain_length;
    if (verdict.previously_verified > 0) {
      *out << ", " << verdict.previously_verified << " of them verified before";
    }
  }
  // Flushed after each line, because the next step may take minutes.
  *out << std::endl;
}

Json VerdictJson(const Verdict& verdict) {
  Json json = {{"step", verdict.step}, {"result", ResultText(verdict.status)}};
  json["error"] =
      verdict.status.ok() ? Json() : Json(Str(verdict.status.message()));
  json["needed_bytes"] = verdict.bytes;
  json["verify_micros"] = verdict.micros;
  json["chain_length"] = verdict.chain_length;
  json["previously_verified"] = verdict.previously_verified;
  return json;
}

class Verify : public Command {
 public:
  Verify()
      : Command({.name = "verify",
                 .summary =
                     "Read every byte of a step, or of all steps, and check it",
                 .examples =
                     "  ckptdb verify --store /checkpoints/ctr\n"
                     "  ckptdb verify latest -s /checkpoints/ctr --json\n"}) {}
  void AddArguments(CLI::App* app) override { AddOptionalStep(app, &step_); }
  absl::Status Run(const Context& context) override;

 private:
  absl::StatusOr<std::vector<int64_t>> StepsToVerify(const Context& context,
                                                     const Reader& reader);
  std::string step_;  // empty: all steps
};

absl::StatusOr<std::vector<int64_t>> Verify::StepsToVerify(
    const Context& context, const Reader& reader) {
  std::vector<int64_t> steps;
  // "latest" is resolved when it is read, and again if the trainer has retired
  // that step.
  if (step_ == kLatest) return std::vector<int64_t>{kLatestStep};
  if (step_.empty()) {
    for (const StepRecord& record : reader.Steps()) {
      steps.push_back(record.version.step);
    }
    return steps;
  }
  auto record = ResolveStep(reader, step_);
  if (!record.ok()) return WithPlace(record.status(), context.store);
  steps.push_back(record->version.step);
  return steps;
}

// Verifies the latest step. Tries again if a trainer retires it before it is
// open.
absl::StatusOr<Verdict> JudgeLatest(const Context& context, Reader* reader,
                                    std::set<Version>* verified) {
  Verdict verdict;
  const absl::Status tried = RetryLatest(true, [&]() -> absl::Status {
    const auto latest = reader->Latest();
    if (!latest.ok()) return WithPlace(latest.status(), context.store);
    verdict = Judge(context, reader, latest->version.step, verified);
    if (!IsGone(verdict.status)) return absl::OkStatus();
    return absl::AbortedError(verdict.status.message());
  });
  CKPTDB_RETURN_IF_ERROR(tried);
  return verdict;
}

// Returns the more severe of two errors; damage is the most severe.
absl::Status Worse(const absl::Status& a, const absl::Status& b) {
  if (a.ok()) return b;
  return absl::IsDataLoss(b) && !absl::IsDataLoss(a) ? b : a;
}

absl::Status Verify::Run(const Context& context) {
  CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<int64_t> steps,
                          StepsToVerify(context, *reader));
  Json verdicts = Json::array();
  std::set<Version> verified;  // each version of a chain is read once
  absl::Status worst;
  for (int64_t step : steps) {
    Verdict verdict;
    if (step == kLatestStep) {
      CKPTDB_ASSIGN_OR_RETURN(verdict,
                              JudgeLatest(context, reader.get(), &verified));
    } else {
      verdict = Judge(context, reader.get(), step, &verified);
    }
    verdicts.push_back(VerdictJson(verdict));
    if (!context.json) PrintLine(verdict, context.out);
    // A step that was retired during the command is an error only if the user
    // named it.
    const bool gone = IsGone(verdict.status) && step_.empty();
    if (verdict.status.ok() || gone) continue;
    if (steps.size() > 1) context.PrintError(verdict.status);
    worst = Worse(worst, verdict.status);
  }
  if (context.json) {
    PrintJson({{"store", context.store},
               {"ok", worst.ok()},
               {"steps", std::move(verdicts)}},
              context.out);
  }
  if (steps.empty() && !context.json) {
    *context.out << "the store has no steps\n";
  }
  if (worst.ok() || steps.size() == 1) return worst;
  return {worst.code(),
          absl::StrCat(context.store,
                       ": some steps are damaged or could not be read")};
}

}  // namespace

std::unique_ptr<Command> NewVerify() { return std::make_unique<Verify>(); }

}  // namespace ckptdb::tool
