// SPDX-License-Identifier: Apache-2.0
// User metadata within records; internal to schema/.
#ifndef CKPTDB_SCHEMA_RECORDS_METADATA_H_
#define CKPTDB_SCHEMA_RECORDS_METADATA_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schema/records/envelope.h"
#include "schema/records/flat.h"
#include "schema/types.h"

namespace ckptdb::internal {

using FlatMetadata = flatbuffers::Vector<flatbuffers::Offset<fbs::Metadata>>;

flatbuffers::Offset<FlatMetadata> AddMetadata(
    const UserMetadata& metadata, flatbuffers::FlatBufferBuilder* builder);

// Returns DataLoss for more than kMaxMetadataBytes or an invalid name.
absl::Status CheckMetadata(RecordKind kind, const UserMetadata& metadata);

// Returns no metadata for null, and DataLoss for too many bytes or a duplicate
// name.
absl::StatusOr<UserMetadata> ReadMetadata(RecordKind kind,
                                          const FlatMetadata* entries);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_METADATA_H_
