// SPDX-License-Identifier: Apache-2.0
// make_declared_sharding_store FOLDER: writes the store into a new folder.
#include <cstdio>

#include "tests/golden/declared_sharding/make_store.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  const absl::Status status =
      ckptdb::testing::MakeDeclaredShardingStore(argv[1]);
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
