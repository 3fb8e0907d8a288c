#include "ckptdb/db/meta/posts.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/base/paths.h"
#include "ckptdb/db/disk/files.h"
#include "ckptdb/db/disk/rocks_status.h"
#include "ckptdb/db/meta/lease.h"
#include "ckptdb/db/rocks/database.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

std::string PostPath(const std::string& store, const std::string& name) {
  return absl::StrCat(PostsPath(store), "/", name);
}

// Reads a post and checks that it has the name of its file, by which it is
// removed.
absl::StatusOr<Post> ReadPost(rocksdb::FileSystem* files,
                              const std::string& store,
                              const std::string& name) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                          ReadFile(files, PostPath(store, name)));
  CKPTDB_ASSIGN_OR_RETURN(Post post, DecodePost(bytes));
  if (post.uuid == name) return post;
  return absl::DataLossError(
      absl::StrCat("post: uuid ", post.uuid, " does not match its file name"));
}

// Posts that cannot be used come last, as they tell no time.
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
        "a post of ", post.metrics.size(), " metrics has ", bytes.size(),
        " bytes; the limit is ", kMaxSmallFileBytes));
  }
  const std::string path = PostPath(store, post.uuid);
  absl::Status status = ReplaceFile(files, path, bytes, /*sync=*/true);
  if (absl::IsNotFound(status)) {
    // An owner of an older version has made no folder, and a copy of a store
    // may be without it. None is made where the store itself is gone.
    CKPTDB_RETURN_IF_ERROR(FromRocks(
        files->CreateDir(PostsPath(store), rocksdb::IOOptions(), nullptr),
        "making the folder of posts"));
    status = ReplaceFile(files, path, bytes, /*sync=*/true);
  }
  CKPTDB_RETURN_IF_ERROR(status);
  // The folder of posts may have been made just now, so its name is made
  // durable, too: the call promises that the post is not lost.
  return SyncFolder(files, store);
}

bool IsPostName(absl::string_view name) { return IsLeaseName(name); }

absl::StatusOr<std::vector<FoundPost>> ReadPosts(rocksdb::FileSystem* files,
                                                 const std::string& store) {
  CKPTDB_ASSIGN_OR_RETURN(const auto names,
                          ListFolder(files, PostsPath(store)));
  // A heap of the first posts, the last of them on top. All are read, as a name
  // does not tell when its post was made, and no later one may be taken first.
  std::vector<FoundPost> found;
  for (const std::string& name : names) {
    if (!IsPostName(name)) continue;
    absl::StatusOr<Post> post = ReadPost(files, store, name);
    if (absl::IsNotFound(post.status())) continue;
    found.push_back({name, std::move(post)});
    std::push_heap(found.begin(), found.end(), IsBefore);
    if (found.size() <= kMaxPostsAtOnce) continue;
    std::pop_heap(found.begin(), found.end(), IsBefore);
    found.pop_back();
  }
  std::sort_heap(found.begin(), found.end(), IsBefore);
  return found;
}

absl::Status RemovePost(rocksdb::FileSystem* files, const std::string& store,
                        const std::string& name) {
  // The folder is synced, so that a post that was removed does not come back in
  // front of a later one.
  CKPTDB_RETURN_IF_ERROR(RemoveFile(files, PostPath(store, name)));
  return SyncFolder(files, PostsPath(store));
}

void CleanPosts(rocksdb::FileSystem* files, const std::string& store,
                int64_t now_micros, std::vector<Usage::Unswept>* unswept) {
  const auto names = ListFolder(files, PostsPath(store));
  if (!names.ok()) {
    unswept->push_back({"posts", std::string(names.status().message())});
    return;
  }
  for (const std::string& name : *names) {
    if (IsPostName(name)) continue;  // the owner's next look is for it
    const std::string path = PostPath(store, name);
    const std::string below = absl::StrCat("posts/", name);
    const absl::StatusOr<Entry> entry = LookAt(files, path);
    if (absl::IsNotFound(entry.status())) continue;
    absl::Status removed = entry.status();
    if (entry.ok()) {
      // A temporary file may be a post that is being written. It is left alone
      // for an hour.
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
