// SPDX-License-Identifier: Apache-2.0
// The interface by which a manager ships its store's steps to an object store.
// ckptdb::remote implements it: ShipTo of remote/step_shipper.h. Not for users.
#ifndef CKPTDB_MANAGER_INTERNAL_STEP_SHIPPING_H_
#define CKPTDB_MANAGER_INTERNAL_STEP_SHIPPING_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "manager/results.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Ships steps on its own thread. Thread-safe.
class StepShipping {
 public:
  virtual ~StepShipping() = default;

  virtual ShippingStatistics statistics() const = 0;

  // Returns whether the object store has the step in this version or a later
  // one, as far as this process knows.
  virtual bool HasShipped(const Version& version) const = 0;

  // Waits until HasShipped(version). Returns NotFound if the step was removed
  // from the store before, DeadlineExceeded with the error of the last attempt,
  // Cancelled after Stop, and the error of `poll`, which is called ten times a
  // second, without a lock.
  virtual absl::Status WaitShipped(
      const Version& version, absl::Time deadline,
      const std::function<absl::Status()>& poll) = 0;

  // Interrupts an upload in progress and joins the thread. Waits return
  // Cancelled. Must not be called by a callback.
  virtual void Stop() = 0;

  // The same, but returns the error of `poll`, which is called ten times a
  // second, without a lock. The thread then still runs until the object store's
  // call returns, which may be code of the user, and Stop must be called later.
  virtual absl::Status Stop(const std::function<absl::Status()>& poll) = 0;
};

// Begins to ship the steps of the store at `path`, which exists. `on_shipped`
// is called on the thread that ships, until Stop returns.
using StartShipping =
    std::function<absl::StatusOr<std::shared_ptr<StepShipping>>(
        const std::string& path,
        std::function<void(const ShipReport& report)> on_shipped)>;

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_INTERNAL_STEP_SHIPPING_H_
