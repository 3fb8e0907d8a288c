// SPDX-License-Identifier: Apache-2.0
// Memory for large data, in an unnamed file that ends with the process.
#ifndef CKPTDB_TOOLS_SCRATCH_FILE_H_
#define CKPTDB_TOOLS_SCRATCH_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ckptdb::tool {

// `bytes` zeros. The kernel writes them to the file when memory is short; parts
// that are never reserved take no space.
class ScratchFile {
 public:
  // Makes the file in `folder`.
  static absl::StatusOr<ScratchFile> Make(const std::string& folder,
                                          uint64_t bytes);
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&&) = delete;
  ~ScratchFile();

  // Gives the bytes from `at` space on the disk; call it before they are
  // written, because a write of memory for which the disk has no space ends the
  // process. Returns ResourceExhausted if the disk is full. Any thread.
  absl::Status Reserve(uint64_t at, uint64_t bytes) const;
  // Closes the descriptor, after which no more is reserved. The memory stays.
  void EndReserving();
  char* data() const { return data_; }

 private:
  ScratchFile(std::string folder, int file, char* data, uint64_t bytes)
      : folder_(std::move(folder)), file_(file), data_(data), bytes_(bytes) {}
  std::string folder_;
  int file_;
  char* data_;
  uint64_t bytes_;
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_SCRATCH_FILE_H_
