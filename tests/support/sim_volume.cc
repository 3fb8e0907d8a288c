// SPDX-License-Identifier: Apache-2.0
#include "tests/support/sim_volume.h"

#include <algorithm>
#include <chrono>
#include <utility>

#define RETURN_IF_FAILED(call) \
  if (IOStatus status = (call); !status.ok()) return status

namespace ckptdb::testing {
namespace {

using rocksdb::IOStatus;

std::vector<std::string> SplitPath(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

std::string JoinPath(const std::vector<std::string>& parts) {
  std::string path;
  for (const std::string& part : parts) path += "/" + part;
  return path;
}

uint64_t NowSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

IOStatus Missing(const std::string& path) {
  return IOStatus::PathNotFound(path, "no such file or folder");
}

}  // namespace

SimVolume::SimVolume(SimDisk disk) : base_(disk), disk_(std::move(disk)) {}

IOStatus SimVolume::StartCall(bool mutates, const std::string& written) {
  const uint64_t call = calls_++;
  if (!fail_part_.empty() && written.find(fail_part_) != written.npos &&
      fail_after_-- == 0) {
    fail_part_.clear();
    fail_at_ = call;
  }
  if (!fail_at_.has_value() || call < *fail_at_) return IOStatus::OK();
  if (call > *fail_at_ && !(fail_sticky_ && mutates)) return IOStatus::OK();
  ++failed_calls_;
  return fail_with_;
}

IOStatus SimVolume::Record(SimOperation operation) {
  operation.time_s = NowSeconds();
  disk_.Apply(operation);
  journal_.push_back(std::move(operation));
  return IOStatus::OK();
}

IOStatus SimVolume::RecordOf(Kind kind, uint64_t inode, const std::string& path,
                             uint64_t offset) {
  return Record({.kind = kind, .inode = inode, .offset = offset, .path = path});
}

IOStatus SimVolume::RecordAt(Kind kind, const Place& place, uint64_t inode,
                             const std::string& path) {
  return Record({.kind = kind,
                 .inode = inode,
                 .folder = place.folder,
                 .name = place.name,
                 .path = path});
}

SimVolume::Place SimVolume::Resolve(const std::string& path) const {
  Place place{0, "", SimDisk::kRoot, true};
  for (const std::string& part : SplitPath(path)) {
    if (place.inode == 0 || !place.is_folder) return Place{};
    const auto& names = disk_.Find(place.inode)->names;
    const auto found = names.find(part);
    place.folder = place.inode;
    place.name = part;
    place.inode = found == names.end() ? 0 : found->second;
    place.is_folder = place.inode != 0 && InodeOf(place).is_folder;
  }
  return place;
}

const SimInode& SimVolume::InodeOf(const Place& place) const {
  return *disk_.Find(place.inode);
}

IOStatus SimVolume::FindFile(const std::string& path, Place* place) const {
  *place = Resolve(path);
  if (place->inode == 0) return Missing(path);
  if (place->is_folder) return IOStatus::IOError(path, "is a folder");
  return IOStatus::OK();
}

IOStatus SimVolume::CreateFile(const std::string& path, Place* place) {
  *place = Resolve(path);
  if (place->folder == 0) return Missing(path);
  if (place->is_folder) return IOStatus::IOError(path, "is a folder");
  if (place->inode != 0) return IOStatus::OK();
  place->inode = disk_.next_inode();
  return RecordAt(Kind::kCreate, *place, place->inode, path);
}

IOStatus SimVolume::OpenForRead(const std::string& path, Handle* handle) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(false));
  Place place;
  RETURN_IF_FAILED(FindFile(path, &place));
  disk_.AddHandle(place.inode);
  *handle = {place.inode, InodeOf(place).content.size(), path};
  return IOStatus::OK();
}

IOStatus SimVolume::OpenForWrite(const std::string& path, bool truncate,
                                 Handle* handle) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(true));
  Place place;
  RETURN_IF_FAILED(CreateFile(path, &place));
  if (truncate && InodeOf(place).content.size() > 0) {
    RecordOf(Kind::kTruncate, place.inode, path);
  }
  disk_.AddHandle(place.inode);
  *handle = {place.inode, InodeOf(place).content.size(), path};
  return IOStatus::OK();
}

IOStatus SimVolume::OpenFolder(const std::string& path, Handle* handle) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(false));
  const Place place = Resolve(path);
  if (place.inode == 0) return Missing(path);
  if (!place.is_folder) return IOStatus::IOError(path, "is not a folder");
  disk_.AddHandle(place.inode);
  *handle = {place.inode, 0, path};
  return IOStatus::OK();
}

void SimVolume::Close(const Handle& handle) {
  const Guard lock(mutex_);
  disk_.DropHandle(handle.inode);
}

