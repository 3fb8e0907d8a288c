// SPDX-License-Identifier: Apache-2.0
#include "manager/core/notice_exchange.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb::internal {

// Skips an exchange that would end at the due step or later, given that steps
// ascend by at least one.
NoticeExchange::Turn NoticeExchange::Next(int64_t step) {
  Turn turn;
  turn.meets = step >= plan_.due_step || plan_.end_in == 0;
  if (turn.meets) return turn;
  ++calls_;
  if (calls_ == plan_.begin_in &&
      StepsAfter(step, plan_.end_in - calls_) >= plan_.due_step) {
    plan_.begin_in = plan_.end_in = std::numeric_limits<int64_t>::max();
  }
  turn.begins = calls_ == plan_.begin_in;
  turn.ends = calls_ == plan_.end_in;
  if (!turn.begins && !turn.ends) Poll();
  return turn;
}

absl::Status NoticeExchange::Begin(int64_t step, const Vote& own) {
  if (begun_ != nullptr) CKPTDB_RETURN_IF_ERROR(End().status());
  begun_ = ranks_->StartAllGather(absl::StrCat("notices at step ", step),
                                  Encode(own));
  return absl::OkStatus();
}

absl::StatusOr<Vote> NoticeExchange::End() {
  const StepPlan plan = std::exchange(plan_, StepPlan());
  const auto begun = std::exchange(begun_, nullptr);
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<std::string> votes,
                          begun->Finish(deadline_));
  Vote all;
  for (size_t rank = 0; rank < votes.size(); ++rank) {
    Vote vote;
    CKPTDB_RETURN_IF_ERROR(Decode(votes[rank], &vote));
    if (rank == kOwnerRank) all.plan = vote.plan;
    all.meet = all.meet || vote.meet;
  }
  plan_ = plan;
  return all;
}

void NoticeExchange::Follow(const StepPlan& plan) {
  plan_ = plan;
  calls_ = 0;
}

// Each rank polls after one call, two, four, and so on, which suffices for the
// owner to gather the votes and send them to the others before they need them.
void NoticeExchange::Poll() {
  const int64_t calls = calls_ - plan_.begin_in;
  if (calls <= 0 || (calls & (calls - 1)) != 0) return;
  if (begun_ != nullptr) begun_->Poll();
}

}  // namespace ckptdb::internal
