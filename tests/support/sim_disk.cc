// SPDX-License-Identifier: Apache-2.0
#include "tests/support/sim_disk.h"

#include <xxhash.h>

#include <algorithm>
#include <set>
#include <utility>

namespace ckptdb::testing {
namespace {

// By kind.
constexpr const char* kKindNames[] = {
    "create", "write",  "truncate", "sync",  "link",
    "rename", "remove", "mkdir",    "rmdir", "sync folder"};

// splitmix64's finalizer.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

SimContent Torn(const SimInode& file, uint64_t random) {
  if (file.dirty_from == UINT64_MAX) return file.content;
  const uint64_t room = file.content.size() - file.dirty_from + 1;
  const uint64_t cut = file.dirty_from + random % room;
  SimContent torn = file.content.Slice(0, cut);
  if (cut < file.synced.size()) {
    torn.Append(file.synced.Slice(cut, file.synced.size()));
  }
  return torn;
}

SimContent ZeroTail(const SimInode& file) {
  const uint64_t size = file.content.size();
  if (size <= file.synced.size()) return file.content;
  SimContent zeroed = file.content.Slice(0, file.synced.size());
  zeroed.Resize(size);
  return zeroed;
}

SimContent ContentAfter(const SimInode& file, PowerLoss variant,
                        uint64_t random) {
  switch (variant) {
    case PowerLoss::kKeepAll:
      return file.content;
    case PowerLoss::kDropUnsyncedBytes:
    case PowerLoss::kDropBoth:
      return file.synced;
    case PowerLoss::kDropUnsyncedNames:
      return file.links > 0 ? file.content : file.synced;
    case PowerLoss::kTornAppends:
      return Torn(file, random);
    case PowerLoss::kGarbageTail:
      return ZeroTail(file);
  }
  return file.content;
}

bool DropsNames(PowerLoss variant) {
  return variant == PowerLoss::kDropUnsyncedNames ||
         variant == PowerLoss::kDropBoth;
}

}  // namespace

const char* PowerLossName(PowerLoss variant) {
  constexpr const char* kNames[] = {"KeepAll",           "DropUnsyncedBytes",
                                    "DropUnsyncedNames", "DropBoth",
                                    "TornAppends",       "GarbageTail"};
  return kNames[static_cast<size_t>(variant)];
}

std::string SimOperation::ToString() const {
  std::string text =
      std::string(kKindNames[static_cast<size_t>(kind)]) + " " + path;
  if (!to_path.empty()) text += " to " + to_path;
  if (kind == Kind::kWrite) {
    text += " offset " + std::to_string(offset) + " bytes " +
            std::to_string(bytes->size());
  }
  if (kind == Kind::kTruncate) text += " size " + std::to_string(offset);
  return text;
}

SimDisk::SimDisk() {
  SimInode& root = inodes_[kRoot];
  root.is_folder = true;
  root.links = root.durable_links = 1;
}

SimInode* SimDisk::FindMutable(uint64_t inode) {
  return const_cast<SimInode*>(Find(inode));
}

const SimInode* SimDisk::Find(uint64_t inode) const {
  const auto found = inodes_.find(inode);
  return found == inodes_.end() ? nullptr : &found->second;
}

void SimDisk::Apply(const SimOperation& operation) {
  using Kind = SimOperation::Kind;
  SimInode* const inode = FindMutable(operation.inode);
  switch (operation.kind) {
    case Kind::kCreate:
    case Kind::kMakeFolder:
      return Create(operation, operation.kind == Kind::kMakeFolder);
    case Kind::kWrite:
    case Kind::kTruncate:
      if (inode == nullptr) return;
      inode->dirty_from = std::min(
          {inode->dirty_from, operation.offset, inode->content.size()});
      inode->time_s = operation.time_s;
      return operation.kind == Kind::kWrite
                 ? inode->content.Write(operation.offset, operation.bytes)
                 : inode->content.Resize(operation.offset);
    case Kind::kSync:
      return SyncFile(operation.inode);
    case Kind::kLink:
      return Link(operation.to_folder, operation.to_name, operation.inode);
    case Kind::kRename:
      return Rename(operation);
    case Kind::kRemove:
    case Kind::kRemoveFolder:
      return Unlink(operation.folder, operation.name);
    case Kind::kSyncFolder:
      return SyncFolder(operation.inode);
  }
}

void SimDisk::Create(const SimOperation& operation, bool is_folder) {
  SimInode& created = inodes_[operation.inode];
  created.is_folder = is_folder;
  created.time_s = operation.time_s;
  next_inode_ = std::max(next_inode_, operation.inode + 1);
  Link(operation.folder, operation.name, operation.inode);
  SimInode* const parent = FindMutable(operation.folder);
  if (!is_folder || parent == nullptr) return;
  uint64_t& durable = parent->durable_names[operation.name];
  const uint64_t replaced = std::exchange(durable, operation.inode);
  ++created.durable_links;
  if (SimInode* const old = FindMutable(replaced)) --old->durable_links;
  ReleaseIfUnused(replaced);
}

void SimDisk::Rename(const SimOperation& operation) {
  SimInode* const parent = FindMutable(operation.folder);
  if (parent == nullptr || parent->names.count(operation.name) == 0) return;
  const uint64_t inode = parent->names[operation.name];
  Link(operation.to_folder, operation.to_name, inode);
  Unlink(operation.folder, operation.name);
}

void SimDisk::SyncFile(uint64_t inode) {
  SimInode* const file = FindMutable(inode);
  if (file == nullptr) return;
  file->synced = file->content;
  file->dirty_from = UINT64_MAX;
}

void SimDisk::SyncFolder(uint64_t inode) {
  SimInode* const folder = FindMutable(inode);
  if (folder == nullptr) return;
  const auto before = std::exchange(folder->durable_names, folder->names);
  for (const auto& [name, child] : folder->durable_names) {
    ++FindMutable(child)->durable_links;
  }
  for (const auto& [name, child] : before) {
    if (SimInode* const old = FindMutable(child)) --old->durable_links;
    ReleaseIfUnused(child);
  }
}

void SimDisk::Link(uint64_t folder, const std::string& name, uint64_t inode) {
  SimInode* const parent = FindMutable(folder);
  SimInode* const child = FindMutable(inode);
  if (parent == nullptr || child == nullptr) return;
  ++child->links;
  if (parent->names.count(name) > 0) Unlink(folder, name);
  parent->names[name] = inode;
}

void SimDisk::Unlink(uint64_t folder, const std::string& name) {
  SimInode* const parent = FindMutable(folder);
  if (parent == nullptr) return;
  const auto found = parent->names.find(name);
  if (found == parent->names.end()) return;
  const uint64_t inode = found->second;
  parent->names.erase(found);
  if (SimInode* const child = FindMutable(inode)) --child->links;
  ReleaseIfUnused(inode);
}

void SimDisk::ReleaseIfUnused(uint64_t inode) {
  SimInode* const unused = FindMutable(inode);
  if (unused == nullptr || unused->handles > 0) return;
  if (unused->links > 0 || unused->durable_links > 0) return;
  const SimInode gone = *unused;
  inodes_.erase(inode);
  for (const auto& [name, child] : gone.names) {
    if (SimInode* const orphan = FindMutable(child)) --orphan->links;
    ReleaseIfUnused(child);
  }
  for (const auto& [name, child] : gone.durable_names) {
    if (SimInode* const orphan = FindMutable(child)) --orphan->durable_links;
    ReleaseIfUnused(child);
  }
}

void SimDisk::AddHandle(uint64_t inode) {
  if (SimInode* const held = FindMutable(inode)) ++held->handles;
}

void SimDisk::DropHandle(uint64_t inode) {
  if (SimInode* const held = FindMutable(inode)) --held->handles;
  ReleaseIfUnused(inode);
}

SimDisk SimDisk::AfterPowerLoss(PowerLoss variant, uint64_t seed) const {
  SimDisk image = *this;
  for (auto& [number, inode] : image.inodes_) {
    if (inode.is_folder) {
      if (DropsNames(variant)) inode.names = inode.durable_names;
    } else {
      inode.content = ContentAfter(inode, variant, Mix(Mix(seed) ^ number));
    }
  }
  image.Settle();
  return image;
}

void SimDisk::Settle() {
  for (auto& [number, inode] : inodes_) {
    inode.links = number == kRoot ? 1 : 0;
  }
  std::set<uint64_t> reached = {kRoot};
  std::vector<uint64_t> open = {kRoot};
  while (!open.empty()) {
    const SimInode& folder = inodes_.at(open.back());
    open.pop_back();
    for (const auto& [name, child] : folder.names) {
      ++inodes_.at(child).links;
      if (reached.insert(child).second) open.push_back(child);
    }
  }
  for (auto inode = inodes_.begin(); inode != inodes_.end();) {
    inode = reached.count(inode->first) == 0 ? inodes_.erase(inode)
                                             : std::next(inode);
  }
  for (auto& [number, inode] : inodes_) {
    inode.handles = 0;
    inode.durable_links = inode.links;
    inode.durable_names = inode.names;
    inode.synced = inode.content;
    inode.dirty_from = UINT64_MAX;
  }
}

uint64_t SimDisk::TotalBytes() const {
  uint64_t total = 0;
  for (const auto& [number, inode] : inodes_) {
    if (inode.links > 0 || inode.handles > 0) total += inode.content.size();
  }
  return total;
}

uint64_t SimDisk::Digest() const {
  uint64_t digest = 0;
  Walk(kRoot, "", [&](const std::string& path, const SimInode& inode) {
    digest = Mix(digest ^ XXH3_64bits(path.data(), path.size()));
    digest = Mix(digest ^ (inode.is_folder ? 0 : inode.content.Digest()));
  });
  return digest;
}

void SimDisk::Walk(uint64_t folder, const std::string& prefix,
                   const Visitor& visit) const {
  for (const auto& [name, child] : inodes_.at(folder).names) {
    std::string path = prefix;
    path.append("/").append(name);
    const SimInode& inode = inodes_.at(child);
    visit(path, inode);
    if (inode.is_folder) Walk(child, path, visit);
  }
}

}  // namespace ckptdb::testing
