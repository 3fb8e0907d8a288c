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
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "remote/object_store.h"
#include "remote/remote_store.h"

namespace ckptdb {

struct ShipperOptions {
  RemoteOptions remote = {};
  bool take_over = false;                  // PushOptions::take_over, once
  absl::Duration look = absl::Seconds(1);  // how often it looks for steps
  // Between attempts after an error: doubled each time, with jitter.
  absl::Duration first_retry = absl::Seconds(1);
  absl::Duration most_retry = absl::Minutes(1);
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

  struct Statistics {
    std::vector<int64_t> waiting;  // committed steps that were not shipped
    uint64_t shipped_steps = 0;    // by this object
    uint64_t shipped_bytes = 0;    // of data objects
    int64_t newest_shipped = -1;   // step; -1 before the first
    absl::Duration lag;            // since the oldest waiting step's commit
    uint64_t failures = 0;         // since the last success
    absl::Status last_error;       // of the last attempt; OK if it succeeded
  };
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

namespace internal {
// The same with an object store.
absl::StatusOr<std::unique_ptr<StepShipper>> StartShipper(
    absl::string_view store, std::unique_ptr<ObjectStore> remote,
    const ShipperOptions& options);
}  // namespace internal

}  // namespace ckptdb

#endif  // CKPTDB_REMOTE_STEP_SHIPPER_H_
