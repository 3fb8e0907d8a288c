// SPDX-License-Identifier: Apache-2.0
#include "manager/state/change_sets.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "manager/state/registered_state.h"
#include "manager/state/restore_counts.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr char kRestored[] = "a manager has restored it since the last save";

}  // namespace

absl::Status ChangeFeed::Join() {
  for (const RegisteredTable& table : model_.tables()) {
    joined_.emplace_back();
    ChangeTracker* const tracker = table.state->tracker();
    if (tracker == nullptr) continue;
    CKPTDB_RETURN_IF_ERROR(Join(table.name, tracker, &joined_.back()));
  }
  return absl::OkStatus();
}

absl::Status ChangeFeed::Join(const std::string& name, ChangeTracker* tracker,
                              std::optional<Joined>* joined) const {
  const absl::StatusOr<ChangeTracker::Consumer> consumer =
      tracker->AddConsumer(absl::StrCat("checkpoint in ", store_path_));
  if (absl::IsAlreadyExists(consumer.status())) {
    return absl::AlreadyExistsError(absl::StrCat(
        "table \"", name, "\": a manager of store \"", store_path_,
        "\" tracks its changes already; close the other manager of this "
        "store, register the table under a single name, or, for another model, "
        "make a second adapter over the same container"));
  }
  CKPTDB_RETURN_IF_ERROR(
      Annotate(consumer.status(), absl::StrCat("table \"", name, "\"")));
  RestoreCounts::Global().Watch(tracker);
  *joined = Joined{tracker, *consumer, RestoreCounts::Global().Count(tracker)};
  return absl::OkStatus();
}

ChangeFeed::~ChangeFeed() {
  for (const std::optional<Joined>& each : joined_) {
    if (!each.has_value()) continue;
    // RemoveConsumer only fails for an unknown consumer, and these are known. A
    // tracker that throws keeps the consumer.
    CallGuarded("ChangeTracker::RemoveConsumer", [&] {
      return each->tracker->RemoveConsumer(each->consumer);
    }).IgnoreError();
    RestoreCounts::Global().Unwatch(each->tracker);
  }
}

absl::StatusOr<ChangeTracker::Changes> ChangeFeed::TakeFrom(Joined* joined) {
  // Read before taking the changes: a restore in between counts for the next
  // set.
  const uint64_t restores = RestoreCounts::Global().Count(joined->tracker);
  bool returned = false;
  absl::StatusOr<ChangeTracker::Changes> taken =
      CallGuarded("ChangeTracker::Take", [&] {
        auto changes = joined->tracker->Take(joined->consumer);
        returned = true;
        return changes;
      });
  if (!returned) NoteLost("taking its changes", taken.status(), joined);
  if (!taken.ok()) return taken;
  std::string incomplete = std::exchange(joined->incomplete, {});
  if (std::exchange(joined->restores, restores) != restores) {
    incomplete = kRestored;
  }
  if (incomplete.empty()) return taken;
  taken->complete = false;
  taken->reason = std::move(incomplete);
  return taken;
}

absl::StatusOr<ChangeSets> ChangeFeed::Take() {
  ChangeSets sets(joined_.size());
  for (size_t t = 0; t < joined_.size(); ++t) {
    if (!joined_[t].has_value()) continue;
    absl::StatusOr<ChangeTracker::Changes> taken = TakeFrom(&*joined_[t]);
    if (!taken.ok()) {
      // Returns the changes of the other tables, which the next save would
      // otherwise lack.
      CKPTDB_RETURN_IF_ERROR(Return(std::move(sets)));
      return taken.status();
    }
    sets[t] = *std::move(taken);
  }
  return sets;
}

absl::Status ChangeFeed::Drop() {
  absl::Status all;
  for (std::optional<Joined>& joined : joined_) {
    if (joined.has_value()) all.Update(TakeFrom(&*joined).status());
  }
  return all;
}

// Returns the other tables' marks even if one table fails.
absl::Status ChangeFeed::Return(ChangeSets sets) {
  absl::Status all;
  for (size_t t = 0; t < sets.size(); ++t) {
    if (!sets[t].has_value()) continue;
    Joined& joined = *joined_[t];
    // The tracker may not know that the set was incomplete.
    if (!sets[t]->complete) joined.incomplete = sets[t]->reason;
    const absl::Status returned = CallGuarded("ChangeTracker::Return", [&] {
      return joined.tracker->Return(joined.consumer, *std::move(sets[t]));
    });
    if (returned.ok()) continue;
    NoteLost("returning the changes of a failed save", returned, &joined);
    all.Update(returned);
  }
  return all;
}

// The changes may be lost, so the next set must not be taken for all of them.
void ChangeFeed::NoteLost(absl::string_view what, const absl::Status& error,
                          Joined* joined) {
  joined->incomplete = absl::StrCat(what, " failed: ", error.ToString());
}

BaseReasons IncompleteTables(const ModelState& model, const ChangeSets& sets) {
  BaseReasons reasons;
  for (size_t t = 0; t < sets.size(); ++t) {
    const std::string& name = model.tables()[t].name;
    if (!sets[t].has_value()) {
      reasons[name] = "its changes are not tracked";
    } else if (!sets[t]->complete) {
      reasons[name] = sets[t]->reason;
    }
  }
  return reasons;
}

}  // namespace ckptdb::internal
