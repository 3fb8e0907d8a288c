// SPDX-License-Identifier: Apache-2.0
// Finds the file system that contains a folder.
#ifndef CKPTDB_TOOLS_DOCTOR_MOUNT_H_
#define CKPTDB_TOOLS_DOCTOR_MOUNT_H_

#include <istream>
#include <string>

namespace ckptdb::tool {

struct Mount {
  std::string type;    // "ext4", "nfs4", "fuse.glusterfs"
  std::string source;  // "/dev/sda1", "server:/export"
};

// Returns the mount of an absolute path without symbolic links, from a table in
// the format of /proc/self/mountinfo. The fields are empty if it is not found.
Mount FindMount(const std::string& path, std::istream* table);

// The same for a folder of this machine.
Mount MountOf(const std::string& folder);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DOCTOR_MOUNT_H_
