// SPDX-License-Identifier: Apache-2.0
// Checks that a service meets ObjectStore's requirements; internal to remote/.
#ifndef CKPTDB_REMOTE_PROBE_PROBE_OBJECT_STORE_H_
#define CKPTDB_REMOTE_PROBE_PROBE_OBJECT_STORE_H_

#include "absl/status/status.h"
#include "remote/object_store.h"

namespace ckptdb::internal {

// Puts an object with a random name below "probe/", and puts another one under
// the same key, which the service must refuse; looks at its token, reads a
// range of it, lists it, and deletes it. Returns FailedPrecondition if the
// service does not do what the store needs, such as one that ignores
// "If-None-Match: *", and the error of a call that fails.
//
// Makes two puts, two heads, two ranged gets, one list and one delete.
absl::Status ProbeObjectStore(ObjectStore& store);

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_PROBE_PROBE_OBJECT_STORE_H_
