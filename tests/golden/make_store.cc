// SPDX-License-Identifier: Apache-2.0
// make_golden_store NAME FOLDER: writes the store of the folder NAME into a new
// folder.
#include <cstdio>
#include <map>
#include <string>

#include "tests/golden/declared_sharding/make_store.h"
#include "tests/golden/id_ranges/values.h"
#include "tests/golden/lossy_codecs/values.h"
#include "tests/golden/shards/values.h"

int main(int argc, char** argv) {
  using Make = absl::Status (*)(const std::string&);
  const std::map<std::string, Make> stores = {
      {"declared_sharding", ckptdb::testing::MakeDeclaredShardingStore},
      {"id_ranges", ckptdb::testing::MakeIdRangesStore},
      {"lossy_codecs", ckptdb::testing::MakeLossyCodecsStore},
      {"shards", ckptdb::testing::MakeShardsStore}};
  const auto make = argc == 3 ? stores.find(argv[1]) : stores.end();
  if (make == stores.end()) {
    std::fprintf(
        stderr,
        "usage: %s declared_sharding|id_ranges|lossy_codecs|shards FOLDER\n",
        argv[0]);
    return 2;
  }
  const absl::Status status = make->second(argv[2]);
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
