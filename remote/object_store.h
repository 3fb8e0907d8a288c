// SPDX-License-Identifier: Apache-2.0
// ObjectStore: what ckptdb::remote needs of a service that keeps objects by
// key, such as S3, or a folder.
//
// Keys have parts of [A-Za-z0-9._-] separated by '/'; none is empty, "." or
// "..". Calls are synchronous and thread-safe. They retry what may succeed
// later, until the store's deadline, so that an error is final for the caller:
//
//   NotFound            there is no such object (Get, Head)
//   AlreadyExists       a conditional put found an object under its key
//   PermissionDenied    credentials are wrong, or do not allow the call
//   FailedPrecondition  the service lacks what the call needs
//   Unavailable         there was no answer until the deadline. A put may have
//                       been done: its token shows it (ObjectInfo::token)
//   Cancelled           RemoteOptions::cancelled returned true
//   DataLoss            an answer was shorter or longer than announced
#ifndef CKPTDB_REMOTE_OBJECT_STORE_H_
#define CKPTDB_REMOTE_OBJECT_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace ckptdb {

struct ObjectInfo {
  std::string key;
  uint64_t size = 0;
  absl::Time modified;  // by the service's clock
  // Identifies the put that wrote the object. Set by Head only.
  std::string token = {};
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Names the store in messages: a URL without credentials.
  virtual std::string Name() const = 0;

  // Writes an object unless `key` exists, and stores the token with it. Returns
  // OK if a retry finds an object with the same token.
  virtual absl::Status PutIfAbsent(absl::string_view key,
                                   absl::string_view bytes,
                                   absl::string_view token) = 0;

  // The same for the file at `path`, which must not change meanwhile: in parts,
  // several at a time, where it is large.
  virtual absl::Status PutFileIfAbsent(absl::string_view key,
                                       const std::string& path,
                                       absl::string_view token) = 0;

  // Reads `out.size()` bytes from `offset`: DataLoss if the object has fewer.
  virtual absl::Status Get(absl::string_view key, uint64_t offset,
                           absl::Span<char> out) = 0;

  virtual absl::StatusOr<ObjectInfo> Head(absl::string_view key) = 0;

  // At most `limit` objects whose keys begin with `prefix` and come after
  // `after`, in the order of their bytes; fewer only at the end. `prefix` ends
  // with '/', and all keys below it have the same number of parts.
  virtual absl::StatusOr<std::vector<ObjectInfo>> List(absl::string_view prefix,
                                                       absl::string_view after,
                                                       uint64_t limit) = 0;

  // Deletes an object. Returns OK if it does not exist.
  virtual absl::Status Delete(absl::string_view key) = 0;

  // Ends uploads of PutFileIfAbsent below `prefix` that were begun before
  // `before` and never completed.
  virtual absl::Status AbortUploads(absl::string_view prefix,
                                    absl::Time before) = 0;
};

struct RemoteOptions {
  // Limits a call including its retries, or each request of a multipart
  // upload. A transfer that makes progress is not interrupted.
  absl::Duration deadline = absl::Minutes(5);
  int connections = 8;            // at most, at a time
  uint64_t bytes_per_second = 0;  // all connections together; 0: no limit
  std::function<bool()> cancelled = {};  // polled at least each second
  // Called before a request is repeated, with the reason, on any thread.
  std::function<void(const absl::Status& error)> on_retry = {};
};

// Opens "s3://bucket/prefix" or "file:///folder" (created by the first put).
// Keys of the result are below the prefix. Returns InvalidArgument for another
// URL, and Unimplemented for s3:// where the library was built without libcurl.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenObjectStore(
    absl::string_view url, const RemoteOptions& options = {});

}  // namespace ckptdb

#endif  // CKPTDB_REMOTE_OBJECT_STORE_H_
