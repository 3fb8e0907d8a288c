// SPDX-License-Identifier: Apache-2.0
// The state of a simulated disk, and its state after a power loss.
//
// Fault model:
// 1. A file is an inode with bytes. Sync(file) makes its bytes at that moment
//    durable, and nothing else: not its name.
// 2. A folder maps names to inodes. Sync(folder) makes its names at that moment
//    durable: created, linked, renamed and deleted ones. A rename between two
//    folders is two changes, one in each.
// 3. A new folder's own name is durable at once, because RocksDB never syncs
// the
//    parent of a folder it makes. A removed folder's name needs that sync.
// 4. The root folder always exists.
//
// Every change of the disk is a SimOperation; the same operations applied to a
// copy of a disk give the same disk. An operation on a deleted inode does
// nothing.
//
// Threads: one object is used by one thread at a time; copies are independent.
#ifndef CKPTDB_TESTS_SUPPORT_SIM_DISK_H_
#define CKPTDB_TESTS_SUPPORT_SIM_DISK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "tests/support/sim_content.h"

namespace ckptdb::testing {

// Which unsynced state is lost.
enum class PowerLoss {
  // Nothing: the process died, the machine did not.
  kKeepAll,
  // Unsynced bytes are lost, and overwritten and truncated ones are restored;
  // names stay.
  kDropUnsyncedBytes,
  // Names are as of the last sync of their folder: new names are lost, renames
  // are undone and their old targets restored, and deleted names are restored.
  // Bytes stay, but a file that had no name left is restored with its synced
  // bytes.
  kDropUnsyncedNames,
  kDropBoth,
  // The unsynced part of each file ends at a pseudo-random point, and synced
  // bytes that it had replaced beyond that point are restored; names stay.
  kTornAppends,
  // Bytes beyond each file's synced size are zeros; names stay.
  kGarbageTail,
};

inline constexpr PowerLoss kAllPowerLosses[] = {
    PowerLoss::kKeepAll,           PowerLoss::kDropUnsyncedBytes,
    PowerLoss::kDropUnsyncedNames, PowerLoss::kDropBoth,
    PowerLoss::kTornAppends,       PowerLoss::kGarbageTail};

const char* PowerLossName(PowerLoss variant);

// One change of the disk. The kind determines which fields are used.
struct SimOperation {
  enum class Kind {
    kCreate,        // inode, folder, name
    kWrite,         // inode, offset, bytes
    kTruncate,      // inode, offset (the new size)
    kSync,          // inode
    kLink,          // inode, to_folder, to_name
    kRename,        // folder, name, to_folder, to_name
    kRemove,        // folder, name
    kMakeFolder,    // inode, folder, name
    kRemoveFolder,  // folder, name
    kSyncFolder,    // inode
  };

  // A description, such as "write /db/000004.log offset 0 bytes 12".
  std::string ToString() const;

  Kind kind = Kind::kCreate;
  uint64_t inode = 0;
  uint64_t folder = 0;
  std::string name = {};
  uint64_t to_folder = 0;
  std::string to_name = {};
  uint64_t offset = 0;
  SharedBytes bytes = nullptr;
  uint64_t time_s = 0;
  std::string path = {};     // for ToString
  std::string to_path = {};  // for ToString
};

struct SimInode {
  bool is_folder = false;
  uint64_t time_s = 0;
  uint32_t links = 0;          // visible names
  uint32_t durable_links = 0;  // names a power loss may bring back
  uint32_t handles = 0;        // keep the inode alive without a name
  // File.
  SimContent content;
  SimContent synced;
  uint64_t dirty_from = UINT64_MAX;  // lowest offset changed since the sync
  // Folder: name to inode.
  std::map<std::string, uint64_t> names;
  std::map<std::string, uint64_t> durable_names;
};

class SimDisk {
 public:
  static constexpr uint64_t kRoot = 1;

  SimDisk();

  // The number the next created inode must carry.
  uint64_t next_inode() const { return next_inode_; }
  // Returns null if the inode does not exist.
  const SimInode* Find(uint64_t inode) const;

  void Apply(const SimOperation& operation);

  void AddHandle(uint64_t inode);
  void DropHandle(uint64_t inode);

  // Returns the disk after a power loss now; all of it is durable and it has no
  // handles. `seed` chooses the cuts of kTornAppends.
  SimDisk AfterPowerLoss(PowerLoss variant, uint64_t seed) const;

  // Sizes of all files that have a name or a handle, each once.
  uint64_t TotalBytes() const;
  // Covers all visible paths, kinds and bytes, but not inode numbers.
  uint64_t Digest() const;

  // Visits all visible paths below `folder`, parents first, sorted.
  using Visitor = std::function<void(const std::string&, const SimInode&)>;
  void Walk(uint64_t folder, const std::string& prefix,
            const Visitor& visit) const;

 private:
  void Create(const SimOperation& operation, bool is_folder);
  void Rename(const SimOperation& operation);
  void SyncFile(uint64_t inode);
  void SyncFolder(uint64_t inode);
  void Link(uint64_t folder, const std::string& name, uint64_t inode);
  void Unlink(uint64_t folder, const std::string& name);
  void ReleaseIfUnused(uint64_t inode);
  void Settle();

  SimInode* FindMutable(uint64_t inode);

  uint64_t next_inode_ = kRoot + 1;
  std::map<uint64_t, SimInode> inodes_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_SIM_DISK_H_
