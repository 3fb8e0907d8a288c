// SPDX-License-Identifier: Apache-2.0
// fetch_child URL STORE POINT: updates STORE, keeping one step, and is killed
// at a point of kFetchPoints, or at "download", after the first range arrived.
#include <csignal>
#include <cstdio>
#include <string>

#include "remote/remote_store.h"
#include "schema/status.h"

namespace ckptdb::testing {
namespace {

absl::Status Update(const std::string& url, const std::string& store,
                    const std::string& point) {
  CKPTDB_ASSIGN_OR_RETURN(const auto remote, OpenObjectStore(url));
  FetchOptions options;
  options.update = true;
  options.keep = 1;
  options.progress = [&](uint64_t, uint64_t) {
    if (point == "download") raise(SIGKILL);
  };
  options.on_point = [&](absl::string_view passed) {
    if (passed == point) raise(SIGKILL);
  };
  return FetchStore(remote.get(), store, options).status();
}

}  // namespace
}  // namespace ckptdb::testing

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const absl::Status status =
      ckptdb::testing::Update(argv[1], argv[2], argv[3]);
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
