// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "db/base/call_guard.h"
#include "db/base/resolve_path.h"
#include "remote/folder/folder_store.h"
#include "remote/object_store.h"
#include "schema/status.h"
#ifdef CKPTDB_HAS_S3
#include "remote/s3/open_s3.h"
#endif

namespace ckptdb {
namespace {

// Returns the URL for a message, without a password that it may contain.
std::string Shown(absl::string_view url) {
  const size_t begin = url.find("://");
  const size_t at = url.rfind('@');
  if (begin == absl::string_view::npos || at == absl::string_view::npos ||
      at < begin) {
    return std::string(url);
  }
  return absl::StrCat(url.substr(0, begin), "://***", url.substr(at));
}

absl::StatusOr<std::unique_ptr<ObjectStore>> Open(
    absl::string_view url, const RemoteOptions& options) {
  absl::string_view path = url;
  if (absl::ConsumePrefix(&path, "file://") && absl::StartsWith(path, "/")) {
    CKPTDB_ASSIGN_OR_RETURN(const std::string folder,
                            internal::ResolvePath(path));
    if (folder.find_first_not_of('/') == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", url,
          "\" is the root folder; use a folder for this remote alone, such as ",
          "\"file:///mnt/backup/ctr\""));
    }
    return internal::OpenFolderStore(folder, options);
  }
  if (absl::StartsWith(url, "s3://")) {
#ifdef CKPTDB_HAS_S3
    return internal::OpenS3(url, options);
#else
    return absl::UnimplementedError(
        absl::StrCat("\"", Shown(url),
                     "\": this ckptdb was built without libcurl, which s3:// "
                     "needs; build it with CKPTDB_REMOTE=ON"));
#endif
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", Shown(url),
                   "\" is not the URL of a remote; expected "
                   "\"s3://bucket/prefix\" or \"file:///folder\""));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenObjectStore(
    absl::string_view url, const RemoteOptions& options) {
  return internal::CallGuarded("OpenObjectStore",
                               [&] { return Open(url, options); });
}

}  // namespace ckptdb
