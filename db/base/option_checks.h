// SPDX-License-Identifier: Apache-2.0
// Checks of values that several option structs share; internal to db/ and
// manager/. Each returns InvalidArgument with the option's name, its value and
// the permitted values.
#ifndef CKPTDB_DB_BASE_OPTION_CHECKS_H_
#define CKPTDB_DB_BASE_OPTION_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// `name` is as in "ReadOptions::threads".
absl::Status CheckThreads(absl::string_view name, int threads);

// `last` is the last enumerator of a type whose enumerators count from 0.
template <typename Enum>
absl::Status CheckEnumerator(absl::string_view name, Enum value, Enum last) {
  const auto number = static_cast<int64_t>(value);
  if (number >= 0 && value <= last) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", number, "; it must be an enumerator, 0 to ",
                   static_cast<int64_t>(last)));
}

// Checks that modes of folders and files contain only permission bits, and
// include those that the owner needs to read and write them. `where` is
// prepended to their names, such as "StoreOptions::".
absl::Status CheckModes(absl::string_view where, uint32_t directory_mode,
                        uint32_t file_mode);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_OPTION_CHECKS_H_
