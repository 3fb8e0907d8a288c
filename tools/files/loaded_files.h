// SPDX-License-Identifier: Apache-2.0
// The contents of files of other systems, to be imported.
//
//   LoadedFiles files;
//   CKPTDB_RETURN_IF_ERROR(LoadFile("model.safetensors", &files));
//   ... use files.arrays
//   CKPTDB_RETURN_IF_ERROR(files.Check(poll));
#ifndef CKPTDB_TOOLS_FILES_LOADED_FILES_H_
#define CKPTDB_TOOLS_FILES_LOADED_FILES_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/files/array.h"

namespace ckptdb::tool {

// Rows of a table in blocks, each with the values of all slots.
struct FileTable {
  struct Block {
    FileArray ids;  // int64 [rows]
    std::vector<FileArray> slots;
  };
  std::string name;
  std::vector<std::string> slots;
  std::vector<Block> blocks;  // at least one
};

struct LoadedFiles {
  std::vector<FileArray> arrays;
  std::vector<FileTable> tables;  // more tables, besides those that arrays form
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> blobs;
  // Own the bytes of the arrays.
  std::vector<std::shared_ptr<const void>> owners;
  // Called before each piece of a check; an error ends it.
  using Poll = std::function<absl::Status()>;
  // Checksums, which take as long as reading the files.
  std::vector<std::function<absl::Status(const Poll&)>> checks;

  // Returns InvalidArgument for a blob that exists.
  absl::Status AddBlob(const std::string& name, std::string bytes);
  // Runs all checks, and returns the first error.
  absl::Status Check(const Poll& poll) const;
  // Adds metadata; a key that exists with another value becomes "file/key", and
  // if that exists too, with "+" appended.
  void AddMetadata(const std::string& file,
                   const std::map<std::string, std::string>& more);
};

// Adds the contents of a file, according to its name: .safetensors,
// .safetensors.index.json, .npy, .npz, .pt, .pth, .bin, .ckpt; or of a folder
// of RecIS. Bytes stay in the mapped file, except
// for arrays in Fortran order, which are copied to memory, and deflated
// members, which are written to an unlinked file in TMPDIR. Errors name the
// file.
absl::Status LoadFile(const std::string& path, LoadedFiles* files);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_LOADED_FILES_H_
