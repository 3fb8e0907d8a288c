// SPDX-License-Identifier: Apache-2.0
// The rules of all records, and encoding without checking them; internal to the
// library and its tests.
//
// Decoding runs Check on its result, and encoding on its input, so every
// encoded record decodes again.
#ifndef CKPTDB_SCHEMA_RECORDS_RECORD_CHECKS_H_
#define CKPTDB_SCHEMA_RECORDS_RECORD_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schema/records/checks.h"
#include "schema/records/envelope.h"
#include "schema/records/post.h"
#include "schema/records/records.h"
#include "schema/records/staged.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Return DataLoss with the field that breaks a rule, and its value.
absl::Status Check(const StepRecord& record);
absl::Status Check(const StepRecord::Rank& record);
absl::Status Check(const AttemptRecord& record);
absl::Status Check(const RootRecord& record);
absl::Status Check(const Lease& lease);
absl::Status Check(const StepRecord::Evaluation& record);
absl::Status Check(const Post& post);
absl::Status Check(const internal::TicketRecord& ticket);
absl::Status Check(const internal::StagedRecord& staged);

// Return a lower bound of a record's size. A record whose bound exceeds the
// limit of its kind is not built, because a builder ends the process at 2 GiB.
uint64_t LeastBytes(const StepRecord& record);
uint64_t LeastBytes(const StepRecord::Rank& record);
uint64_t LeastBytes(const AttemptRecord& record);
uint64_t LeastBytes(const RootRecord& record);
uint64_t LeastBytes(const Lease& lease);
uint64_t LeastBytes(const StepRecord::Evaluation& record);
uint64_t LeastBytes(const Post& post);
uint64_t LeastBytes(const internal::TicketRecord& ticket);
uint64_t LeastBytes(const internal::StagedRecord& staged);

// Return the bytes of a record without checking it, for tests of decoding.
std::string EncodeUnchecked(const StepRecord& record);
std::string EncodeUnchecked(const StepRecord::Rank& record);
std::string EncodeUnchecked(const AttemptRecord& record);
std::string EncodeUnchecked(const RootRecord& record);
std::string EncodeUnchecked(const Lease& lease);
std::string EncodeUnchecked(const StepRecord::Evaluation& record);
std::string EncodeUnchecked(const Post& post);
std::string EncodeUnchecked(const internal::TicketRecord& ticket);
std::string EncodeUnchecked(const internal::StagedRecord& staged);

// Returns InvalidArgument if the record breaks a rule or is too large.
template <typename Record>
absl::StatusOr<std::string> EncodeChecked(RecordKind kind,
                                          const Record& record) {
  CKPTDB_RETURN_IF_ERROR(AsInvalid(Check(record)));
  CKPTDB_RETURN_IF_ERROR(AsInvalid(CheckBodyBytes(kind, LeastBytes(record))));
  std::string bytes = EncodeUnchecked(record);
  CKPTDB_RETURN_IF_ERROR(
      AsInvalid(CheckBodyBytes(kind, bytes.size() - kEnvelopeBytes)));
  return bytes;
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_RECORD_CHECKS_H_
