// SPDX-License-Identifier: Apache-2.0
// The example of README.md: what stands between the marks is there as well,
// byte for byte, and tests/docs compares them.
//
//   quickstart FOLDER
//
#include <array>
#include <cstdint>
#include <iostream>
#include <string>
#include <unordered_map>

// [readme]
#include <ckptdb/ckptdb.h>

absl::Status Train(const std::string& folder) {
  std::unordered_map<int64_t, std::array<float, 16>> users;
  ckptdb::MapTable table(&users, {ckptdb::Field("embedding")});
  ckptdb::ModelState model;
  CKPTDB_RETURN_IF_ERROR(model.AddTable("user", &table));
  const ckptdb::ManagerOptions options{
      .path = folder,
      .schedule = {.permanent = ckptdb::SaveEveryNSteps(100)},
      .retention = {.keep = ckptdb::LatestN(3) | ckptdb::BestN("auc", 2)}};
  CKPTDB_ASSIGN_OR_RETURN(auto manager,
                          ckptdb::CheckpointManager::Open(options, &model));
  CKPTDB_ASSIGN_OR_RETURN(auto start, manager->RestoreOrStart());
  std::cout << start.ToString() << "\n";
  while (manager->global_step() < 1000) {
    users[17].fill(static_cast<float>(manager->global_step()));  // trains
    table.MarkUpserted({17});
    CKPTDB_RETURN_IF_ERROR(manager->Step({{"auc", 0.75}}).status());
  }
  std::cout << "step " << manager->global_step() << ": user 17 has "
            << users[17][0] << "\n";
  return manager->Close();
}
// [readme end]

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: quickstart FOLDER\n";
    return 2;
  }
  const absl::Status status = Train(argv[1]);
  if (!status.ok()) std::cerr << "quickstart: " << status << "\n";
  return status.ok() ? 0 : 1;
}
