// SPDX-License-Identifier: Apache-2.0
// Writes arrays of known shapes into files, in any order and on any thread.
#ifndef CKPTDB_TOOLS_FILES_ARRAY_WRITER_H_
#define CKPTDB_TOOLS_FILES_ARRAY_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/files/array.h"
#include "tools/files/output_folder.h"

namespace ckptdb::tool {

class ArrayWriter {
 public:
  virtual ~ArrayWriter() = default;
  // Writes a part of array `array`. Each byte of each array is written once.
  // Thread-safe.
  virtual absl::Status Write(size_t array, uint64_t at,
                             absl::string_view bytes) = 0;
  // Called when all arrays are written.
  virtual absl::Status Finish() = 0;
};

// The files belong to `folder`, which outlives the writer and commits them.

// One file for each array, "<name>.npy".
absl::StatusOr<std::unique_ptr<ArrayWriter>> NewNpyWriter(
    OutputFolder* folder, const std::vector<ArraySpec>& arrays);

// Writes one archive with uncompressed members "<name>.npy".
absl::StatusOr<std::unique_ptr<ArrayWriter>> NewNpzWriter(
    OutputFolder* folder, const std::string& file,
    const std::vector<ArraySpec>& arrays);

// Writes an ordered dictionary of tensors as torch.save does.
absl::StatusOr<std::unique_ptr<ArrayWriter>> NewTorchWriter(
    OutputFolder* folder, const std::string& file,
    const std::vector<ArraySpec>& arrays);

// "model.safetensors", or, if the arrays take more than `shard_bytes`, several
// "model-00001-of-00003.safetensors" of at most so many bytes or one array, and
// "model.safetensors.index.json".
absl::StatusOr<std::unique_ptr<ArrayWriter>> NewSafetensorsWriter(
    OutputFolder* folder, const std::vector<ArraySpec>& arrays,
    const std::map<std::string, std::string>& metadata, uint64_t shard_bytes);

// One file with these arrays.
struct SafetensorsFile {
  std::string name;
  std::vector<size_t> arrays;
};
absl::StatusOr<std::unique_ptr<ArrayWriter>> NewSafetensorsFilesWriter(
    OutputFolder* folder, const std::vector<ArraySpec>& arrays,
    const std::vector<SafetensorsFile>& files,
    const std::map<std::string, std::string>& metadata);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_ARRAY_WRITER_H_
