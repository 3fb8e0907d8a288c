// Checks that several records share; internal to schema/. Each answers
// DataLoss with the record's kind, the field and its value.
#ifndef CKPTDB_SCHEMA_CHECKS_H_
#define CKPTDB_SCHEMA_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ckptdb/schema/envelope.h"
#include "ckptdb/schema/keys.h"

namespace ckptdb::internal {

// A step of at least 0 and an attempt of at least 1.
absl::Status CheckVersion(RecordKind kind, absl::string_view field,
                          const Version& version);

// 1 to kMaxWorldSize ranks, and a rank below that.
absl::Status CheckWorldSize(RecordKind kind, uint32_t world_size);
absl::Status CheckRank(RecordKind kind, uint32_t rank, uint32_t world_size);

// None at all, or one bound a rank and one more: from 0, never falling, to
// kSlices.
absl::Status CheckSliceBounds(RecordKind kind,
                              absl::Span<const uint32_t> bounds,
                              uint32_t world_size);

// 1 to kMaxUuidBytes letters, digits and hyphens: it may name a file.
absl::Status CheckUuid(RecordKind kind, absl::string_view uuid);

// The rules of a record are stated once, as what decoding finds. Of a record
// that is about to be written the same words are InvalidArgument.
absl::Status AsInvalid(const absl::Status& checked);

// What CheckName of names.h says.
absl::Status CheckNameField(RecordKind kind, absl::string_view field,
                            absl::string_view name);

// Returns `have "name" twice`, the error of a duplicate name.
std::string Twice(absl::string_view name);

// A path that stays below the folder it is relative to: not empty, not
// absolute, without NUL and without "..".
absl::Status CheckPath(RecordKind kind, absl::string_view field,
                       absl::string_view path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_CHECKS_H_
