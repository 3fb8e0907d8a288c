// SPDX-License-Identifier: Apache-2.0
#include "manager/core/warnings.h"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "db/base/call_guard.h"
#include "manager/load/loaded_items.h"
#include "manager/state/list_some.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

std::string Listed(const std::vector<std::string>& names) {
  return ListSome(names, ", ", [](const std::string& name) { return name; });
}

}  // namespace

// An exception of the callback does not interrupt the operation; the next call
// returns it.
void Warnings::Warn(const std::string& warning) {
  if (options_.observers.on_warning) {
    errors_->NoteCallback(
        CallGuarded("ManagerOptions::observers.on_warning",
                    [&] { options_.observers.on_warning(warning); }));
  } else if (options_.store.logger) {
    // Exceptions of a logger are dropped, as in a store.
    CallGuarded("StoreOptions::logger", [&] {
      options_.store.logger(absl::LogSeverity::kWarning, Printable(warning));
    }).IgnoreError();
  } else {
    std::fprintf(stderr, "ckptdb: %s\n", Printable(warning).c_str());
  }
}

std::string Warnings::StoreName() const {
  return absl::StrCat("store \"", options_.path, "\"");
}

void Warnings::WarnOfSchedule() {
  Warn(absl::StrCat(
      StoreName(),
      ": ManagerOptions::schedule is empty: Step saves "
      "nothing, only Save, StartTraining and FinishTraining do; "
      "set schedule.permanent, or set it to SaveAtSteps({}) if Step is "
      "to save nothing"));
}

// Warns for each save that waited that long; other warnings are given once.
void Warnings::WarnOfWaiting(int64_t step, absl::Duration waited) {
  if (waited < options_.observers.warn_waiting) return;
  Warn(absl::StrCat(
      "the save of step ", step, " waited ", absl::FormatDuration(waited),
      " for the one before it; ManagerOptions::observers.warn_waiting is ",
      absl::FormatDuration(options_.observers.warn_waiting)));
}

void Warnings::WarnOfChangedModel(const RestoreReport& report) {
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
                      ", which is not registered and so not in the next "
                      "save; to keep it, register it before the restore"));
  }
  if (!missing.empty()) {
    Warn(absl::StrCat(step, " does not have ", Listed(missing),
                      ", so the model keeps its previous values"));
  }
}

void Warnings::WarnOfExcludedTables(int64_t step,
                                    const std::vector<std::string>& tables) {
  if (tables.empty()) return;
  Warn(absl::StrCat(StoreName(), ": step ", step,
                    ": EvolvePolicy::exclude leaves out ", Listed(tables),
                    ", so the next save lacks ",
                    tables.size() == 1 ? "its" : "their",
                    " rows; to keep them, restore without it"));
}

void Warnings::WarnOfBadFiles(const Store& store) {
  for (const std::string& file : store.BadFiles()) {
    Warn(absl::StrCat(StoreName(), ": file ", file,
                      " is corrupt or missing: steps that need it cannot be "
                      "restored; \"ckptdb verify\" finds them"));
  }
}

// Steps up to the restored one are never reached again, so they do not block a
// save.
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
      "] of the abandoned branch are pinned and kept: when the training "
      "reaches one of them, the step after it is saved instead; "
      "to allow overwriting them, run \"ckptdb unpin STEP\""));
}

void Warnings::WarnOfAbandonedSteps(const std::set<int64_t>& abandoned) {
  if (abandoned.empty()) return;
  const bool keeps = options_.restore.abandoned == SaveSpec::Abandoned::kKeep;
  Warn(absl::StrCat(
      StoreName(), ": AbandonSteps: ", abandoned.size(), " steps, ",
      *abandoned.begin(), " to ", *abandoned.rbegin(),
      keeps ? ", are abandoned, and kept by ManagerOptions::restore.abandoned"
            : ", are abandoned: the next save removes those that are not "
              "pinned; restore one of them to keep them"));
}

