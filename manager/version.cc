#include "ckptdb/version.h"

namespace ckptdb {

const char* LibraryVersion() { return CKPTDB_VERSION; }

}  // namespace ckptdb
