// SPDX-License-Identifier: Apache-2.0
// Exchanges notices between the ranks' meetings; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_NOTICE_EXCHANGE_H_
#define CKPTDB_MANAGER_CORE_NOTICE_EXCHANGE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "manager/coordinator.h"
#include "manager/policy/outlook.h"
#include "manager/ranks/messages.h"

namespace ckptdb::internal {

// Counts a rank's calls of Step since the last announced plan, and exchanges
// votes with the other ranks in the calls that the plan names. An exchange
// begins in one call and ends in a later one, by which the votes have arrived,
// so that no rank waits. If it begins and ends in the same call, ranks wait for
// each other.
//
// All ranks make the same calls and follow the same plans, so they begin and
// end each exchange at the same steps. If a meeting overtakes an exchange, the
// exchange is ended before the next one begins, and its votes are ignored.
//
// Only the training thread uses it.
class NoticeExchange {
 public:
  // What a rank does in a call of Step. It meets the others only if `meets`.
  struct Turn {
    bool meets = false;
    bool begins = false;
    bool ends = false;
  };

  // `ranks` outlives the exchange, and no other class uses it.
  NoticeExchange(Coordinator* ranks, absl::Duration deadline)
      : ranks_(ranks), deadline_(deadline) {}

  // Called in each call of Step until the ranks meet.
  Turn Next(int64_t step);
  // Begin and End are called if Next says so. After an error, ranks meet in the
  // next call.
  absl::Status Begin(int64_t step, const Vote& own);
  // Returns the combined votes: the owner's plan, and whether any rank wants to
  // meet.
  absl::StatusOr<Vote> End();

  // Follows `plan` from the next call on.
  void Follow(const StepPlan& plan);
  void MeetNext() { Follow(StepPlan()); }
  // The ranks exchange votes in the next call, and wait for each other.
  void ExchangeNext() { Follow({1, 1, kNoStep}); }

  const StepPlan& plan() const { return plan_; }

  // Called when the rank makes no more calls.
  void Leave() { begun_.reset(); }

 private:
  void Poll();

  Coordinator* const ranks_;
  const absl::Duration deadline_;
  StepPlan plan_ = {1, 1, kNoStep};
  int64_t calls_ = 0;  // of Next, since the plan was announced
  std::unique_ptr<Coordinator::AllGather> begun_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_NOTICE_EXCHANGE_H_