void Warnings::WarnOfMetadata() {
  Warn(absl::StrCat(StoreName(),
                    " keeps its user metadata, which differs from "
                    "ManagerOptions::save.store_metadata; "
                    "Store::SetUserMetadata replaces it"));
}

// The reason is part of the key: if an entry stays for a new reason, it is
// reported once more.
bool Warnings::IsNew(const Usage::SkippedEntry& entry,
                     std::set<std::string>* warned) {
  return warned->insert(entry.path + "\n" + entry.reason).second;
}

void Warnings::WarnOfSweeps(const Store& store) {
  // A sweep fails with the same text until its cause is gone, so the text
  // identifies the warning.
  const absl::Status status = store.sweep_status();
  if (!status.ok() && warned_of_sweeps_.insert(status.ToString()).second) {
    Warn(absl::StrCat(
        StoreName(),
        " cannot free space, because its sweep fails: ", status.ToString()));
  }
  for (const Usage::SkippedEntry& entry : store.unswept()) {
    if (!IsNew(entry, &warned_of_sweeps_)) continue;
    Warn(absl::StrCat(StoreName(), ": ", entry.path,
                      entry.foreign
                          ? " does not belong to the store and is kept: "
                          : " cannot be removed: ",
                      entry.reason));
  }
}

void Warnings::WarnOfPosts(const Store& store) {
  for (const Usage::SkippedEntry& post : store.skipped_posts()) {
    if (!IsNew(post, &warned_of_posts_)) continue;
    Warn(absl::StrCat(StoreName(), ": ", post.path,
                      " was ignored: ", post.reason));
  }
}

void Warnings::WarnOfShipping(const ShippingStatistics& shipping) {
  const bool fails = shipping.failures > 0;
  if (fails && !warned_of_shipping_) {
    Warn(absl::StrCat(StoreName(), " cannot be shipped; the shipper retries: ",
                      shipping.last_error.ToString()));
  }
  warned_of_shipping_ = fails;
  const bool late = shipping.lag > options_.ship.warn_lag;
  if (late && !warned_of_lag_) {
    Warn(absl::StrCat(
        StoreName(), ": ", shipping.waiting.size(),
        " steps wait to be shipped, the oldest for ",
        absl::FormatDuration(absl::Trunc(shipping.lag, absl::Seconds(1))),
        "; ManagerOptions::ship.warn_lag is ",
        absl::FormatDuration(options_.ship.warn_lag)));
  }
  warned_of_lag_ = late;
}

void Warnings::WarnOfNewerRemote(int64_t step) {
  Warn(absl::StrCat(
      StoreName(), " continues from its own steps, but step ", step,
      " of ManagerOptions::restore.fetch_from was saved later than these; to "
      "continue from that step, close this manager and move the store away: "
      "the next one then fetches it"));
}

void Warnings::WarnOfUnknownRemote(const absl::Status& error) {
  Warn(absl::StrCat(StoreName(),
                    " continues from its own steps, without knowing whether "
                    "ManagerOptions::restore.fetch_from has newer ones: ",
                    error.ToString()));
}

void Warnings::WarnOfUnshipped(int64_t step) {
  Warn(absl::StrCat(StoreName(), ": closing waits for step ", step,
                    " to be shipped, up to ManagerOptions::ship.close_wait, ",
                    absl::FormatDuration(options_.ship.close_wait)));
}

void Warnings::WarnOfRequest() {
  Warn(absl::StrCat(StoreName(),
                    ": closing waits for a request to the object store, which "
                    "was interrupted and has not returned; a target that you "
                    "have written must limit the time of its requests"));
}

void Warnings::WarnOfStatistics(const absl::Status& error) {
  if (error.ok() || std::exchange(warned_of_statistics_, true)) return;
  Warn(absl::StrCat(error.message(),
                    "; further lines may be missing without another warning"));
}

}  // namespace ckptdb::internal
