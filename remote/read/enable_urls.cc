// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
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
#include "absl/time/time.h"
#include "db/base/url_stores.h"
#include "manager/internal/url_shipping.h"
#include "remote/object_store.h"
#include "remote/read/remote_url_store.h"
#include "remote/remote_store.h"
#include "remote/step_shipper.h"
#include "remote/urls.h"
#include "schema/status.h"

namespace ckptdb {

namespace {

using internal::OpenUrlObjects;

absl::StatusOr<std::unique_ptr<internal::UrlStore>> OpenUrl(
    absl::string_view url, const OpenUrlObjects& open,
    const UrlOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(auto remote, open(url, options.remote));
  return internal::OpenRemoteUrlStore(std::move(remote), options);
}

// Without this check, training would start over, or continue from older steps,
// if a disk is not mounted.
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
                      const OpenUrlObjects& open, RemoteOptions options) {
  if (!options.cancelled) options.cancelled = cancelled;
  CKPTDB_ASSIGN_OR_RETURN(const auto remote, open(url, options));
  CKPTDB_RETURN_IF_ERROR(CheckFolderExists(url));
  FetchOptions fetching;
  fetching.connections = options.connections;
  fetching.cancelled = cancelled;
  return FetchStore(remote.get(), to, fetching).status();
}

absl::StatusOr<internal::UrlStep> NewestAtUrl(
    absl::string_view url, const std::function<bool()>& cancelled,
    const OpenUrlObjects& open, RemoteOptions options) {
  constexpr absl::Duration kLongest = absl::Seconds(10);
  options.deadline = std::min(options.deadline, kLongest);
  if (!options.cancelled) options.cancelled = cancelled;
  CKPTDB_ASSIGN_OR_RETURN(const auto remote, open(url, options));
  CKPTDB_RETURN_IF_ERROR(CheckFolderExists(url));
  CKPTDB_ASSIGN_OR_RETURN(const RemoteContent content,
                          ListRemote(remote.get()));
  for (const RemoteStep& step : content.steps) {
    if (step.version.step != content.latest_step) continue;
    return internal::UrlStep{step.version, step.committed_at_micros};
  }
  return absl::NotFoundError(absl::StrCat("\"", url, "\" has no steps"));
}

// A manager's shipping uses only the options of its `ship`, not those of
// EnableUrls.
internal::StartShipping ShippingOf(const internal::UrlShipping& shipping,
                                   const OpenUrlObjects& open) {
  ShipperOptions options;
  options.remote.deadline = shipping.deadline;
  options.remote.connections = shipping.connections;
  options.remote.bytes_per_second = shipping.bytes_per_second;
  options.take_over = shipping.take_over;
  options.look = shipping.look;
  options.first_retry = shipping.first_retry;
  options.most_retry = shipping.most_retry;
  options.retention = shipping.retention;
  options.grace = shipping.grace;
  options.collect_every = shipping.collect_every;
  return internal::ShipWith(
      [open, url = shipping.url](const RemoteOptions& hooked) {
        return open(url, hooked);
      },
      options);
}

}  // namespace

void EnableUrls(const UrlOptions& options) {
  internal::EnableUrlsWith(OpenObjectStore, options);
}

void internal::EnableUrlsWith(const OpenUrlObjects& open,
                              const UrlOptions& options) {
  SetUrlFunctions(
      {.open =
           [=](absl::string_view url) { return OpenUrl(url, open, options); },
       .fetch =
           [=](absl::string_view url, absl::string_view to,
               const std::function<bool()>& cancelled) {
             return FetchUrl(url, to, cancelled, open, options.remote);
           },
       .newest =
           [=](absl::string_view url, const std::function<bool()>& cancelled) {
             return NewestAtUrl(url, cancelled, open, options.remote);
           }});
  SetMakeShipping(
      [=](const UrlShipping& shipping) { return ShippingOf(shipping, open); });
}

}  // namespace ckptdb
