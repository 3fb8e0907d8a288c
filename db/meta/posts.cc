// SPDX-License-Identifier: Apache-2.0
#include "db/meta/posts.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/paths.h"
#include "db/base/uuid.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/meta/lease.h"
#include "db/rocks/database.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

std::string PostPath(const std::string& store, const std::string& name) {
  return absl::StrCat(PostsPath(store), "/", name);
}

// No save has attempt 0, so every sweep removes its folder.
std::string TakenPath(const std::string& store) {
  return absl::StrCat(store, "/", StagingOf(0));
}

// Reads a post and checks that its uuid is its file's name, under which it is
// removed. A file that is too large is not read.
absl::StatusOr<Post> ReadPost(rocksdb::FileSystem* files,
                              const std::string& path, const std::string& name,
                              const Entry& entry) {
  if (entry.bytes > kMaxSmallFileBytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", path, "\" has more than ", kMaxSmallFileBytes, " bytes"));
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(files, path));
  CKPTDB_ASSIGN_OR_RETURN(Post post, DecodePost(bytes));
  if (post.uuid == name) return post;
  return absl::DataLossError(
      absl::StrCat("post: uuid ", post.uuid, " does not match its file name"));
}

// Unusable posts come last, because they have no time.
bool IsBefore(const FoundPost& a, const FoundPost& b) {
  if (!a.post.ok() || !b.post.ok()) return a.post.ok() && !b.post.ok();
  return std::tie(a.post->posted_at_micros, a.name) <
         std::tie(b.post->posted_at_micros, b.name);
}

}  // namespace

absl::Status WritePost(rocksdb::FileSystem* files, const std::string& store,
                       const Post& post) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, EncodePost(post));
  if (bytes.size() > kMaxSmallFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a post with ", post.metrics.size(), " metrics takes ", bytes.size(),
        " bytes; the limit is ", kMaxSmallFileBytes));
  }
  const std::string path = PostPath(store, post.uuid);
  absl::Status status = ReplaceFile(files, path, bytes, /*sync=*/true);
  if (absl::IsNotFound(status)) {
    // An owner of an older version creates no folder, and a copy of a store may
    // lack it. It is not created if the store itself is gone.
    CKPTDB_RETURN_IF_ERROR(
        FromRocks(files->CreateDirIfMissing(PostsPath(store),
                                            rocksdb::IOOptions(), nullptr),
                  "creating the posts folder"));
    status = ReplaceFile(files, path, bytes, /*sync=*/true);
  }
  CKPTDB_RETURN_IF_ERROR(status);
  // The folder may be new, so its name is made durable, too: on return the post
  // must not be lost.
  return SyncFolder(files, store);
}

bool IsPostName(absl::string_view name) { return IsLeaseName(name); }

absl::StatusOr<std::vector<std::string>> ListPosts(rocksdb::FileSystem* files,
                                                   const std::string& store) {
  CKPTDB_ASSIGN_OR_RETURN(
      auto names, ListFolder(files, PostsPath(store), kMaxPostNamesAtOnce));
  std::erase_if(names,
                [](const std::string& name) { return !IsPostName(name); });
  // Random names follow the names that contain a time.
  std::stable_partition(names.begin(), names.end(), IsTimeUuid);
  if (names.size() > kMaxPostsAtOnce) names.resize(kMaxPostsAtOnce);
  return names;
}

std::vector<FoundPost> ReadPosts(rocksdb::FileSystem* files,
                                 const std::string& store,
                                 const std::vector<std::string>& names) {
  std::vector<FoundPost> found;
  uint64_t total = 0;
  for (const std::string& name : names) {
    const std::string path = PostPath(store, name);
    const absl::StatusOr<Entry> entry = LookAt(files, path);
    if (absl::IsNotFound(entry.status())) continue;
    if (!entry.ok()) {
      found.push_back({name, entry.status()});
      continue;
    }
    const bool readable = entry->bytes <= kMaxSmallFileBytes;
    if (readable) total += entry->bytes;
    if (total > kMaxPostBytesAtOnce) break;
    absl::StatusOr<Post> post = ReadPost(files, path, name, *entry);
    if (absl::IsNotFound(post.status())) continue;
    found.push_back({name, std::move(post)});
  }
  std::sort(found.begin(), found.end(), IsBefore);
  return found;
}

