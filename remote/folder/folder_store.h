// SPDX-License-Identifier: Apache-2.0
// An ObjectStore in a folder, such as one that hosts share; internal to
// remote/.
#ifndef CKPTDB_REMOTE_FOLDER_FOLDER_STORE_H_
#define CKPTDB_REMOTE_FOLDER_FOLDER_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "remote/object_store.h"

namespace ckptdb::internal {

// An object KEY is the file FOLDER/KEY: its bytes, and a trailer of 72 bytes
// with the token. It is written to FOLDER/~uploads, synced, and linked to its
// name, which fails if the name exists; the name is synced, too. So the file
// system must have hard links. A file without a trailer is not an object.
//
// What it creates has the mode of the folder, or 0700 if that is new.
//
// The time of an object is that of its last write, by the file system's clock.
// Uses only bytes_per_second and `cancelled` of the options. Returns
// InvalidArgument for a file, and for a folder in a checkpoint store.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenFolderStore(
    const std::string& folder, const RemoteOptions& options);

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_FOLDER_FOLDER_STORE_H_
