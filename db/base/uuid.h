// Names that no two makers share; internal to the library.
#ifndef CKPTDB_DB_BASE_UUID_H_
#define CKPTDB_DB_BASE_UUID_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Returns random hexadecimal digits in the form 8-4-4-4-12.
std::string NewUuid();

// Returns a UUID of version 7, whose order is that of its time: 48 bits of
// milliseconds since 1970, 12 bits of the microseconds within one, and 62
// random bits.
std::string NewTimeUuid(int64_t micros);
// Returns whether the name of a UUID says that its order is that of its time.
bool IsTimeUuid(absl::string_view uuid);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_UUID_H_
