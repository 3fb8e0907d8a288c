#include "ckptdb/manager/state/change_sets.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/schema/bytes/annotate.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr char kConsumer[] = "checkpoint";

}  // namespace

absl::Status ChangeFeed::Join() {
  for (const ModelState::Table& table : model_.tables()) {
    ChangeTracker* const tracker = table.state->tracker();
    consumers_.emplace_back();
    if (tracker == nullptr) continue;
    absl::StatusOr<ChangeTracker::Consumer> consumer =
        tracker->AddConsumer(kConsumer);
    if (absl::IsAlreadyExists(consumer.status())) {
      return absl::AlreadyExistsError(absl::StrCat(
          "table \"", table.name,
          "\": a manager tracks its changes already; close the other manager "
          "of this model, or register the table under one name alone"));
    }
    CKPTDB_RETURN_IF_ERROR(
        Annotate(consumer.status(), "table \"" + table.name + "\""));
    consumers_.back() = *consumer;
  }
  return absl::OkStatus();
}

ChangeFeed::~ChangeFeed() {
  for (size_t t = 0; t < consumers_.size(); ++t) {
    if (!consumers_[t].has_value()) continue;
    // RemoveConsumer only fails for an unknown consumer, and these are known. A
    // table that throws keeps the consumer.
    CallGuarded("TableState::tracker", [&] {
      return model_.tables()[t].state->tracker()->RemoveConsumer(
          *consumers_[t]);
    }).IgnoreError();
  }
}

absl::StatusOr<ChangeSets> ChangeFeed::Take() {
  ChangeSets sets(consumers_.size());
  for (size_t t = 0; t < consumers_.size(); ++t) {
    if (!consumers_[t].has_value()) continue;
    absl::StatusOr<ChangeTracker::Changes> taken =
        model_.tables()[t].state->tracker()->Take(*consumers_[t]);
    if (!taken.ok()) {
      // What was taken of other tables goes back, or the next save would lack
      // it.
      CKPTDB_RETURN_IF_ERROR(Return(std::move(sets)));
      return taken.status();
    }
    sets[t] = *std::move(taken);
  }
  return sets;
}

// An error of one table does not stop the marks of the other tables from going
// back.
absl::Status ChangeFeed::Return(ChangeSets sets) {
  absl::Status all;
  for (size_t t = 0; t < sets.size(); ++t) {
    if (!sets[t].has_value()) continue;
    all.Update(model_.tables()[t].state->tracker()->Return(
        *consumers_[t], *std::move(sets[t])));
  }
  return all;
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
