// SPDX-License-Identifier: Apache-2.0
// Metrics within records; internal to schema/.
#ifndef CKPTDB_SCHEMA_RECORDS_METRICS_H_
#define CKPTDB_SCHEMA_RECORDS_METRICS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schema/records/envelope.h"
#include "schema/records/flat.h"
#include "schema/types.h"

namespace ckptdb::internal {

using FlatMetrics = flatbuffers::Vector<flatbuffers::Offset<fbs::Metric>>;

flatbuffers::Offset<FlatMetrics> AddMetrics(
    const Metrics& metrics, flatbuffers::FlatBufferBuilder* builder);

// Returns DataLoss for more than kMaxMetrics entries or an invalid name.
absl::Status CheckMetrics(RecordKind kind, const Metrics& metrics);

// Returns no metrics for null, and DataLoss for too many or a duplicate name.
absl::StatusOr<Metrics> ReadMetrics(RecordKind kind,
                                    const FlatMetrics* entries);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_METRICS_H_
