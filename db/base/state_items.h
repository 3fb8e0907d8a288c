// SPDX-License-Identifier: Apache-2.0
// The tensors and blobs of a RankState.
#ifndef CKPTDB_DB_BASE_STATE_ITEMS_H_
#define CKPTDB_DB_BASE_STATE_ITEMS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "db/state.h"
#include "schema/types.h"

namespace ckptdb::internal {

struct StateTensor {
  std::string name;
  TensorView view;
  Codec codec = Codec::kNone;
};

struct StateBlob {
  std::string name;
  absl::string_view bytes;
  Codec codec = Codec::kNone;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_STATE_ITEMS_H_
