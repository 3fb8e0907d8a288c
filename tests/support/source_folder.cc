// SPDX-License-Identifier: Apache-2.0
#include "tests/support/source_folder.h"

namespace ckptdb::testing {

std::string SourcePath(const std::string& relative) {
  return CKPTDB_SOURCE "/" + relative;
}

}  // namespace ckptdb::testing
