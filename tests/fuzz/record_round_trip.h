// SPDX-License-Identifier: Apache-2.0
// Decodes a fuzzed record and checks that it round-trips.
#ifndef CKPTDB_TESTS_FUZZ_RECORD_ROUND_TRIP_H_
#define CKPTDB_TESTS_FUZZ_RECORD_ROUND_TRIP_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/records/envelope.h"
#include "tests/fuzz/fuzz_input.h"

namespace ckptdb::testing {

// A decoded record encodes to bytes that decode to the same record. Compares
// bytes, because a metric may be NaN, which does not equal itself.
template <typename Record>
void CheckRecord(absl::StatusOr<Record> (*decode)(absl::string_view),
                 absl::StatusOr<std::string> (*encode)(const Record&),
                 absl::string_view bytes) {
  const absl::StatusOr<Record> record = decode(bytes);
  if (!record.ok()) {
    Require(record.status().code() == absl::StatusCode::kDataLoss ||
            record.status().code() == absl::StatusCode::kFailedPrecondition);
    return;
  }
  const absl::StatusOr<std::string> encoded = encode(*record);
  Require(encoded.ok());
  const absl::StatusOr<Record> again = decode(*encoded);
  Require(again.ok());
  const absl::StatusOr<std::string> encoded_again = encode(*again);
  Require(encoded_again.ok() && *encoded_again == *encoded);
}

// The same for the bytes unchanged, and as the body of a valid envelope.
template <typename Record>
void CheckRecord(internal::RecordKind kind,
                 absl::StatusOr<Record> (*decode)(absl::string_view),
                 absl::StatusOr<std::string> (*encode)(const Record&),
                 absl::string_view bytes) {
  CheckRecord(decode, encode, bytes);
  CheckRecord(decode, encode, internal::Seal(kind, bytes));
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_FUZZ_RECORD_ROUND_TRIP_H_
