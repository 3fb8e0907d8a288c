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

// Counts the calls of Step, in which a rank follows the plan that was announced
// last, and exchanges votes with the other ranks at the calls that it names. An
// exchange begins in one call and ends in a later one, by when the votes have
// arrived, so that no rank waits; if the two are the same call, ranks wait for
// each other.
//
// All ranks make the same calls and follow the same plans, so they begin and
// end each exchange at the same steps. An exchange whose end is overtaken by a
// meeting is ended before the next one begins, and its votes are ignored.
//
// Only the training thread uses it.
class NoticeExchange {
 public:
  // What a rank does in a call of Step: it returns alone unless `meets`.
  struct Turn {
    bool meets = false;
    bool begins = false;
    bool ends = false;
  };

  // No other class makes calls of `ranks`, which outlives the exchange.
  NoticeExchange(Coordinator* ranks, absl::Duration deadline)
      : ranks_(ranks), deadline_(deadline) {}

  // Called in each call of Step until the ranks meet.
  Turn Next(int64_t step);
  // Called as Next says. After an error ranks meet in the next call.
  absl::Status Begin(int64_t step, const Vote& own);
  // Returns the votes together: the owner's plan, and whether any rank wants to
  // meet.
  absl::StatusOr<Vote> End();

  // Counts calls anew, by `plan`.
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