IOStatus SimVolume::Read(const Handle& handle, uint64_t offset, size_t n,
                         rocksdb::Slice* result, char* scratch) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(false));
  const SimContent& content = disk_.Find(handle.inode)->content;
  *result = rocksdb::Slice(scratch, content.Read(offset, n, scratch));
  return IOStatus::OK();
}

uint64_t SimVolume::Room(const SimInode& file, uint64_t end) const {
  const uint64_t growth =
      end > file.content.size() ? end - file.content.size() : 0;
  if (!capacity_.has_value()) return growth;
  const uint64_t used = disk_.TotalBytes();
  return std::min(growth, *capacity_ > used ? *capacity_ - used : 0);
}

IOStatus SimVolume::Write(const Handle& handle, uint64_t offset,
                          const rocksdb::Slice& bytes) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(true, handle.path));
  const SimInode& file = *disk_.Find(handle.inode);
  const uint64_t end =
      std::min(offset + bytes.size(),
               file.content.size() + Room(file, offset + bytes.size()));
  const size_t fits = end > offset ? end - offset : 0;
  if (fits > 0) {
    Record({.kind = Kind::kWrite,
            .inode = handle.inode,
            .offset = offset,
            .bytes = std::make_shared<const std::string>(bytes.data(), fits),
            .path = handle.path});
  }
  if (fits == bytes.size()) return IOStatus::OK();
  return IOStatus::NoSpace(
      handle.path, "capacity " + std::to_string(*capacity_) +
                       " bytes, written " + std::to_string(fits) + " of " +
                       std::to_string(bytes.size()));
}

IOStatus SimVolume::Truncate(const Handle& handle, uint64_t size) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(true, handle.path));
  if (disk_.Find(handle.inode)->content.size() == size) return IOStatus::OK();
  return RecordOf(Kind::kTruncate, handle.inode, handle.path, size);
}

IOStatus SimVolume::Sync(const Handle& handle) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(true, handle.path));
  return RecordOf(Kind::kSync, handle.inode, handle.path);
}

IOStatus SimVolume::SyncFolder(const Handle& handle) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(true));
  return RecordOf(Kind::kSyncFolder, handle.inode, handle.path);
}

IOStatus SimVolume::Rename(const std::string& from, const std::string& to) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(true));
  const Place source = Resolve(from);
  const Place target = Resolve(to);
  if (source.inode == 0) return Missing(from);
  if (target.folder == 0) return Missing(to);
  if (source.inode == target.inode) return IOStatus::OK();
  if (source.is_folder && source.folder != target.folder) {
    return IOStatus::NotSupported(from, "a folder to another folder: " + to);
  }
  if (target.inode != 0 && (source.is_folder != target.is_folder ||
                            !InodeOf(target).names.empty())) {
    return IOStatus::IOError(from, "cannot replace " + to);
  }
  return Record({.kind = Kind::kRename,
                 .folder = source.folder,
                 .name = source.name,
                 .to_folder = target.folder,
                 .to_name = target.name,
                 .path = from,
                 .to_path = to});
}

IOStatus SimVolume::Link(const std::string& from, const std::string& to) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(true));
  Place source;
  RETURN_IF_FAILED(FindFile(from, &source));
  const Place target = Resolve(to);
  if (target.folder == 0) return Missing(to);
  if (target.inode != 0) return IOStatus::IOError(to, "exists");
  return Record({.kind = Kind::kLink,
                 .inode = source.inode,
                 .to_folder = target.folder,
                 .to_name = target.name,
                 .path = from,
                 .to_path = to});
}

IOStatus SimVolume::Remove(const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(true));
  Place place;
  RETURN_IF_FAILED(FindFile(path, &place));
  return RecordAt(Kind::kRemove, place, 0, path);
}

IOStatus SimVolume::MakeFolder(const std::string& path, bool existing_is_ok) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(true));
  const Place place = Resolve(path);
  if (place.inode != 0) {
    if (existing_is_ok && place.is_folder) return IOStatus::OK();
    return IOStatus::IOError(path, "exists");
  }
  if (place.folder == 0) return Missing(path);
  return RecordAt(Kind::kMakeFolder, place, disk_.next_inode(), path);
}

IOStatus SimVolume::RemoveFolder(const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(true));
  const Place place = Resolve(path);
  if (place.inode == 0) return Missing(path);
  if (!place.is_folder) return IOStatus::IOError(path, "is not a folder");
  if (place.folder == 0) return IOStatus::IOError(path, "is the root");
  if (!InodeOf(place).names.empty()) {
    return IOStatus::IOError(path, "is not empty");
  }
  return RecordAt(Kind::kRemoveFolder, place, 0, path);
}

IOStatus SimVolume::List(const std::string& path,
                         std::vector<std::string>* names) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(false));
  names->clear();
  const Place place = Resolve(path);
  if (!place.is_folder) return IOStatus::NotFound(path, "no such folder");
  for (const auto& [name, inode] : InodeOf(place).names) names->push_back(name);
  return IOStatus::OK();
}

