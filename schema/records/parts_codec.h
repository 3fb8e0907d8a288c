// SPDX-License-Identifier: Apache-2.0
// Checks and converts the parts in a root record; internal to schema/.
#ifndef CKPTDB_SCHEMA_RECORDS_PARTS_CODEC_H_
#define CKPTDB_SCHEMA_RECORDS_PARTS_CODEC_H_

#include <optional>

#include "absl/status/status.h"
#include "schema/records/flat.h"
#include "schema/records/records.h"

namespace ckptdb::internal {

// Returns DataLoss for names or slices that are invalid.
absl::Status CheckParts(const StoreParts& parts);

flatbuffers::Offset<fbs::StoreParts> AddParts(
    const std::optional<StoreParts>& parts,
    flatbuffers::FlatBufferBuilder* builder);

std::optional<StoreParts> ToParts(const fbs::StoreParts* parts);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_PARTS_CODEC_H_
