// SPDX-License-Identifier: Apache-2.0
#include "manager/internal/url_shipping.h"

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {
namespace {

struct SharedMaker {
  Mutex mutex;
  MakeShipping make ABSL_GUARDED_BY(mutex);
};

// Never destroyed, because managers may be opened at exit().
SharedMaker& Maker() {
  static auto* const kMaker = new SharedMaker();
  return *kMaker;
}

absl::StatusOr<MakeShipping> MakerFor(const std::string& url) {
  const MutexLock lock(&Maker().mutex);
  if (Maker().make) return Maker().make;
  return absl::FailedPreconditionError(
      absl::StrCat("this process cannot ship steps to \"", url,
                   "\"; link the library ckptdb::remote, and call its "
                   "EnableUrls() first"));
}

}  // namespace

void SetMakeShipping(MakeShipping make) {
  const MutexLock lock(&Maker().mutex);
  Maker().make = std::move(make);
}

StartShipping ShipToUrl(UrlShipping shipping) {
  return [shipping = std::move(shipping)](
             const std::string& path,
             std::function<void(const ShipReport& report)> on_shipped)
             -> absl::StatusOr<std::shared_ptr<StepShipping>> {
    const absl::StatusOr<MakeShipping> make = MakerFor(shipping.url);
    if (!make.ok()) return make.status();
    return (*make)(shipping)(path, std::move(on_shipped));
  };
}

}  // namespace ckptdb::internal
