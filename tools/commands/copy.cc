// SPDX-License-Identifier: Apache-2.0
// ckptdb copy: takes a step to another store.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "db/backup.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/interrupt.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/outside_store.h"
#include "tools/progress_line.h"
#include "tools/step_argument.h"
#include "tools/step_copy.h"

namespace ckptdb::tool {
namespace {

namespace fs = std::filesystem;

constexpr char kCopyNotes[] =
    "SRC is a store, followed by \":STEP\" for another step than the latest.\n"
    "A new store DST receives the step with its chain as stored, or with\n"
    "--flatten merged into a full step; data files are linked where possible.\n"
    "A store that exists receives a full step, written again, which becomes "
    "its\n"
    "latest, permanent and not pinned; --older allows that for a step before\n"
    "the latest one. Either way it appears complete and at once, and was read\n"
    "back and compared before the command ends.\n";

bool IsNewFolder(const std::string& path) {
  std::error_code error;
  return !fs::exists(path, error) || fs::is_empty(path, error);
}

class CopyCommand : public Command {
 public:
  CopyCommand()
      : Command(
            {.name = "copy",
             .summary = "Copy a step to another store",
             .notes = kCopyNotes,
             .examples =
                 "  ckptdb copy /checkpoints/ctr:1000 /models/ctr\n"
                 "  ckptdb copy /checkpoints/ctr /models/ctr --flatten\n"}) {}
  void AddArguments(CLI::App* app) override {
    app->add_option("source", source_, "store, and \":STEP\"")
        ->required()
        ->type_name("SRC[:STEP]");
    app->add_option("target", target_, "store, which may be new")
        ->required()
        ->type_name("DST");
    app->add_flag("--flatten", flatten_, "merge the chain into a full step");
    app->add_flag("--copy", copy_, "copy data files, never link them");
    app->add_flag("--older", older_,
                  "copy also before the latest step of DST, in whose place a "
                  "restore then begins with the copy");
  }
  absl::Status Run(const Context& context) override;

 private:
  void SplitSource();
  absl::Status CheckTarget() const;
  absl::Status CopyToNew(const Context& context, const StepReader& from);
  absl::Status CopyToExisting(const Context& context, const StepReader& from);
  absl::Status Print(const Context& context, bool created) const;

