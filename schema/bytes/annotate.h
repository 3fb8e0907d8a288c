// SPDX-License-Identifier: Apache-2.0
// Adds context to an error and keeps its payloads; internal to the library.
#ifndef CKPTDB_SCHEMA_BYTES_ANNOTATE_H_
#define CKPTDB_SCHEMA_BYTES_ANNOTATE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Returns an error with this code and message, and with the payloads of
// `status`: the caller's code may have set them, and looks for them in the
// error that a call of the library returns.
inline absl::Status Reword(const absl::Status& status, absl::StatusCode code,
                           absl::string_view message) {
  absl::Status reworded(code, message);
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    reworded.SetPayload(url, payload);
  });
  return reworded;
}

// Returns `status` with "context: " before its message.
inline absl::Status Annotate(const absl::Status& status,
                             absl::string_view context) {
  if (status.ok()) return status;
  return Reword(status, status.code(),
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
