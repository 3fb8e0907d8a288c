// SPDX-License-Identifier: Apache-2.0
// URLs in place of paths: readers of a remote that download nothing but what
// they read.
//
//   EnableUrls();
//   CKPTDB_ASSIGN_OR_RETURN(auto reader, Reader::Open("s3://models/ctr"));
//   CKPTDB_ASSIGN_OR_RETURN(auto step, reader->OpenStep(1000));
#ifndef CKPTDB_REMOTE_URLS_H_
#define CKPTDB_REMOTE_URLS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "remote/object_store.h"

namespace ckptdb {

struct UrlOptions {
  RemoteOptions remote = {};  // of each reader
  // Data that a reader keeps in memory, the last used.
  uint64_t memory_bytes = uint64_t{256} << 20;
};

// From now on, Reader::Open takes URLs (see OpenObjectStore), and so does what
// opens readers: RestoreRequest::path, the path of a read-only manager, and
// ManagerOptions::restore.fetch_from; and managers ship their steps to the URL
// that a configuration has as `ship`. Thread-safe.
//
// A reader downloads the records of all steps when it opens, and then ranges of
// data files as calls read them: up to 8 MiB at a time, and as many at once as
// a call has threads. Errors of the service are those of ObjectStore. Blocks
// are compared with their checksums, as in a folder. The reader writes nothing:
// it has no leases, so a step that a collection deletes while it is read
// returns Aborted, and posts, pins and GetUsage return FailedPrecondition.
// Refresh and OpenStep look for steps that were shipped meanwhile.
void EnableUrls(const UrlOptions& options = {});

namespace internal {
// Opens an object store, as OpenObjectStore does.
using OpenUrlObjects =
    std::function<absl::StatusOr<std::unique_ptr<ObjectStore>>(
        absl::string_view url, const RemoteOptions& options)>;

// The same, with `open` in place of OpenObjectStore.
void EnableUrlsWith(const OpenUrlObjects& open, const UrlOptions& options);
}  // namespace internal

}  // namespace ckptdb

#endif  // CKPTDB_REMOTE_URLS_H_
