// SPDX-License-Identifier: Apache-2.0
// A store's steps without a store, for tests of the protocol.
#ifndef CKPTDB_TESTS_REMOTE_FAKE_SOURCE_H_
#define CKPTDB_TESTS_REMOTE_FAKE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/meta/lineage.h"
#include "db/transfer/version_source.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/page.h"
#include "schema/records/branches.h"
#include "schema/records/records.h"
#include "schema/records/remote.h"
#include "schema/types.h"

namespace ckptdb::testing {

// A copy is what a copy of the store's disk is. Every version has one data
// file, whose bytes are its path: see MemoryStore::set_names_as_files.
class FakeSource : public internal::VersionSource {
 public:
  explicit FakeSource(std::string uuid) {
    root_.uuid = std::move(uuid);
    set_owner(1);
  }

  // Commits a step on top of the newest one: full, or a delta. `content`
  // distinguishes saves of the same attempt by different copies.
  const StepRecord& Save(bool full, uint64_t content) {
    StepRecord record;
    const StepRecord* const parent = Newest();
    record.version = {
        parent == nullptr ? 10 : parent->version.step + steps_apart_,
        root_.next_attempt++};
    record.store_uuid = root_.uuid;
    record.rank_digests = {content};
    record.committed_at_micros = record.version.attempt;
    record.branches = BranchesOf(parent, record.version.attempt);
    if (owner_ != 0) {
      record.owners =
          internal::OwnersOver(parent == nullptr ? StepRecord() : *parent,
                               record.version.attempt, owner_);
    }
    if (parent != nullptr) {
      record.has_parent = true;
      record.parent = parent->version;
      record.parent_digest = LineageDigest(*parent);
    }
    if (!full && parent != nullptr) {
      record.kind = StepRecord::Kind::kDelta;
      record.chain = parent->chain;
    }
    record.chain.push_back(record.version);
    steps_[record.version.step] = record;
    known_[record.version] = record;
    return steps_[record.version.step];
  }
  // Removes a step. Its record stays for chains.
  void Retire(int64_t step) { steps_.erase(step); }
  // Removes all but the newest steps, with their records.
  void KeepNewest(size_t steps) {
    while (steps_.size() > steps) steps_.erase(steps_.begin());
    std::erase_if(known_, [&](const auto& known) {
      return !steps_.contains(known.first.step);
    });
  }
  // Restores an older step: the next save abandons those after it.
  void RollBack(int64_t step) {
    steps_.erase(steps_.upper_bound(step), steps_.end());
    rolled_back_ = true;
  }
  // Begins saves that fail.
  void WasteAttempts(uint32_t attempts) { root_.next_attempt += attempts; }
  void SetMetric(int64_t step, double value) {
    steps_.at(step).metrics["auc"] = value;
    known_[steps_.at(step).version] = steps_.at(step);
  }
  void Quarantine(int64_t step) {
    steps_.at(step).quarantined = true;
    known_[steps_.at(step).version] = steps_.at(step);
  }
  const StepRecord* Newest() const {
    return steps_.empty() ? nullptr : &steps_.rbegin()->second;
  }

  // Makes another process save from now on, or an older library if it is 0. A
  // copy of a FakeSource has the same owner until this is called.
  void set_owner(uint64_t owner) {
    owner_ = owner;
    if (owner == 0) {
      root_.owners.clear();
    } else {
      internal::AddOwner(root_.next_attempt, owner, &root_.owners);
    }
  }
  void set_steps_apart(int64_t steps) { steps_apart_ = steps; }

  const RootRecord& root() const override { return root_; }
  std::vector<StepRecord> Steps() const override {
    std::vector<StepRecord> steps;
    for (const auto& [step, record] : steps_) steps.push_back(record);
    return steps;
  }
  const StepRecord* FindVersion(const Version& version) const override {
    const auto found = known_.find(version);
    return found == known_.end() ? nullptr : &found->second;
  }
  bool IsStep(const Version& version) const override {
    const auto step = steps_.find(version.step);
    return step != steps_.end() && step->second.version == version;
  }
  absl::StatusOr<std::vector<internal::VersionFile>> FilesOf(
      const Version& version) const override {
    const std::string path =
        absl::StrCat("data of ", ToString(version), " with ",
                     known_.at(version).rank_digests[0]);
    const std::string prefix = VersionPrefix(version);
    return std::vector<internal::VersionFile>{
        {path, path.size(), prefix + "a", prefix + "b"}};
  }
  absl::StatusOr<uint64_t> RecordHash(const StepRecord& record) const override {
    return HashBytes(EncodeStepRecord(record).value());
  }
  absl::StatusOr<internal::RemoteVersion> ReadRecords(
      const StepRecord& record) const override {
    internal::RemoteVersion records;
    records.step_record = EncodeStepRecord(record).value();
    return records;
  }
  absl::StatusOr<internal::VersionContent> Read(
      const StepRecord& record) const override {
    internal::VersionContent content;
    content.records = ReadRecords(record).value();
    StepRecord::Rank rank;
    rank.version = record.version;
    content.records.rank_records = {EncodeRankRecord(rank).value()};
    content.files = FilesOf(record.version).value();
    return content;
  }
  absl::StatusOr<uint64_t> HashOf(
      const internal::VersionFile& file,
      const std::function<bool()>& /*cancelled*/) const override {
    return HashBytes(file.path);
  }

 private:
  std::vector<StepRecord::Branch> BranchesOf(const StepRecord* parent,
                                             uint32_t attempt) {
    std::vector<StepRecord::Branch> branches;
    if (parent != nullptr) branches = parent->branches;
    if (branches.empty() || rolled_back_) {
      branches.push_back({attempt, attempt});
    } else {
      branches.back().last = attempt;
    }
    rolled_back_ = false;
    return branches;
  }

  RootRecord root_;
  uint64_t owner_ = 1;
  bool rolled_back_ = false;
  int64_t steps_apart_ = 10;
  std::map<int64_t, StepRecord> steps_;
  std::map<Version, StepRecord> known_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_FAKE_SOURCE_H_
