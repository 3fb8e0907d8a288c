// Random names that no two makers share; internal to the library.
#ifndef CKPTDB_DB_BASE_UUID_H_
#define CKPTDB_DB_BASE_UUID_H_

#include <string>

namespace ckptdb::internal {

// Returns random hexadecimal digits in the form 8-4-4-4-12.
std::string NewUuid();

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_UUID_H_
