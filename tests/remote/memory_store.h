// SPDX-License-Identifier: Apache-2.0
// An ObjectStore in memory, with a clock that tests set, and hooks that fail
// calls before or after they take effect.
#ifndef CKPTDB_TESTS_REMOTE_MEMORY_STORE_H_
#define CKPTDB_TESTS_REMOTE_MEMORY_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "db/base/mutex.h"
#include "remote/object_store.h"

namespace ckptdb::testing {

class MemoryStore : public ObjectStore {
 public:
  struct Object {
    std::string bytes;
    absl::Time modified;
    std::string token;
  };
  // `call` is "put", "get", "head", "list" or "delete".
  using Hook = std::function<absl::Status(absl::string_view call,
                                          absl::string_view key)>;

  std::string Name() const override { return "memory://remote"; }
  absl::Status PutIfAbsent(absl::string_view key, absl::string_view bytes,
                           absl::string_view token) override;
  // Reads the file, unless `names_as_files`: then the path itself is the bytes.
  absl::Status PutFileIfAbsent(absl::string_view key, const std::string& path,
                               absl::string_view token) override;
  absl::Status Get(absl::string_view key, uint64_t offset,
                   absl::Span<char> out) override;
  absl::StatusOr<ObjectInfo> Head(absl::string_view key) override;
  absl::StatusOr<std::vector<ObjectInfo>> List(absl::string_view prefix,
                                               absl::string_view after,
                                               uint64_t limit) override;
  absl::Status Delete(absl::string_view key) override;
  absl::Status AbortUploads(absl::string_view prefix,
                            absl::Time before) override;

  // Not while calls run.
  void set_now(absl::Time now) { now_ = now; }
  void Advance(absl::Duration by) { now_ += by; }
  void set_names_as_files(bool on) { names_as_files_ = on; }
  // Ignores the condition of a put, as some services do.
  void set_overwrites(bool on) { overwrites_ = on; }
  // Lists tell this size of each object, unless it is 0.
  void set_listed_bytes(uint64_t bytes) { listed_bytes_ = bytes; }
  // Called before a call takes effect, and after it: an error is returned.
  void set_before(Hook hook) { before_ = std::move(hook); }
  void set_after(Hook hook) { after_ = std::move(hook); }
  std::map<std::string, Object>& objects() { return objects_; }
  // How often each call was made, and "put KEY..." by the first part of its
  // key.
  std::map<std::string, int>& calls() { return calls_; }

 private:
  absl::Status Before(absl::string_view call, absl::string_view key);
  absl::Status After(absl::string_view call, absl::string_view key);

  Hook before_;
  Hook after_;
  bool names_as_files_ = false;
  bool overwrites_ = false;
  uint64_t listed_bytes_ = 0;
  internal::Mutex mutex_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000'000);
  std::map<std::string, Object> objects_;
  std::map<std::string, int> calls_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_MEMORY_STORE_H_
