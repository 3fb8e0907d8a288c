// SPDX-License-Identifier: Apache-2.0
// The key `ship` of a configuration, with which a manager ships its steps to a
// URL. EnableUrls of ckptdb::remote sets the function that does. Not for users.
#ifndef CKPTDB_MANAGER_INTERNAL_URL_SHIPPING_H_
#define CKPTDB_MANAGER_INTERNAL_URL_SHIPPING_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "manager/internal/step_shipping.h"
#include "manager/policies.h"

namespace ckptdb::internal {

// Fields have the meanings and defaults of RemoteOptions and ShipperOptions.
struct UrlShipping {
  std::string url;
  absl::Duration deadline = absl::Minutes(5);
  int connections = 8;
  uint64_t bytes_per_second = 0;
  bool take_over = false;
  absl::Duration look = absl::Seconds(1);
  absl::Duration first_retry = absl::Seconds(1);
  absl::Duration most_retry = absl::Minutes(1);
  std::optional<RetentionOptions> retention = {};
  absl::Duration grace = absl::Hours(24);
  absl::Duration collect_every = absl::Hours(1);
};

using MakeShipping = std::function<StartShipping(const UrlShipping& shipping)>;

// Sets the function that ShipToUrl calls. Thread-safe.
void SetMakeShipping(MakeShipping make);

// Returns a function that calls it when a manager opens, or returns
// FailedPrecondition with the remedy if it is not set by then.
StartShipping ShipToUrl(UrlShipping shipping);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_INTERNAL_URL_SHIPPING_H_
