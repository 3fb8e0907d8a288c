// SPDX-License-Identifier: Apache-2.0
// The limits of user metadata, for steps and stores.
#ifndef CKPTDB_SCHEMA_BYTES_USER_METADATA_H_
#define CKPTDB_SCHEMA_BYTES_USER_METADATA_H_

#include "absl/status/status.h"
#include "schema/types.h"

namespace ckptdb {

// Returns InvalidArgument for an invalid name (see CheckName), and if names and
// values together exceed kMaxMetadataBytes.
absl::Status CheckUserMetadata(const UserMetadata& metadata);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_BYTES_USER_METADATA_H_