IOStatus SimVolume::GetStat(const std::string& path, Stat* stat) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(false));
  const Place place = Resolve(path);
  if (place.inode == 0) return Missing(path);
  const SimInode& inode = InodeOf(place);
  *stat = {place.inode, inode.is_folder, inode.content.size(), inode.time_s,
           inode.links};
  return IOStatus::OK();
}

IOStatus SimVolume::Lock(const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(true));
  Place place;
  RETURN_IF_FAILED(CreateFile(path, &place));
  if (locks_.insert(JoinPath(SplitPath(path))).second) return IOStatus::OK();
  return IOStatus::Busy("lock hold by current process: " + path);
}

void SimVolume::Unlock(const std::string& path) {
  const Guard lock(mutex_);
  locks_.erase(JoinPath(SplitPath(path)));
}

IOStatus SimVolume::FreeSpace(uint64_t* bytes) {
  const Guard lock(mutex_);
  RETURN_IF_FAILED(StartCall(false));
  constexpr uint64_t kUnlimited = uint64_t{1} << 50;
  const uint64_t capacity = capacity_.value_or(kUnlimited);
  const uint64_t used = disk_.TotalBytes();
  *bytes = reported_free_.value_or(capacity > used ? capacity - used : 0);
  return IOStatus::OK();
}

// --- The interface for tests: journal, faults and direct access.

std::string SimVolume::OperationText(size_t k) const {
  const Guard lock(mutex_);
  return k < journal_.size() ? journal_[k].ToString() : "end of the journal";
}

std::shared_ptr<SimVolume> SimVolume::CrashAfter(size_t k,
                                                 PowerLoss variant) const {
  const Guard lock(mutex_);
  if (!replay_.has_value() || replayed_ > k) {
    replay_.emplace(base_);
    replayed_ = 0;
  }
  for (; replayed_ < k && replayed_ < journal_.size(); ++replayed_) {
    replay_->Apply(journal_[replayed_]);
  }
  return std::make_shared<SimVolume>(replay_->AfterPowerLoss(variant, k));
}

void SimVolume::FailOperation(uint64_t k, IOStatus error, bool sticky) {
  const Guard lock(mutex_);
  fail_at_ = k;
  fail_part_.clear();
  fail_with_ = std::move(error);
  fail_sticky_ = sticky;
}

void SimVolume::FailWrite(std::string part, uint64_t k, IOStatus error,
                          bool sticky) {
  const Guard lock(mutex_);
  fail_at_.reset();
  fail_part_ = std::move(part);
  fail_after_ = k;
  fail_with_ = std::move(error);
  fail_sticky_ = sticky;
}

std::optional<std::string> SimVolume::ReadAll(const std::string& path) const {
  const Guard lock(mutex_);
  Place place;
  if (!FindFile(path, &place).ok()) return std::nullopt;
  return InodeOf(place).content.ToString();
}

bool SimVolume::WriteAll(const std::string& path, std::string bytes) {
  const Guard lock(mutex_);
  Place place;
  if (!CreateFile(path, &place).ok()) return false;
  RecordOf(Kind::kTruncate, place.inode, path);
  Record({.kind = Kind::kWrite,
          .inode = place.inode,
          .bytes = std::make_shared<const std::string>(std::move(bytes)),
          .path = path});
  RecordOf(Kind::kSync, place.inode, path);
  RecordOf(Kind::kSyncFolder, place.folder, path);
  return true;
}

bool SimVolume::TruncateTo(const std::string& path, uint64_t size) {
  const Guard lock(mutex_);
  Place place;
  if (!FindFile(path, &place).ok()) return false;
  RecordOf(Kind::kTruncate, place.inode, path, size);
  RecordOf(Kind::kSync, place.inode, path);
  return true;
}

bool SimVolume::RemoveNow(const std::string& path) {
  const Guard lock(mutex_);
  Place place;
  if (!FindFile(path, &place).ok()) return false;
  RecordAt(Kind::kRemove, place, 0, path);
  RecordOf(Kind::kSyncFolder, place.folder, path);
  return true;
}

std::vector<SimPathSize> SimVolume::ListFiles(const std::string& root) const {
  const Guard lock(mutex_);
  std::vector<SimPathSize> files;
  const Place place = Resolve(root);
  if (!place.is_folder) return files;
  const std::string prefix = root.substr(0, root.find_last_not_of('/') + 1);
  disk_.Walk(place.inode, prefix,
             [&](const std::string& path, const SimInode& inode) {
               if (inode.is_folder) return;
               files.push_back({path, inode.content.size()});
             });
  return files;
}

}  // namespace ckptdb::testing

#undef RETURN_IF_FAILED
