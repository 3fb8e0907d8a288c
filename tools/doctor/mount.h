// The file system that a folder is on.
#ifndef CKPTDB_TOOLS_DOCTOR_MOUNT_H_
#define CKPTDB_TOOLS_DOCTOR_MOUNT_H_

#include <istream>
#include <string>

namespace ckptdb::tool {

struct Mount {
  std::string type;    // "ext4", "nfs4", "fuse.glusterfs"
  std::string source;  // "/dev/sda1", "server:/export"
};

// Returns the mount of an absolute path without links, of a table as in
// /proc/self/mountinfo. Its fields are empty when it is not found.
Mount FindMount(const std::string& path, std::istream* table);

// The same of a folder of this machine.
Mount MountOf(const std::string& folder);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DOCTOR_MOUNT_H_
