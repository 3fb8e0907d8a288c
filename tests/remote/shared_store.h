// SPDX-License-Identifier: Apache-2.0
// An ObjectStore whose objects belong to the test.
#ifndef CKPTDB_TESTS_REMOTE_SHARED_STORE_H_
#define CKPTDB_TESTS_REMOTE_SHARED_STORE_H_

#include <string>
#include <vector>

#include "tests/remote/memory_store.h"

namespace ckptdb::testing {

class SharedStore : public ObjectStore {
 public:
  explicit SharedStore(MemoryStore* store) : store_(store) {}
  std::string Name() const override { return store_->Name(); }
  absl::Status PutIfAbsent(absl::string_view key, absl::string_view bytes,
                           absl::string_view token) override {
    return store_->PutIfAbsent(key, bytes, token);
  }
  absl::Status PutFileIfAbsent(absl::string_view key, const std::string& path,
                               absl::string_view token) override {
    return store_->PutFileIfAbsent(key, path, token);
  }
  absl::Status Get(absl::string_view key, uint64_t offset,
                   absl::Span<char> out) override {
    return store_->Get(key, offset, out);
  }
  absl::StatusOr<ObjectInfo> Head(absl::string_view key) override {
    return store_->Head(key);
  }
  absl::StatusOr<std::vector<ObjectInfo>> List(absl::string_view prefix,
                                               absl::string_view after,
                                               uint64_t limit) override {
    return store_->List(prefix, after, limit);
  }
  absl::Status Delete(absl::string_view key) override {
    return store_->Delete(key);
  }
  absl::Status AbortUploads(absl::string_view prefix,
                            absl::Time before) override {
    return store_->AbortUploads(prefix, before);
  }

 private:
  MemoryStore* const store_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_SHARED_STORE_H_
