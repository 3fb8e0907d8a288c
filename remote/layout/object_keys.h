// SPDX-License-Identifier: Apache-2.0
// The keys of the objects of a remote; internal to remote/. docs/remote.md
// explains them.
//
//   format
//   catalog/18446744073709551614             number 1
//   versions/<epoch16>/<step19>-<attempt10>-<revision6>
//   data/<epoch16>/<step19>-<attempt10>-<number6>
//   probe/<uuid>                             and endings such as "-a"
#ifndef CKPTDB_REMOTE_LAYOUT_OBJECT_KEYS_H_
#define CKPTDB_REMOTE_LAYOUT_OBJECT_KEYS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/types.h"

namespace ckptdb::internal {

inline constexpr absl::string_view kFormatKey = "format";
inline constexpr absl::string_view kCatalogPrefix = "catalog/";
inline constexpr absl::string_view kVersionsPrefix = "versions/";
inline constexpr absl::string_view kDataPrefix = "data/";
inline constexpr absl::string_view kProbePrefix = "probe/";

// A higher number gives a lower key, so that a list of one key, in the order of
// bytes, finds the newest catalog.
std::string CatalogKey(uint64_t number);
// Return DataLoss for a key that ckptdb does not write.
absl::StatusOr<uint64_t> ParseCatalogKey(absl::string_view key);

// Names an object of a version. `number` is the revision of a version object,
// or that of a data object within its version.
struct ObjectName {
  uint64_t epoch = 1;
  Version version;
  uint32_t number = 0;
};

// Whether a probe or "doctor" writes this key: a uuid and a short ending.
bool IsProbeKey(absl::string_view key);

std::string VersionObjectKey(const ObjectName& name);
std::string DataObjectKey(const ObjectName& name);
absl::StatusOr<ObjectName> ParseVersionObjectKey(absl::string_view key);
absl::StatusOr<ObjectName> ParseDataObjectKey(absl::string_view key);

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_LAYOUT_OBJECT_KEYS_H_
