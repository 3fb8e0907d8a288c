// SPDX-License-Identifier: Apache-2.0
#include "tests/remote/memory_store.h"

#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb::testing {

// The hook runs without the mutex: it may wait for other threads.
absl::Status MemoryStore::Before(absl::string_view call,
                                 absl::string_view key) {
  {
    const internal::MutexLock lock(&mutex_);
    ++calls_[std::string(call)];
    ++calls_[absl::StrCat(call, " ", key.substr(0, key.find('/')))];
  }
  const Hook hook = before_;  // which may replace itself
  return hook ? hook(call, key) : absl::OkStatus();
}

absl::Status MemoryStore::After(absl::string_view call, absl::string_view key) {
  const Hook hook = after_;
  return hook ? hook(call, key) : absl::OkStatus();
}

absl::Status MemoryStore::PutIfAbsent(absl::string_view key,
                                      absl::string_view bytes,
                                      absl::string_view token) {
  CKPTDB_RETURN_IF_ERROR(Before("put", key));
  {
    const internal::MutexLock lock(&mutex_);
    const auto found = objects_.find(std::string(key));
    if (found != objects_.end() && !overwrites_) {
      if (found->second.token == token) return absl::OkStatus();
      return absl::AlreadyExistsError(absl::StrCat(key, " exists"));
    }
    objects_[std::string(key)] = {std::string(bytes), now_, std::string(token)};
  }
  return After("put", key);
}

absl::Status MemoryStore::PutFileIfAbsent(absl::string_view key,
                                          const std::string& path,
                                          absl::string_view token) {
  if (names_as_files_) return PutIfAbsent(key, path, token);
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(path);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return PutIfAbsent(key, bytes, token);
}

absl::Status MemoryStore::Get(absl::string_view key, uint64_t offset,
                              absl::Span<char> out) {
  CKPTDB_RETURN_IF_ERROR(Before("get", key));
  {
    const internal::MutexLock lock(&mutex_);
    const auto found = objects_.find(std::string(key));
    if (found == objects_.end()) {
      return absl::NotFoundError(absl::StrCat(key, " does not exist"));
    }
    const std::string& bytes = found->second.bytes;
    if (offset > bytes.size() || out.size() > bytes.size() - offset) {
      return absl::DataLossError(absl::StrCat(key, " is too short"));
    }
    bytes.copy(out.data(), out.size(), offset);
  }
  return After("get", key);
}

absl::StatusOr<ObjectInfo> MemoryStore::Head(absl::string_view key) {
  CKPTDB_RETURN_IF_ERROR(Before("head", key));
  ObjectInfo info;
  {
    const internal::MutexLock lock(&mutex_);
    const auto found = objects_.find(std::string(key));
    if (found == objects_.end()) {
      return absl::NotFoundError(absl::StrCat(key, " does not exist"));
    }
    const Object& object = found->second;
    info = {std::string(key), object.bytes.size(), object.modified,
            object.token};
  }
  CKPTDB_RETURN_IF_ERROR(After("head", key));
  return info;
}

absl::StatusOr<std::vector<ObjectInfo>> MemoryStore::List(
    absl::string_view prefix, absl::string_view after, uint64_t limit) {
  CKPTDB_RETURN_IF_ERROR(Before("list", prefix));
  std::vector<ObjectInfo> listed;
  {
    const internal::MutexLock lock(&mutex_);
    for (const auto& [key, object] : objects_) {
      if (!absl::StartsWith(key, prefix) || key <= std::string(after)) continue;
      if (listed.size() == limit) break;
      const uint64_t bytes =
          listed_bytes_ > 0 ? listed_bytes_ : object.bytes.size();
      listed.push_back({key, bytes, object.modified, ""});
    }
  }
  CKPTDB_RETURN_IF_ERROR(After("list", prefix));
  return listed;
}

absl::Status MemoryStore::Delete(absl::string_view key) {
  CKPTDB_RETURN_IF_ERROR(Before("delete", key));
  {
    const internal::MutexLock lock(&mutex_);
    objects_.erase(std::string(key));
  }
  return After("delete", key);
}

// A put here is never begun without being completed.
absl::Status MemoryStore::AbortUploads(absl::string_view prefix, absl::Time) {
  return Before("abort", prefix);
}

}  // namespace ckptdb::testing
