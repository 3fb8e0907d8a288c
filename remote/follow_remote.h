// SPDX-License-Identifier: Apache-2.0
// Keeps a local copy of a remote's newest steps, for evaluators and servers on
// another machine.
//
//   FollowOptions options;
//   options.fetch.keep = 3;
//   options.fetch.cancelled = [&] { return stopped.load(); };
//   CKPTDB_RETURN_IF_ERROR(FollowRemote(remote.get(), "copy", options));
//
// Readers follow the copy as they follow a trainer's store: see db/reader.h.
#ifndef CKPTDB_REMOTE_FOLLOW_REMOTE_H_
#define CKPTDB_REMOTE_FOLLOW_REMOTE_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "remote/object_store.h"
#include "remote/remote_store.h"

namespace ckptdb {

struct FollowOptions {
  // `update` is always set. `cancelled` ends the call.
  FetchOptions fetch = {};
  absl::Duration look = absl::Seconds(1);  // how often it looks for steps
  // The time between attempts after an error, doubled each time, with jitter.
  absl::Duration first_retry = absl::Seconds(1);
  absl::Duration most_retry = absl::Minutes(1);
  // Called after each fetch that added, revised or removed steps.
  std::function<void(const FetchResult& fetched)> on_fetched = {};
  // Called with each error that differs from the previous one, and with OK when
  // a look succeeds after an error.
  std::function<void(const absl::Status& status)> on_status = {};
};

// Fetches steps to the store at `to` as they are shipped, as FetchStore with
// FetchOptions::update does, until `fetch.cancelled` returns true; then returns
// OK. A look that finds nothing new takes one request. Waits while nothing was
// shipped. Retries after errors of the service, while the store has another
// owner, and while the disk is full. Returns FetchStore's InvalidArgument,
// AlreadyExists and FailedPrecondition, because a retry would fail alike, and
// InvalidArgument for durations that are not positive.
absl::Status FollowRemote(ObjectStore* remote, absl::string_view to,
                          const FollowOptions& options);

}  // namespace ckptdb

#endif  // CKPTDB_REMOTE_FOLLOW_REMOTE_H_