absl::Status ApplyPost(const Post& post, absl::string_view store_uuid,
                       StepRecord* record) {
  if (post.store_uuid != store_uuid) {
    return absl::NotFoundError(absl::StrCat("the post belongs to store ",
                                            post.store_uuid, ", expected ",
                                            store_uuid));
  }
  // A fold keeps the state, so the post still applies. An overwritten step is
  // another state, which these metrics do not describe.
  if (StateOf(*record) != post.version) {
    return absl::NotFoundError(
        absl::StrCat("step ", post.version.step,
                     " was overwritten after the post was made"));
  }
  size_t count = record->metrics.size();
  for (const auto& [name, value] : post.metrics) {
    if (!record->metrics.contains(name)) ++count;
  }
  if (count > kMaxMetrics) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " metrics; the limit is ", kMaxMetrics));
  }
  for (const auto& [name, value] : post.metrics) record->metrics[name] = value;
  record->pinned = (record->pinned || post.pin) && !post.unpin;
  if (post.lifetime != Post::Lifetime::kUnchanged) {
    record->ephemeral = post.lifetime == Post::Lifetime::kEphemeral;
  }
  return absl::OkStatus();
}

absl::Status RemovePost(rocksdb::FileSystem* files, const std::string& store,
                        const std::string& name) {
  const std::string path = PostPath(store, name);
  const absl::StatusOr<Entry> entry = LookAt(files, path);
  if (absl::IsNotFound(entry.status())) return absl::OkStatus();
  const bool folder = entry.ok() && (entry->kind == EntryKind::kFolder ||
                                     entry->kind == EntryKind::kMountPoint);
  if (folder) {
    return absl::FailedPreconditionError(
        absl::StrCat("\"", path, "\" is a folder; remove it"));
  }
  const rocksdb::IOStatus moved =
      files->RenameFile(path, absl::StrCat(TakenPath(store), "/", name),
                        rocksdb::IOOptions(), nullptr);
  return moved.ok() ? absl::OkStatus() : RemoveFile(files, path);
}

void MakeTakenPostsFolder(rocksdb::FileSystem* files,
                          const std::string& store) {
  MakeFolders(files, TakenPath(store)).IgnoreError();
}

absl::Status SyncPosts(rocksdb::FileSystem* files, const std::string& store) {
  return SyncFolder(files, PostsPath(store));
}

void CleanPosts(rocksdb::FileSystem* files, const std::string& store,
                int64_t now_micros, std::vector<Usage::SkippedEntry>* unswept) {
  const auto names = ListFolder(files, PostsPath(store));
  if (!names.ok()) {
    unswept->push_back({"posts", std::string(names.status().message())});
    return;
  }
  for (const std::string& name : *names) {
    if (IsPostName(name)) continue;  // left to the owner's next TakePosts
    const std::string path = PostPath(store, name);
    const std::string below = absl::StrCat("posts/", name);
    const absl::StatusOr<Entry> entry = LookAt(files, path);
    if (absl::IsNotFound(entry.status())) continue;
    absl::Status removed = entry.status();
    if (entry.ok()) {
      // A temporary file may be a post that is being written, so it stays for
      // an hour.
      const bool temporary =
          IsTemporaryName(name) && IsPostName(name.substr(0, name.find('.')));
      if (temporary && !IsAbandoned(*entry, now_micros)) continue;
      if (!temporary && entry->kind != EntryKind::kLink) {
        unswept->push_back({below, "it is not a post", /*foreign=*/true});
        continue;
      }
      removed = RemoveFile(files, path);
    }
    if (!removed.ok()) {
      unswept->push_back({below, std::string(removed.message())});
    }
  }
}

}  // namespace ckptdb::internal
