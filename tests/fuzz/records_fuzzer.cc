// SPDX-License-Identifier: Apache-2.0
// Records of the store: the first byte selects the kind, the rest is a record,
// or its FlatBuffer.

#include "schema/records/evaluation.h"
#include "schema/records/post.h"
#include "schema/records/records.h"
#include "schema/records/remote.h"
#include "schema/types.h"
#include "tests/fuzz/record_round_trip.h"

namespace ckptdb {
namespace {

using internal::RecordKind;
using testing::CheckRecord;

void CheckRecords(absl::string_view input) {
  switch (testing::TakeByte(&input) % 10) {
    case 0:
      return CheckRecord(RecordKind::kStep, DecodeStepRecord, EncodeStepRecord,
                         input);
    case 1:
      return CheckRecord(RecordKind::kRank, DecodeRankRecord, EncodeRankRecord,
                         input);
    case 2:
      return CheckRecord(RecordKind::kAttempt, DecodeAttemptRecord,
                         EncodeAttemptRecord, input);
    case 3:
      return CheckRecord(RecordKind::kRoot, DecodeRootRecord, EncodeRootRecord,
                         input);
    case 4:
      return CheckRecord(RecordKind::kLease, DecodeLease, EncodeLease, input);
    case 5:
      return CheckRecord(RecordKind::kEvaluation, DecodeEvaluationRecord,
                         EncodeEvaluationRecord, input);
    case 6:
      return CheckRecord(RecordKind::kPost, DecodePost, EncodePost, input);
    case 7:
      return CheckRecord(RecordKind::kRemoteFormat,
                         internal::DecodeRemoteFormat,
                         internal::EncodeRemoteFormat, input);
    case 8:
      return CheckRecord(RecordKind::kRemoteVersion,
                         internal::DecodeRemoteVersion,
                         internal::EncodeRemoteVersion, input);
    default:
      return CheckRecord(RecordKind::kRemoteCatalog,
                         internal::DecodeRemoteCatalog,
                         internal::EncodeRemoteCatalog, input);
  }
}

}  // namespace
}  // namespace ckptdb

CKPTDB_FUZZ(ckptdb::CheckRecords)
