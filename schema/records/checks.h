// SPDX-License-Identifier: Apache-2.0
// Checks shared by several records; internal to schema/. Each returns DataLoss
// with the kind of the record, the field and its value.
#ifndef CKPTDB_SCHEMA_RECORDS_CHECKS_H_
#define CKPTDB_SCHEMA_RECORDS_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/records/envelope.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Requires a step of at least 0 and an attempt of at least 1.
absl::Status CheckVersion(RecordKind kind, absl::string_view field,
                          const Version& version);

// Require 1 to kMaxWorldSize ranks, and a rank below the world size.
absl::Status CheckWorldSize(RecordKind kind, uint32_t world_size);
absl::Status CheckRank(RecordKind kind, uint32_t rank, uint32_t world_size);

// Requires no bounds, or world_size + 1 of them that start at 0, never decrease
// and end at kSlices.
absl::Status CheckSliceBounds(RecordKind kind,
                              absl::Span<const uint32_t> bounds,
                              uint32_t world_size);

// Requires 1 to kMaxUuidBytes letters, digits and hyphens, because a uuid may
// name a file.
absl::Status CheckUuid(RecordKind kind, absl::string_view uuid);

// Turns the DataLoss of a check into InvalidArgument with the same message, for
// a record that is about to be written.
absl::Status AsInvalid(const absl::Status& checked);

// Applies CheckName of names.h to a field.
absl::Status CheckNameField(RecordKind kind, absl::string_view field,
                            absl::string_view name);

// Returns `have duplicate name "NAME"`, the error for a duplicate name.
std::string DuplicateName(absl::string_view name);

// Requires a path that stays below the folder it is relative to: non-empty,
// relative, without NUL and "..".
absl::Status CheckPath(RecordKind kind, absl::string_view field,
                       absl::string_view path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_CHECKS_H_
