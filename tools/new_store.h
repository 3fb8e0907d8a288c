// SPDX-License-Identifier: Apache-2.0
// Stores that a command creates.
#ifndef CKPTDB_TOOLS_NEW_STORE_H_
#define CKPTDB_TOOLS_NEW_STORE_H_

#include <string>
#include <vector>

namespace ckptdb::tool {

// Removes a store that was created after the constructor, with its folders, if
// it has no steps when this is destroyed without a Keep. Close it before. An
// existing store, a folder that is not empty, and a store that another process
// owns stay as they are.
class NewStore {
 public:
  explicit NewStore(const std::string& path);
  ~NewStore();
  void Keep() { is_new_ = false; }
  NewStore(const NewStore&) = delete;
  NewStore& operator=(const NewStore&) = delete;

 private:
  const std::string path_;
  bool is_new_ = false;
  std::vector<std::string> folders_;  // those that did not exist, deepest first
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_NEW_STORE_H_
