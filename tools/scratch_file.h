// SPDX-License-Identifier: Apache-2.0
// Memory for large data, in an unnamed file that ends with the process.
#ifndef CKPTDB_TOOLS_SCRATCH_FILE_H_
#define CKPTDB_TOOLS_SCRATCH_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ckptdb::tool {

// `bytes` zeros. The kernel writes them to the file when memory is short; parts
// that are never written take no space.
class ScratchFile {
 public:
  // Makes the file in `folder`. Returns ResourceExhausted if the disk is full.
  static absl::StatusOr<ScratchFile> Make(const std::string& folder,
                                          uint64_t bytes);
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&&) = delete;
  ~ScratchFile();

  char* data() const { return data_; }

 private:
  ScratchFile(char* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  char* data_;
  uint64_t bytes_;
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_SCRATCH_FILE_H_
