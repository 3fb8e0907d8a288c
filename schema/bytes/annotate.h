// SPDX-License-Identifier: Apache-2.0
// Annotate adds context to an error; internal to the library.
#ifndef CKPTDB_SCHEMA_BYTES_ANNOTATE_H_
#define CKPTDB_SCHEMA_BYTES_ANNOTATE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Returns `status` with "context: " before its message.
inline absl::Status Annotate(const absl::Status& status,
                             absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(context, ": ", status.message()));
}

template <typename T>
absl::StatusOr<T> Annotate(absl::StatusOr<T> result,
                           absl::string_view context) {
  if (result.ok()) return result;
  return Annotate(result.status(), context);
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_BYTES_ANNOTATE_H_
