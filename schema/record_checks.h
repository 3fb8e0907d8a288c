// The rules of all records, and encoding without them; internal to the library
// and its tests.
//
// Decoding runs Check on what it has read, and encoding on what it is given, so
// what can be written can be read.
#ifndef CKPTDB_SCHEMA_RECORD_CHECKS_H_
#define CKPTDB_SCHEMA_RECORD_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/schema/checks.h"
#include "ckptdb/schema/envelope.h"
#include "ckptdb/schema/evaluation.h"
#include "ckptdb/schema/post.h"
#include "ckptdb/schema/records.h"
#include "ckptdb/schema/staged.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {

// Return DataLoss with the field that breaks a rule, and its value.
absl::Status Check(const StepRecord& record);
absl::Status Check(const RankRecord& record);
absl::Status Check(const AttemptRecord& record);
absl::Status Check(const RootRecord& record);
absl::Status Check(const Lease& lease);
absl::Status Check(const EvaluationRecord& record);
absl::Status Check(const Post& post);
absl::Status Check(const Ticket& ticket);
absl::Status Check(const StagedRank& staged);

// Return a lower bound of the bytes of a record. A record whose bound exceeds
// the limit of its kind is not built, as a builder ends the process at 2 GiB.
uint64_t LeastBytes(const StepRecord& record);
uint64_t LeastBytes(const RankRecord& record);
uint64_t LeastBytes(const AttemptRecord& record);
uint64_t LeastBytes(const RootRecord& record);
uint64_t LeastBytes(const Lease& lease);
uint64_t LeastBytes(const EvaluationRecord& record);
uint64_t LeastBytes(const Post& post);
uint64_t LeastBytes(const Ticket& ticket);
uint64_t LeastBytes(const StagedRank& staged);

// Return the bytes of a record without checking it, for tests of decoding.
std::string EncodeUnchecked(const StepRecord& record);
std::string EncodeUnchecked(const RankRecord& record);
std::string EncodeUnchecked(const AttemptRecord& record);
std::string EncodeUnchecked(const RootRecord& record);
std::string EncodeUnchecked(const Lease& lease);
std::string EncodeUnchecked(const EvaluationRecord& record);
std::string EncodeUnchecked(const Post& post);
std::string EncodeUnchecked(const Ticket& ticket);
std::string EncodeUnchecked(const StagedRank& staged);

// Returns InvalidArgument when the record breaks a rule or is too large.
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

#endif  // CKPTDB_SCHEMA_RECORD_CHECKS_H_
