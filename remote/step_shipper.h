// SPDX-License-Identifier: Apache-2.0
// Ships a store's steps in the background, as they are committed.
//
//   CKPTDB_ASSIGN_OR_RETURN(
//       const auto shipper,
//       StepShipper::Start("checkpoints", "s3://models/ctr"));
//   ...  // train and save
//   CKPTDB_RETURN_IF_ERROR(shipper->WaitShipped(
//       last_step, absl::Now() + absl::Minutes(10)));
#ifndef CKPTDB_REMOTE_STEP_SHIPPER_H_
#define CKPTDB_REMOTE_STEP_SHIPPER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "manager/internal/step_shipping.h"
#include "manager/policies.h"
#include "manager/results.h"
#include "remote/object_store.h"
#include "remote/remote_store.h"

namespace ckptdb {

struct ShipperOptions {
  RemoteOptions remote = {};
  bool take_over = false;                  // PushOptions::take_over, once
  absl::Duration look = absl::Seconds(1);  // how often it looks for steps
  // The time between attempts after an error, doubled each time, with jitter.
  absl::Duration first_retry = absl::Seconds(1);
  absl::Duration most_retry = absl::Minutes(1);
  // Which steps the remote keeps, beside the newest, pinned and quarantined
  // ones. Default: all. Applied after a push that shipped steps, at most once
  // in `collect_every`: see CollectOptions.
  std::optional<RetentionOptions> retention = {};
  absl::Duration grace = absl::Hours(24);
  absl::Duration collect_every = absl::Hours(1);
  // Called on the shipper's thread after each push that shipped steps.
  std::function<void(const PushResult& pushed)> on_shipped = {};
};

// Thread-safe. It reads the store as any other process does, so it may run in
// the trainer's process or in another one; it never delays or fails a save. It
// stays the remote's owner, so that a step takes no requests but those for its
// objects and its catalog. It retries after errors until it is destroyed.
class StepShipper {
 public:
  // Starts the thread. The store may be created later. Returns the errors of
  // OpenObjectStore, and InvalidArgument for a duration that is not positive.
  static absl::StatusOr<std::unique_ptr<StepShipper>> Start(
      absl::string_view store, absl::string_view url,
      const ShipperOptions& options = {});

  // Interrupts an upload in progress.
  ~StepShipper();

  using Statistics = ShippingStatistics;
  Statistics statistics() const;

  // Waits until the remote has the step as it is committed now. Returns
  // DeadlineExceeded with the error of the last attempt, and Cancelled when
  // this object is destroyed.
  absl::Status WaitShipped(int64_t step, absl::Time deadline);

  class Impl;
  explicit StepShipper(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// For ManagerOptions::ship.to: the manager's owner ships its steps to `url`, as
// a StepShipper does.
//
//   ManagerOptions options{.path = "checkpoints"};
//   options.ship.to = ShipTo("s3://models/ctr");
//
// CheckpointManager::Open returns the errors of StepShipper::Start.
internal::StartShipping ShipTo(absl::string_view url,
                               const ShipperOptions& options = {});

namespace internal {
// Opens an object store; the shipper has set the functions of `options`.
using OpenRemote = std::function<absl::StatusOr<std::unique_ptr<ObjectStore>>(
    const RemoteOptions& options)>;

// The same with any object store.
StartShipping ShipWith(OpenRemote open, const ShipperOptions& options);
absl::StatusOr<std::unique_ptr<StepShipper>> StartShipper(
    absl::string_view store, std::unique_ptr<ObjectStore> remote,
    const ShipperOptions& options);
}  // namespace internal

}  // namespace ckptdb

#endif  // CKPTDB_REMOTE_STEP_SHIPPER_H_
