// Checks of numbers that several structs of options have; internal to db/ and
// manager/. Each returns InvalidArgument with the option's name, its value and
// what is allowed.
#ifndef CKPTDB_DB_BASE_OPTION_CHECKS_H_
#define CKPTDB_DB_BASE_OPTION_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// `name` is as in "ReadOptions::threads".
absl::Status CheckThreads(absl::string_view name, int threads);

// Checks that modes of folders and files are permission bits alone, and include
// those without which the owner could not read and write them. `where` stands
// before their names, as in "StoreOptions::".
absl::Status CheckModes(absl::string_view where, uint32_t directory_mode,
                        uint32_t file_mode);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_OPTION_CHECKS_H_
