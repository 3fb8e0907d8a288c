// SPDX-License-Identifier: Apache-2.0
// The envelope of every record; internal to schema/.
#ifndef CKPTDB_SCHEMA_RECORDS_ENVELOPE_H_
#define CKPTDB_SCHEMA_RECORDS_ENVELOPE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/bytes/limits.h"
#include "schema/types.h"

namespace ckptdb::internal {

// The numbers are stored and never change.
enum class RecordKind : uint16_t {
  kStep = 1,
  kRank = 2,
  kAttempt = 3,
  kRoot = 4,
  kLease = 5,
  kTicket = 6,
  kStagedRank = 7,
  kEvaluation = 8,
  kPost = 9,
  kRemoteFormat = 10,
  kRemoteVersion = 11,
  kRemoteCatalog = 12,
};

inline constexpr size_t kEnvelopeBytes = 16;

// Returns the kind's name in errors: "step record", "rank record", ...
absl::string_view RecordName(RecordKind kind);

// Returns DataLoss if a body of this size exceeds the limit of its kind.
absl::Status CheckBodyBytes(RecordKind kind, uint64_t bytes);

// Returns the envelope followed by the body. Only rank records and tests use a
// version other than kFormatVersion.
std::string Seal(RecordKind kind, absl::string_view body,
                 uint16_t format_version = kFormatVersion);

// Returns the body of an envelope of this kind; the result points into `bytes`.
// Returns DataLoss for damage, and FailedPrecondition for a newer format.
absl::StatusOr<absl::string_view> Unseal(RecordKind kind,
                                         absl::string_view bytes);

// Returns DataLoss: "step record: FIELD WHY".
absl::Status BadField(RecordKind kind, absl::string_view field,
                      absl::string_view why);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_ENVELOPE_H_
