// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "db/base/url_stores.h"
#include "remote/object_store.h"
#include "remote/read/remote_url_store.h"
#include "remote/remote_store.h"
#include "remote/urls.h"
#include "schema/status.h"

namespace ckptdb {

namespace {

absl::StatusOr<std::unique_ptr<internal::UrlStore>> OpenUrl(
    absl::string_view url, const UrlOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(auto remote, OpenObjectStore(url, options.remote));
  return internal::OpenRemoteUrlStore(std::move(remote), options);
}

// Otherwise a training would begin anew because a disk is not mounted.
absl::Status CheckFolderExists(absl::string_view url) {
  absl::string_view folder = url;
  std::error_code error;
  if (!absl::ConsumePrefix(&folder, "file://") ||
      std::filesystem::is_directory(std::string(folder), error)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("\"", folder,
                   "\" is not a folder; mount its disk, or create it for the "
                   "first run"));
}

absl::Status FetchUrl(absl::string_view url, absl::string_view to,
                      const std::function<bool()>& cancelled,
                      RemoteOptions options) {
  if (!options.cancelled) options.cancelled = cancelled;
  CKPTDB_ASSIGN_OR_RETURN(const auto remote, OpenObjectStore(url, options));
  CKPTDB_RETURN_IF_ERROR(CheckFolderExists(url));
  FetchOptions fetching;
  fetching.connections = options.connections;
  fetching.cancelled = cancelled;
  return FetchStore(remote.get(), to, fetching).status();
}

}  // namespace

void EnableUrls(const UrlOptions& options) {
  internal::SetUrlFunctions(
      [options](absl::string_view url) { return OpenUrl(url, options); },
      [options](absl::string_view url, absl::string_view to,
                const std::function<bool()>& cancelled) {
        return FetchUrl(url, to, cancelled, options.remote);
      });
}

}  // namespace ckptdb
