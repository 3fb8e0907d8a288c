// SPDX-License-Identifier: Apache-2.0
// make_golden_store NAME FOLDER: writes the store of the folder NAME into a new
// folder.
#include <cstdio>
#include <string>

#include "tests/golden/declared_sharding/make_store.h"
#include "tests/golden/lossy_codecs/values.h"

int main(int argc, char** argv) {
  const std::string name = argc == 3 ? argv[1] : "";
  if (name != "declared_sharding" && name != "lossy_codecs") {
    std::fprintf(stderr, "usage: %s declared_sharding|lossy_codecs FOLDER\n",
                 argv[0]);
    return 2;
  }
  const absl::Status status =
      name == "lossy_codecs"
          ? ckptdb::testing::MakeLossyCodecsStore(argv[2])
          : ckptdb::testing::MakeDeclaredShardingStore(argv[2]);
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
