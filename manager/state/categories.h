// SPDX-License-Identifier: Apache-2.0
// The categories of registered state; internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_CATEGORIES_H_
#define CKPTDB_MANAGER_STATE_CATEGORIES_H_

#include "absl/strings/string_view.h"

namespace ckptdb::internal {

inline constexpr char kSparse[] = "sparse";
inline constexpr char kSparseOpt[] = "sparse_opt";
inline constexpr char kDense[] = "dense";
inline constexpr char kExtra[] = "extra";
inline constexpr char kIoState[] = "io_state";
inline constexpr const char* kCategories[] = {kSparse, kSparseOpt, kDense,
                                              kExtra, kIoState};

inline bool IsCategory(absl::string_view name) {
  for (const char* const each : kCategories) {
    if (name == each) return true;
  }
  return false;
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_CATEGORIES_H_
