// SPDX-License-Identifier: Apache-2.0
#include "db/base/paths.h"

#include "absl/strings/str_cat.h"

namespace ckptdb::internal {

std::string DatabasePath(absl::string_view store) {
  return absl::StrCat(store, "/db");
}
std::string StagingPath(absl::string_view store) {
  return absl::StrCat(store, "/staging");
}
std::string LeasesPath(absl::string_view store) {
  return absl::StrCat(store, "/leases");
}
std::string PostsPath(absl::string_view store) {
  return absl::StrCat(store, "/posts");
}
std::string ShippedNotePath(absl::string_view store) {
  return absl::StrCat(store, "/SHIPPED");
}
std::string StagingOf(uint32_t attempt) {
  return absl::StrCat("staging/", attempt);
}

}  // namespace ckptdb::internal
