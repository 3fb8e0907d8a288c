// A status as bytes, and back; internal to manager/.
#ifndef CKPTDB_MANAGER_RANKS_STATUS_BYTES_H_
#define CKPTDB_MANAGER_RANKS_STATUS_BYTES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Returns an empty string for OK.
std::string EncodeStatus(const absl::Status& status);
// Returns Internal for bytes that EncodeStatus did not make.
absl::Status DecodeStatus(absl::string_view bytes);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_STATUS_BYTES_H_
