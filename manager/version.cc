// SPDX-License-Identifier: Apache-2.0
#include "ckptdb/version.h"

namespace ckptdb {

const char* LibraryVersion() { return CKPTDB_VERSION; }

}  // namespace ckptdb
