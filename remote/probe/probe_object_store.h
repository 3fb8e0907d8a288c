// SPDX-License-Identifier: Apache-2.0
// Checks that a service meets ObjectStore's requirements; internal to remote/.
#ifndef CKPTDB_REMOTE_PROBE_PROBE_OBJECT_STORE_H_
#define CKPTDB_REMOTE_PROBE_PROBE_OBJECT_STORE_H_

#include "absl/status/status.h"
#include "remote/object_store.h"

namespace ckptdb::internal {

// Writes an object with a random name below "probe/", checks that a second put
// to the same key is refused, reads the token and a range back, lists the
// object and deletes it. Returns FailedPrecondition if the service does not do
// what the store needs, such as one that ignores "If-None-Match: *", and the
// error of a call that fails.
//
// Makes two puts, two heads, two ranged gets, one list and one delete.
absl::Status ProbeObjectStore(ObjectStore& store);

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_PROBE_PROBE_OBJECT_STORE_H_
