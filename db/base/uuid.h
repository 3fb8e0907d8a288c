// SPDX-License-Identifier: Apache-2.0
// Generates unique names; internal to the library.
#ifndef CKPTDB_DB_BASE_UUID_H_
#define CKPTDB_DB_BASE_UUID_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Returns random hexadecimal digits in the form 8-4-4-4-12.
std::string NewUuid();

// Returns a UUID of version 7, which sorts by time: 48 bits of milliseconds
// since 1970, 12 bits for the microseconds within one, and 62 random bits.
std::string NewTimeUuid(int64_t micros);
// Returns whether the UUID is of version 7, which sorts by time.
bool IsTimeUuid(absl::string_view uuid);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_UUID_H_
