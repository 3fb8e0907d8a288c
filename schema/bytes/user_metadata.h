// The limits of user metadata, of a step and of a store.
#ifndef CKPTDB_SCHEMA_BYTES_USER_METADATA_H_
#define CKPTDB_SCHEMA_BYTES_USER_METADATA_H_

#include "absl/status/status.h"
#include "ckptdb/schema/types.h"

namespace ckptdb {

// Returns InvalidArgument for an invalid name (see CheckName), and for more
// than kMaxMetadataBytes of names and values together.
absl::Status CheckUserMetadata(const UserMetadata& metadata);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_BYTES_USER_METADATA_H_