  std::string source_;
  std::string target_;
  std::string target_path_;  // resolved
  std::string step_ = std::string(kLatest);
  bool flatten_ = false;
  bool copy_ = false;
  bool older_ = false;
};

// A path may contain colons; only the last one may begin a step.
void CopyCommand::SplitSource() {
  const size_t colon = source_.rfind(':');
  if (colon == std::string::npos) return;
  const std::string text = source_.substr(colon + 1);
  if (!CheckStepText(text).ok()) return;
  step_ = text;
  source_.resize(colon);
}

absl::Status CopyCommand::CheckTarget() const {
  CKPTDB_RETURN_IF_ERROR(CheckNotWithinStore(target_));
  std::error_code error;
  if (!fs::equivalent(source_, target_, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      source_, " and ", target_, " are the same store; name another one"));
}

// In an existing store the copy becomes the latest step, from which training
// resumes.
absl::Status CheckNotQuarantined(const std::string& store,
                                 const StepRecord& record) {
  if (!record.quarantined) return absl::OkStatus();
  const int64_t step = record.version.step;
  return absl::FailedPreconditionError(absl::StrCat(
      store, ": step ", step,
      " is quarantined, and a training would resume from its copy; copy it to "
      "a new store, which keeps the mark, or remove the mark first: \"ckptdb "
      "quarantine --undo ",
      step, " -s ", store, "\""));
}

StoreOptions Quiet(const std::string& path) {
  StoreOptions options;
  options.create_if_missing = false;
  options.background_sweep = false;
  KeepModes(path, &options);
  return options;
}

// Removes all other steps, and folds this one if `flatten`. The store is a
// copy that nobody has seen yet.
absl::Status Trim(const std::string& path, const std::string& from_path,
                  const StepReader& from, bool flatten) {
  const int64_t kept = from.record().version.step;
  CKPTDB_ASSIGN_OR_RETURN(const auto store, Store::Open(path, Quiet(path)));
  for (const StepRecord& record : store->Steps()) {
    const int64_t step = record.version.step;
    if (step == kept) continue;
    CKPTDB_RETURN_IF_ERROR(store->Unpin(step));
    CKPTDB_RETURN_IF_ERROR(store->Delete(step));
  }
  if (store->Steps().empty()) {
    return absl::AbortedError(absl::StrCat(
        from_path, ": ", StepName(kept),
        " was removed by its trainer before it was copied; copy another step, "
        "or pin it first"));
  }
  if (flatten) {
    ReadOptions options;
    options.threads = 4;
    options.cancelled = [] { return Interrupt::asked(); };
    CKPTDB_RETURN_IF_ERROR(store->Fold(kept, options).status());
  }
  CKPTDB_RETURN_IF_ERROR(store->Sweep().status());
  {
    CKPTDB_ASSIGN_OR_RETURN(const auto copy, store->OpenStep(kept));
    CKPTDB_RETURN_IF_ERROR(copy->Verify());
    CKPTDB_RETURN_IF_ERROR(
        CompareContents(from, *copy, [] { return Interrupt::asked(); }));
  }
  return store->Close();
}

absl::Status CopyCommand::CopyToNew(const Context& context,
                                    const StepReader& from) {
  ProgressLine progress(context.terminal, "copy");
  CopyOptions options;
  options.links = !copy_;
  options.cancelled = [] { return Interrupt::asked(); };
  options.progress = [&](uint64_t done, uint64_t all) {
    progress.Update(done, all);
  };
  options.prepare = [&](const std::string& path) {
    return Trim(path, source_, from, flatten_);
  };
  return ReadingStatus(CopyStore(source_, target_path_, options));
}

absl::Status CopyCommand::CopyToExisting(const Context& context,
                                         const StepReader& from) {
  CKPTDB_RETURN_IF_ERROR(CheckNotQuarantined(source_, from.record()));
  Context target = context;
  target.store = target_;
  target.store_given = true;
  CKPTDB_ASSIGN_OR_RETURN(auto store, OpenOwner(target));
  const auto cancelled = [] { return Interrupt::asked(); };
  const int64_t step = from.record().version.step;
  if (!older_) {
    CKPTDB_RETURN_IF_ERROR(CheckBecomesLatest(*store, step, "--older"));
  }
  const auto saved = CopyStep(from, store.get(), cancelled);
  if (absl::IsAlreadyExists(saved.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat(target_, " has a step ", step,
                     " already; remove it there first: "
                     "\"ckptdb rm ",
                     step, " -s ", target_, "\""));
  }
  if (!saved.ok()) return WithPlace(ReadingStatus(saved.status()), target_);
  absl::Status same;
  {
    CKPTDB_ASSIGN_OR_RETURN(const auto copy, store->OpenStep(step));
    same = CompareContents(from, *copy, cancelled);
  }
  if (!same.ok()) store->Delete(step).IgnoreError();
  // Removes the files that an interrupted copy has staged.
  store->Sweep().IgnoreError();
  return ReadingStatus(same);
}

absl::Status CopyCommand::Print(const Context& context, bool created) const {
  CKPTDB_ASSIGN_OR_RETURN(const auto reader, Reader::Open(target_path_));
  auto record = reader->Latest();
  if (step_ != kLatest) record = reader->FindStep(StepNumber(step_));
  CKPTDB_RETURN_IF_ERROR(record.status());
  if (context.json) {
    Json json = {{"source", source_}, {"store", target_}, {"created", created}};
    json.update(ToJson(record->version));
    json["kind"] = Str(StepKindName(record->kind));
    json["chain_length"] = record->chain.size();
    json["raw_bytes"] = record->raw_bytes;
    PrintJson(json, context.out);
    return absl::OkStatus();
  }
  *context.out << "copied step " << record->version.step << " to "
               << Printable(target_) << (created ? ", a new store" : "") << ": "
               << StepKindName(record->kind);
  if (record->chain.size() > 1) {
    *context.out << ", a chain of " << record->chain.size();
  }
  *context.out << "; compared\n";
  return absl::OkStatus();
}

absl::Status CopyCommand::Run(const Context& context) {
  SplitSource();
  const Interrupt interrupt;
  CKPTDB_RETURN_IF_ERROR(CheckTarget());
  // A relative path becomes invalid when the copy replaces the current folder.
  CKPTDB_ASSIGN_OR_RETURN(target_path_, Store::ResolvePath(target_));
  Context source = context;
  source.store = source_;
  source.store_given = true;
  const bool created = IsNewFolder(target_);
  const std::string wanted = step_;
  const absl::Status copied =
      RetryLatest(wanted == kLatest, [&]() -> absl::Status {
        CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(source));
        CKPTDB_ASSIGN_OR_RETURN(auto from,
                                OpenStep(source, reader.get(), wanted));
        step_ = absl::StrCat(from->record().version.step);
        return created ? CopyToNew(context, *from)
                       : CopyToExisting(context, *from);
      });
  CKPTDB_RETURN_IF_ERROR(Interrupt::Describe(copied, "nothing was copied"));
  return Print(context, created);
}

}  // namespace

std::unique_ptr<Command> NewCopy() { return std::make_unique<CopyCommand>(); }

}  // namespace ckptdb::tool
