#include "ckptdb/manager/core/warnings.h"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/manager/load/loaded_items.h"
#include "ckptdb/manager/state/list_some.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {
namespace {

std::string Listed(const std::vector<std::string>& names) {
  return ListSome(names, ", ", [](const std::string& name) { return name; });
}

}  // namespace

// An exception of the callback does not end what is being done; the next call
// returns it.
void Warnings::Warn(const std::string& warning) {
  if (options_.on_warning) {
    errors_->NoteCallback(CallGuarded("ManagerOptions::on_warning",
                                      [&] { options_.on_warning(warning); }));
  } else if (Logger* const logger = options_.store.logger.get()) {
    // An exception of a logger is dropped, as a store does.
    CallGuarded("Logger::Log", [&] {
      logger->Log(Logger::Severity::kWarning, Printable(warning));
    }).IgnoreError();
  } else {
    std::fprintf(stderr, "ckptdb: %s\n", Printable(warning).c_str());
  }
}

std::string Warnings::StoreName() const {
  return absl::StrCat("store \"", options_.path, "\"");
}

void Warnings::WarnOfSchedule() {
  Warn(absl::StrCat(StoreName(),
                    ": ManagerOptions::schedule is empty: Step saves "
                    "nothing, only Save, StartTraining and FinishTraining do; "
                    "set schedule.permanent, to SaveAtSteps({}) where no "
                    "step is to be saved by itself"));
}

void Warnings::WarnOfMetrics(uint32_t rank) {
  if (std::exchange(told_of_metrics_, true)) return;
  Warn(absl::StrCat("the metrics of rank ", rank,
                    " are ignored: a step has those of rank ", kOwnerRank,
                    "; reduce them, and pass the result to Step on that rank"));
}

// Given for each save that has waited that long, unlike the warnings that are
// given once.
void Warnings::WarnOfWaiting(int64_t step, absl::Duration waited) {
  if (waited < options_.warn_waiting) return;
  Warn(absl::StrCat("the save of step ", step, " waited ",
                    absl::FormatDuration(waited),
                    " for the one before it; ManagerOptions::warn_waiting is ",
                    absl::FormatDuration(options_.warn_waiting)));
}

void Warnings::WarnOfChangedModel(
    const CheckpointManager::RestoreReport& report) {
  std::vector<std::string> dropped;
  for (const std::string& name : report.loaded.unexpected) {
    dropped.push_back(absl::StrCat("\"", name, "\""));
  }
  std::vector<std::string> missing;
  for (const LoadedItem& item : report.loaded.items) {
    if (item.outcome == LoadedItem::Outcome::kMissing) {
      missing.push_back(absl::StrCat(item.category, " \"", item.name, "\""));
    }
    for (const SlotChange& change : item.slot_changes) {
      if (change.kind != SlotChange::Kind::kDropped) continue;
      dropped.push_back(absl::StrCat("slot \"", change.source, "\" of table \"",
                                     item.source, "\""));
    }
  }
  const std::string step =
      absl::StrCat(StoreName(), ": step ", report.version.step);
  if (!dropped.empty()) {
    Warn(absl::StrCat(step, " has ", Listed(dropped),
                      ", which is not registered, and so not in the next "
                      "save; to keep it, register it before the restore"));
  }
  if (!missing.empty()) {
    Warn(absl::StrCat(step, " does not have ", Listed(missing),
                      ", so the values that the model had before stay"));
  }
}

void Warnings::WarnOfBadFiles(const Store& store) {
  for (const std::string& file : store.BadFiles()) {
    Warn(absl::StrCat(StoreName(), ": file ", file,
                      " is corrupt or missing: steps that need it cannot be "
                      "restored; \"ckptdb verify\" finds them"));
  }
}

// Those up to the restored step are never reached, so they are in nobody's way.
void Warnings::WarnOfPins(const Store& store, int64_t restored,
                          const std::set<int64_t>& abandoned) {
  std::vector<int64_t> pinned;
  for (auto at = abandoned.upper_bound(restored); at != abandoned.end(); ++at) {
    store.VisitStep(*at, [&](const StepRecord& record) {
      if (record.pinned) pinned.push_back(record.version.step);
    });
  }
  if (pinned.empty()) return;
  Warn(absl::StrCat(
      StoreName(), ": step ", restored, " was restored, and steps [",
      absl::StrJoin(pinned, ", "),
      "] of the branch that is abandoned are pinned: they stay, and when the "
      "training reaches one of them the step after it is saved instead; "
      "\"ckptdb unpin\" lets them be overwritten"));
}

void Warnings::WarnOfMetadata() {
  Warn(absl::StrCat(StoreName(),
                    " has user metadata that differs from "
                    "ManagerOptions::store_metadata, and keeps it; "
                    "Store::SetUserMetadata replaces it"));
}

// The reason is part of the key: an entry that stays for another reason than
// before is told once more.
bool Warnings::IsNew(const Usage::Unswept& entry, std::set<std::string>* told) {
  return told->insert(entry.path + "\n" + entry.reason).second;
}

void Warnings::WarnOfSweeps(const Store& store) {
  // A sweep fails again with the same text until its cause is gone, so the text
  // is what tells whether it was told.
  const absl::Status status = store.sweep_status();
  if (!status.ok() && told_of_sweeps_.insert(status.ToString()).second) {
    Warn(absl::StrCat(StoreName(), " cannot free space, as its sweep fails: ",
                      status.ToString()));
  }
  for (const Usage::Unswept& entry : store.unswept()) {
    if (!IsNew(entry, &told_of_sweeps_)) continue;
    Warn(absl::StrCat(StoreName(), ": ", entry.path,
                      entry.foreign ? " is not the store's, and stays: "
                                    : " cannot be removed: ",
                      entry.reason));
  }
}

void Warnings::WarnOfPosts(const Store& store) {
  for (const Usage::Unswept& post : store.posts_passed_over()) {
    if (!IsNew(post, &told_of_posts_)) continue;
    Warn(absl::StrCat(StoreName(), ": ", post.path,
                      " was ignored: ", post.reason));
  }
}

void Warnings::WarnOfStatistics(const absl::Status& error) {
  if (error.ok() || std::exchange(told_of_statistics_, true)) return;
  Warn(absl::StrCat(
      error.message(),
      "; later lines may be missing, too, without another warning"));
}

}  // namespace ckptdb::internal
