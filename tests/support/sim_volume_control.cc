// SPDX-License-Identifier: Apache-2.0
// SimVolume's test interface: journal, faults and direct access.
#include <utility>

#include "tests/support/sim_volume.h"

namespace ckptdb::testing {

using Guard = std::lock_guard<std::mutex>;

size_t SimVolume::operations() const {
  Guard lock(mutex_);
  return journal_.size();
}

std::string SimVolume::OperationText(size_t k) const {
  Guard lock(mutex_);
  return k < journal_.size() ? journal_[k].ToString() : "end of the journal";
}

std::shared_ptr<SimVolume> SimVolume::CrashAfter(size_t k,
                                                 PowerLoss variant) const {
  Guard lock(mutex_);
  if (!replay_.has_value() || replayed_ > k) {
    replay_.emplace(base_);
    replayed_ = 0;
  }
  for (; replayed_ < k && replayed_ < journal_.size(); ++replayed_) {
    replay_->Apply(journal_[replayed_]);
  }
  return std::make_shared<SimVolume>(replay_->AfterPowerLoss(variant, k));
}

uint64_t SimVolume::ImageDigest() const {
  Guard lock(mutex_);
  return disk_.Digest();
}

uint64_t SimVolume::calls() const {
  Guard lock(mutex_);
  return calls_;
}

uint64_t SimVolume::failed_calls() const {
  Guard lock(mutex_);
  return failed_calls_;
}

void SimVolume::FailOperation(uint64_t k, IOStatus error, bool sticky) {
  Guard lock(mutex_);
  fail_at_ = k;
  fail_part_.clear();
  fail_with_ = std::move(error);
  fail_sticky_ = sticky;
}

void SimVolume::FailWrite(std::string part, uint64_t k, IOStatus error,
                          bool sticky) {
  Guard lock(mutex_);
  fail_at_.reset();
  fail_part_ = std::move(part);
  fail_after_ = k;
  fail_with_ = std::move(error);
  fail_sticky_ = sticky;
}

void SimVolume::ClearFault() {
  Guard lock(mutex_);
  fail_at_.reset();
  fail_part_.clear();
}

void SimVolume::SetCapacity(std::optional<uint64_t> bytes) {
  Guard lock(mutex_);
  capacity_ = bytes;
}

void SimVolume::SetReportedFreeSpace(std::optional<uint64_t> bytes) {
  Guard lock(mutex_);
  reported_free_ = bytes;
}

void SimVolume::SetOperationHook(std::function<void(size_t k)> hook) {
  Guard lock(mutex_);
  hook_ = std::move(hook);
}

std::optional<std::string> SimVolume::ReadAll(const std::string& path) const {
  Guard lock(mutex_);
  Place place;
  if (!FindFile(path, &place).ok()) return std::nullopt;
  return InodeOf(place).content.ToString();
}

bool SimVolume::WriteAll(const std::string& path, std::string bytes) {
  Guard lock(mutex_);
  Place place;
  if (!CreateFile(path, &place).ok()) return false;
  Record({.kind = SimOperation::Kind::kTruncate,
          .inode = place.inode,
          .path = path});
  Record({.kind = SimOperation::Kind::kWrite,
          .inode = place.inode,
          .bytes = std::make_shared<const std::string>(std::move(bytes)),
          .path = path});
  Record(
      {.kind = SimOperation::Kind::kSync, .inode = place.inode, .path = path});
  Record({.kind = SimOperation::Kind::kSyncFolder,
          .inode = place.folder,
          .path = path});
  return true;
}

bool SimVolume::TruncateTo(const std::string& path, uint64_t size) {
  Guard lock(mutex_);
  Place place;
  if (!FindFile(path, &place).ok()) return false;
  Record({.kind = SimOperation::Kind::kTruncate,
          .inode = place.inode,
          .offset = size,
          .path = path});
  Record(
      {.kind = SimOperation::Kind::kSync, .inode = place.inode, .path = path});
  return true;
}

bool SimVolume::RemoveNow(const std::string& path) {
  Guard lock(mutex_);
  Place place;
  if (!FindFile(path, &place).ok()) return false;
  Record({.kind = SimOperation::Kind::kRemove,
          .folder = place.folder,
          .name = place.name,
          .path = path});
  Record({.kind = SimOperation::Kind::kSyncFolder,
          .inode = place.folder,
          .path = path});
  return true;
}

std::vector<SimPathSize> SimVolume::ListFiles(const std::string& root) const {
  Guard lock(mutex_);
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

uint64_t SimVolume::TotalBytes() const {
  Guard lock(mutex_);
  return disk_.TotalBytes();
}

}  // namespace ckptdb::testing
