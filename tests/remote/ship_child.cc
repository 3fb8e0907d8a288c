// SPDX-License-Identifier: Apache-2.0
// ship_child STORE URL POINT N: a trainer that saves steps 1 to 3 and ships
// them, and is killed when it passes a point of kShipPoints for the N-th time.
// Each step has a data file.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "db/state.h"
#include "db/store.h"
#include "remote/remote_store.h"
#include "schema/status.h"

namespace ckptdb::testing {
namespace {

absl::Status SaveStep(Store* store, int64_t step) {
  constexpr int64_t kElements = 300000;  // too many to be stored inline
  const std::vector<float> values(kElements, static_cast<float>(step));
  RankState state;
  state.AddTensor("w", TensorView::Of(values.data(), {kElements}));
  return store->Save({.step = step}, state).status();
}

absl::Status SaveAndShip(const std::string& path, const std::string& url,
                         const std::string& point, int left) {
  CKPTDB_ASSIGN_OR_RETURN(const auto store, Store::Open(path));
  for (int64_t step = 1; step <= 3; ++step) {
    CKPTDB_RETURN_IF_ERROR(SaveStep(store.get(), step));
  }
  CKPTDB_ASSIGN_OR_RETURN(const auto remote, OpenObjectStore(url));
  PushOptions options;
  options.on_point = [&](absl::string_view passed) {
    if (passed == point && --left == 0) raise(SIGKILL);
  };
  return PushStore(path, remote.get(), options).status();
}

}  // namespace
}  // namespace ckptdb::testing

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const absl::Status status = ckptdb::testing::SaveAndShip(
      argv[1], argv[2], argv[3], std::atoi(argv[4]));
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
