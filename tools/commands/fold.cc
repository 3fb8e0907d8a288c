// SPDX-License-Identifier: Apache-2.0
// ckptdb fold: merges a step's chain into base runs of the step.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/chain_length.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/interrupt.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/progress_line.h"
#include "tools/step_argument.h"
#include "tools/sweep.h"

namespace ckptdb::tool {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct Outcome {
  StepRecord before;
  Store::FoldResult fold;
  StepRecord after;
  int64_t micros = 0;
};

// An interrupted fold keeps its finished parts, and the error says how to
// resume it.
absl::Status FoldError(const absl::Status& status, int64_t step) {
  if (!absl::IsCancelled(status)) {
    return WithPlace(ReadingStatus(status), StepName(step));
  }
  return absl::CancelledError(
      absl::StrCat(StepName(step),
                   ": the fold was interrupted and the step is unchanged; "
                   "run \"ckptdb fold ",
                   step, "\" again to resume it"));
}

absl::StatusOr<Store::FoldResult> FoldStep(const Context& context, Store* store,
                                           int64_t step) {
  ProgressLine progress(context.terminal, absl::StrCat("fold: step ", step));
  ReadOptions options;
  options.threads = 4;
  options.cancelled = [] { return Interrupt::asked(); };
  options.progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
    progress.Update(done_bytes, all_bytes);
  };
  return store->Fold(step, options);
}

absl::Status Fold(const Context& context, Store* store, Outcome* outcome) {
  const int64_t step = outcome->before.version.step;
  const auto start = SteadyClock::now();
  absl::StatusOr<Store::FoldResult> fold = FoldStep(context, store, step);
  if (!fold.ok()) return FoldError(fold.status(), step);
  outcome->fold = *std::move(fold);
  outcome->micros = std::chrono::duration_cast<std::chrono::microseconds>(
                        SteadyClock::now() - start)
                        .count();
  CKPTDB_ASSIGN_OR_RETURN(outcome->after, store->FindStep(step));
  return absl::OkStatus();
}

void PrintBefore(const StepRecord& record, std::ostream* out) {
  *out << "before: " << ToString(record.version) << ", " << ChainText(record)
       << std::endl;
}

void PrintAfter(const Outcome& outcome, std::ostream* out) {
  *out << "after: " << ToString(outcome.fold.version) << ", "
       << ChainText(outcome.after) << "; wrote "
       << FormatCount(outcome.fold.written_rows) << " rows in "
       << FormatBytes(outcome.fold.written_bytes) << ", in "
       << FormatDuration(outcome.micros) << '\n';
  if (outcome.fold.resumed_parts == 0) return;
  *out << "resumed an interrupted fold: " << outcome.fold.resumed_parts
       << " of " << outcome.fold.parts << " parts were done\n";
}

Json StateJson(const StepRecord& record) {
  Json json = ToJson(record.version);
  json["kind"] = Str(StepKindName(record.kind));
  SetChainLength(record, &json);
  return json;
}

Json OutcomeJson(const std::string& store, const Outcome& outcome) {
  return {{"store", store},
          {"folded", outcome.fold.folded},
          {"before", StateJson(outcome.before)},
          {"after", StateJson(outcome.after)},
          {"written_rows", outcome.fold.written_rows},
          {"written_bytes", outcome.fold.written_bytes},
          {"parts", outcome.fold.parts},
          {"resumed_parts", outcome.fold.resumed_parts},
          {"fold_micros", outcome.micros}};
}

constexpr char kFoldNotes[] =
    "The step keeps its rows, tensors and blobs, but no longer needs\n"
    "the versions of its chain, which are removed when no other step\n"
    "needs them. So a fold frees space once the older steps are\n"
    "removed. It reads the chain and writes all rows. Ctrl-C\n"
    "interrupts it and leaves the step unchanged; run it again to\n"
    "resume.\n";

class FoldCommand : public Command {
 public:
  FoldCommand()
      : Command({.name = "fold",
                 .summary = "Merge a step's chain, which makes it a full step",
                 .notes = kFoldNotes,
                 .examples =
                     "  ckptdb fold 1000 --store /checkpoints/ctr\n"
                     "  ckptdb fold latest -s /checkpoints/ctr --json\n"}) {}
  void AddArguments(CLI::App* app) override { AddStep(app, &step_); }
  absl::Status Run(const Context& context) override;

 private:
  std::string step_;
};

// A step without a chain is not an error. The JSON has the same fields as for a
// fold.
void PrintNotFolded(const Context& context, const StepRecord& record) {
  if (context.json) {
    Json document = OutcomeJson(context.store, {record, {}, record, 0});
    SetSwept({}, &document);
    PrintJson(document, context.out);
  } else {
    *context.out << StepName(record.version.step)
                 << " has no chain to fold and is unchanged\n";
  }
}

absl::Status FoldCommand::Run(const Context& context) {
  // Without a reserve, because a fold is how a full disk is freed if the chain
  // of the only step keeps the space.
  CKPTDB_ASSIGN_OR_RETURN(
      auto store, OpenOwner(context, /*create=*/false, /*reserve_bytes=*/0));
  const auto record = ResolveStep(*store, step_);
  if (!record.ok()) return WithPlace(record.status(), context.store);
  // Catches Ctrl-C from here on. Before the store is open, Ctrl-C ends the
  // command, which has changed nothing.
  const Interrupt interrupt;
  Outcome outcome;
  outcome.before = *record;
  const bool has_chain = DeltasOf(*record) > 0;
  // Printed before the fold, which may take minutes.
  if (has_chain && !context.json) PrintBefore(*record, context.out);
  CKPTDB_RETURN_IF_ERROR(Fold(context, store.get(), &outcome));
  if (!outcome.fold.folded) {
    PrintNotFolded(context, *record);
    return absl::OkStatus();
  }
  // The fold is committed. If the sweep fails, the error is reported, but the
  // fold stands.
  auto swept = Sweep(context, store.get());
  const Store::SweepResult result = swept.ok() ? *swept : Store::SweepResult();
  if (context.json) {
    Json document = OutcomeJson(context.store, outcome);
    SetSwept(result, &document);
    PrintJson(document, context.out);
  } else {
    PrintAfter(outcome, context.out);
    PrintSwept(result, /*inline_bytes=*/0, context.out);
  }
  return swept.status();
}

}  // namespace

std::unique_ptr<Command> NewFold() { return std::make_unique<FoldCommand>(); }

}  // namespace ckptdb::tool
