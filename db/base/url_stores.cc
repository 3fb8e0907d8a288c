// SPDX-License-Identifier: Apache-2.0
#include "db/base/url_stores.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {
namespace {

struct SharedFunctions {
  Mutex mutex;
  UrlFunctions functions ABSL_GUARDED_BY(mutex);
};

// Never destroyed, because readers may be opened at exit().
SharedFunctions& Shared() {
  static auto* const kShared = new SharedFunctions();
  return *kShared;
}

absl::StatusOr<UrlFunctions> FunctionsFor(absl::string_view url) {
  const MutexLock lock(&Shared().mutex);
  if (Shared().functions.open) return Shared().functions;
  return absl::FailedPreconditionError(
      absl::StrCat("\"", url,
                   "\" is a URL, which this process does not read; call "
                   "EnableUrls() of the library ckptdb::remote first"));
}

}  // namespace

bool IsUrl(absl::string_view path) {
  const absl::string_view scheme = path.substr(0, path.find("://"));
  return scheme.size() < path.size() && !scheme.empty() &&
         absl::ascii_isalpha(scheme.front()) &&
         std::all_of(scheme.begin(), scheme.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '+' || c == '-' || c == '.';
         });
}

void SetUrlFunctions(UrlFunctions functions) {
  const MutexLock lock(&Shared().mutex);
  Shared().functions = std::move(functions);
}

absl::StatusOr<std::unique_ptr<UrlStore>> OpenUrlStore(absl::string_view url) {
  absl::StatusOr<UrlFunctions> functions = FunctionsFor(url);
  if (!functions.ok()) return functions.status();
  return functions->open(url);
}

absl::Status FetchUrlStore(absl::string_view url, absl::string_view to,
                           const std::function<bool()>& cancelled) {
  absl::StatusOr<UrlFunctions> functions = FunctionsFor(url);
  if (!functions.ok()) return functions.status();
  return functions->fetch(url, to, cancelled);
}

absl::StatusOr<UrlStep> NewestUrlStep(absl::string_view url,
                                      const std::function<bool()>& cancelled) {
  absl::StatusOr<UrlFunctions> functions = FunctionsFor(url);
  if (!functions.ok()) return functions.status();
  return functions->newest(url, cancelled);
}

absl::Status NotAFolder(absl::string_view url) {
  return absl::FailedPreconditionError(
      absl::StrCat("\"", url,
                   "\" is a URL, which can only be read; give the path of a "
                   "folder, and ship its steps to the URL, or create a store "
                   "from it with \"ckptdb remote fetch URL STORE\""));
}

}  // namespace ckptdb::internal
