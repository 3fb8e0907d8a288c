// SPDX-License-Identifier: Apache-2.0
// Stores that are named by a URL instead of a path; internal to the library.
// db/ opens them without knowing the services that have them.
#ifndef CKPTDB_DB_BASE_URL_STORES_H_
#define CKPTDB_DB_BASE_URL_STORES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/types.h"

namespace ckptdb::internal {

class Environment;

// A store for reading. Thread-safe.
class UrlStore {
 public:
  virtual ~UrlStore() = default;

  // The store's path in its environment, which is the URL without credentials.
  virtual const std::string& path() const = 0;
  virtual const std::shared_ptr<Environment>& environment() const = 0;
  // Brings the records up to date with the service.
  virtual absl::Status Refresh() = 0;
};

// Returns whether this begins with a scheme and "://", such as "s3://...". The
// scheme may be unknown: a path such as "gs://models" is likely a mistake.
bool IsUrl(absl::string_view path);

using UrlOpener = std::function<absl::StatusOr<std::unique_ptr<UrlStore>>(
    absl::string_view url)>;

// Makes a store with the newest step at a path that does not exist. Returns
// NotFound if nothing was shipped to the URL. `cancelled` may be empty.
using UrlFetcher =
    std::function<absl::Status(absl::string_view url, absl::string_view to,
                               const std::function<bool()>& cancelled)>;

struct UrlStep {
  Version version = {};
  int64_t committed_at_micros = 0;  // since 1970, UTC
};

// Returns the step that UrlFetcher fetches, without waiting long for a service
// that is down. Returns NotFound if nothing was shipped to the URL.
using UrlNewest = std::function<absl::StatusOr<UrlStep>(
    absl::string_view url, const std::function<bool()>& cancelled)>;

struct UrlFunctions {
  UrlOpener open = {};
  UrlFetcher fetch = {};
  UrlNewest newest = {};
};

// Sets the functions for URLs from now on. Thread-safe.
void SetUrlFunctions(UrlFunctions functions);

// Call these functions. Return FailedPrecondition with the remedy if none are
// set.
absl::StatusOr<std::unique_ptr<UrlStore>> OpenUrlStore(absl::string_view url);
absl::Status FetchUrlStore(absl::string_view url, absl::string_view to,
                           const std::function<bool()>& cancelled);
absl::StatusOr<UrlStep> NewestUrlStep(absl::string_view url,
                                      const std::function<bool()>& cancelled);

// Returns the error of a call that needs a folder and was given a URL.
absl::Status NotAFolder(absl::string_view url);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_URL_STORES_H_
