// SPDX-License-Identifier: Apache-2.0
// Members of archives as bytes of arrays.
#ifndef CKPTDB_TOOLS_FILES_INFLATED_H_
#define CKPTDB_TOOLS_FILES_INFLATED_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/files/loaded_files.h"
#include "tools/files/mapped_file.h"
#include "tools/files/zip.h"

namespace ckptdb::tool {

// Prepends "PATH: " to an error.
absl::Status InFile(const std::string& path, const absl::Status& status);

// Decompresses a member into an unlinked file in TMPDIR, or in /var/tmp.
absl::StatusOr<std::shared_ptr<const MappedFile>> Inflated(
    const MappedFile& file, const ZipMember& member);

// Has files->Check() compare a stored member with its CRC.
void AddZipCheck(const std::shared_ptr<const MappedFile>& file,
                 const ZipMember& member, LoadedFiles* files);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_INFLATED_H_
