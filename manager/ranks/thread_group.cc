// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process. Each rank numbers its calls, and calls
// with the same number meet.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "db/base/mutex.h"
#include "manager/coordinator.h"
#include "manager/ranks/packed_values.h"
#include "schema/status.h"

namespace ckptdb {

class ThreadGroup::Meeting {
 public:
  explicit Meeting(uint32_t world_size)
      : world_size_(world_size), calls_of_(world_size) {}

  uint32_t world_size() const { return world_size_; }

  // Returns the meeting of the duplicates numbered `number`.
  std::shared_ptr<Meeting> Duplicate(uint64_t number) {
    const internal::MutexLock lock(&mutex_);
    while (duplicates_.size() <= number) {
      duplicates_.push_back(std::make_shared<Meeting>(world_size()));
    }
    return duplicates_[number];
  }

  // The values that a call returns to a rank: kAll moves all values to the one
  // rank that asks for them, kOwn returns the values for this rank from all
  // ranks, kOwnOfOwner only the owner's, and kCopies copies all values.
  enum class Take { kNone, kOwners, kAll, kOwn, kOwnOfOwner, kCopies };

  // The ranks that a call waits for.
  enum class Wait { kNone, kOwner, kAll };

  // Makes the next call of `rank`, with a value.
  absl::StatusOr<std::vector<std::string>> Bring(
      uint32_t rank, const std::string& tag, std::string value,
      absl::Duration deadline, Wait wait, Take take,
      std::vector<std::string> to_each = {}) {
    // Read before the lock is taken, because thousands of threads may wait for
    // it.
    const absl::Time end = absl::Now() + deadline;
    const internal::MutexLock lock(&mutex_);
    const uint64_t number =
        BeginCall(rank, tag, std::move(value), std::move(to_each));
    return EndCall(rank, number, end, wait, take);
  }

  // The next call of `rank` in two parts, the first of which returns its
  // number.
  uint64_t Begin(uint32_t rank, const std::string& tag, std::string value) {
    const internal::MutexLock lock(&mutex_);
    return BeginCall(rank, tag, std::move(value), {});
  }
  absl::StatusOr<std::vector<std::string>> End(uint32_t rank, uint64_t number,
                                               absl::Duration deadline) {
    const absl::Time end = absl::Now() + deadline;
    const internal::MutexLock lock(&mutex_);
    return EndCall(rank, number, end, Wait::kAll, Take::kCopies);
  }

 private:
  struct Call {
    std::string tag;
    uint32_t first = 0;  // the rank that set the tag
    std::vector<std::optional<std::string>> values;
    // By sender and receiver: the values of an all-to-all, or of a tell-each,
    // which only the owner sends.
    std::vector<std::vector<std::string>> to_each;
    uint32_t here = 0;
    uint32_t left = 0;
    absl::Status status;
    // One for each call, notified only when the call is over for some rank,
    // because thousands of threads may wait.
    internal::ConditionVariable changed;
  };

  uint64_t BeginCall(uint32_t rank, const std::string& tag, std::string value,
                     std::vector<std::string> to_each)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint64_t number = calls_of_[rank]++;
    Call& call = calls_[number];
    if (call.values.empty()) {
      call.values.resize(calls_of_.size());
      call.to_each.resize(calls_of_.size());
    }
    call.to_each[rank] = std::move(to_each);
    Enter(rank, tag, std::move(value), &call);
    return number;
  }

  absl::StatusOr<std::vector<std::string>> EndCall(uint32_t rank,
                                                   uint64_t number,
                                                   absl::Time end, Wait wait,
                                                   Take take)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Call& call = calls_[number];
    while (!IsOver(call, wait)) {
      if (!call.changed.WaitUntil(&mutex_, absl::ToChronoTime(end)) &&
          !IsOver(call, wait)) {
        // The first deadline that passes settles the call for all ranks, late
        // ones too, so that all return the same error.
        call.status = Missing(call, wait);
        call.changed.NotifyAll();
      }
    }
    return Leave(rank, number, take, &call);
  }

  bool IsOver(const Call& call, Wait wait) const {
    return wait == Wait::kNone || !call.status.ok() ||
           call.here == world_size_ ||
           (wait == Wait::kOwner && call.values[kOwnerRank].has_value());
  }

  void Enter(uint32_t rank, const std::string& tag, std::string value,
             Call* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (call->here++ == 0) {
      call->tag = tag;
      call->first = rank;
    }
    if (call->status.ok() && call->tag != tag) {
      call->status = absl::AbortedError(
          absl::StrCat("the ranks disagree: rank ", rank, " is at \"", tag,
                       "\", rank ", call->first, " at \"", call->tag, "\""));
    }
    call->values[rank] = std::move(value);
    if (IsOver(*call, rank == kOwnerRank ? Wait::kOwner : Wait::kAll)) {
      call->changed.NotifyAll();
    }
  }

  static absl::Status Missing(const Call& call, Wait wait) {
    std::vector<size_t> missing;
    const size_t end = wait == Wait::kOwner ? 1 : call.values.size();
    for (size_t rank = 0; rank < end; ++rank) {
      if (!call.values[rank].has_value()) missing.push_back(rank);
    }
    return absl::DeadlineExceededError(absl::StrCat(
        "ranks ", absl::StrJoin(missing, ", "), " of ", call.values.size(),
        " did not reach \"", call.tag, "\" in time"));
  }

  absl::StatusOr<std::vector<std::string>> Leave(uint32_t rank, uint64_t number,
                                                 Take take, Call* call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Status status = call->status;
    std::vector<std::string> values;
    if (status.ok() && take == Take::kOwners) {
      values = {*call->values[kOwnerRank]};
    } else if (status.ok() && take == Take::kAll) {
      for (auto& value : call->values) values.push_back(*std::move(value));
    } else if (status.ok() && take == Take::kCopies) {
      for (const auto& value : call->values) values.push_back(*value);
    } else if (status.ok() && take == Take::kOwnOfOwner) {
      values = {std::move(call->to_each[kOwnerRank][rank])};
    } else if (status.ok() && take == Take::kOwn) {
      for (auto& to_each : call->to_each) {
        values.push_back(std::move(to_each[rank]));
      }
    }
    // The last rank to leave removes the call. A call that some rank never
    // makes stays until the group ends.
    if (++call->left == world_size_) calls_.erase(number);
    if (!status.ok()) return status;
    return values;
  }

  const uint32_t world_size_;
  internal::Mutex mutex_;
  // The number of calls begun, by rank.
  std::vector<uint64_t> calls_of_ ABSL_GUARDED_BY(mutex_);
  // The calls that some rank has begun and not all have left, by number.
  std::map<uint64_t, Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Meeting>> duplicates_ ABSL_GUARDED_BY(mutex_);
};

class ThreadGroup::Started : public Coordinator::AllGather {
 public:
  Started(std::shared_ptr<Meeting> meeting, uint32_t rank,
          absl::string_view tag, std::string value)
      : meeting_(std::move(meeting)),
        rank_(rank),
        number_(meeting_->Begin(rank, absl::StrCat("all-gather ", tag),
                                std::move(value))) {}

  absl::StatusOr<std::vector<std::string>> Finish(
      absl::Duration deadline) override {
    return meeting_->End(rank_, number_, deadline);
  }

 private:
  const std::shared_ptr<Meeting> meeting_;
  const uint32_t rank_;
  const uint64_t number_;
};

class ThreadGroup::Member : public Coordinator {
  using Take = Meeting::Take;
  using Wait = Meeting::Wait;

 public:
  Member(std::shared_ptr<Meeting> meeting, uint32_t rank)
      : meeting_(std::move(meeting)), rank_(rank) {}

  uint32_t rank() const override { return rank_; }
  uint32_t world_size() const override { return meeting_->world_size(); }

  absl::Status Barrier(absl::string_view tag,
                       absl::Duration deadline) override {
    return Bring("barrier ", tag, "", deadline, Wait::kAll, Take::kNone)
        .status();
  }

  absl::StatusOr<std::string> Broadcast(absl::string_view tag,
                                        std::string value,
                                        absl::Duration deadline) override {
    CKPTDB_ASSIGN_OR_RETURN(std::vector<std::string> values,
                            Bring("broadcast ", tag, std::move(value), deadline,
                                  Wait::kAll, Take::kOwners));
    return std::move(values.front());
  }

  absl::StatusOr<std::string> Tell(absl::string_view tag, std::string value,
                                   absl::Duration deadline) override {
    CKPTDB_ASSIGN_OR_RETURN(std::vector<std::string> values,
                            Bring("tell ", tag, std::move(value), deadline,
                                  Wait::kOwner, Take::kOwners));
    return std::move(values.front());
  }

  absl::StatusOr<std::string> TellEach(absl::string_view tag,
                                       std::vector<std::string> values,
                                       absl::Duration deadline) override {
    if (rank_ == kOwnerRank && values.size() != world_size()) {
      return internal::WrongValueCount("TellEach", values.size(), world_size(),
                                       tag);
    }
    CKPTDB_ASSIGN_OR_RETURN(
        std::vector<std::string> own,
        meeting_->Bring(rank_, absl::StrCat("tell each ", tag), "", deadline,
                        Wait::kOwner, Take::kOwnOfOwner, std::move(values)));
    return std::move(own.front());
  }

  absl::StatusOr<std::vector<std::string>> Gather(
      absl::string_view tag, std::string value,
      absl::Duration deadline) override {
    const bool owner = rank_ == kOwnerRank;
    return Bring("gather ", tag, std::move(value), deadline,
                 owner ? Wait::kAll : Wait::kNone,
                 owner ? Take::kAll : Take::kNone);
  }

  absl::StatusOr<std::vector<std::string>> AllToAll(
      absl::string_view tag, std::vector<std::string> values,
      absl::Duration deadline) override {
    if (values.size() != world_size()) {
      return internal::WrongValueCount("AllToAll", values.size(), world_size(),
                                       tag);
    }
    return meeting_->Bring(rank_, absl::StrCat("all-to-all ", tag), "",
                           deadline, Wait::kAll, Take::kOwn, std::move(values));
  }
  bool HasDirectAllToAll() const override { return true; }

  std::unique_ptr<AllGather> StartAllGather(absl::string_view tag,
                                            std::string value) override {
    return std::make_unique<Started>(meeting_, rank_, tag, std::move(value));
  }

  absl::StatusOr<std::unique_ptr<Coordinator>> Duplicate() override {
    return std::make_unique<Member>(meeting_->Duplicate(duplicates_++), rank_);
  }

 private:
  absl::StatusOr<std::vector<std::string>> Bring(absl::string_view call,
                                                 absl::string_view tag,
                                                 std::string value,
                                                 absl::Duration deadline,
                                                 Wait wait, Take take) {
    return meeting_->Bring(rank_, absl::StrCat(call, tag), std::move(value),
                           deadline, wait, take);
  }

  const std::shared_ptr<Meeting> meeting_;
  const uint32_t rank_;
  uint64_t duplicates_ = 0;
};

ThreadGroup::ThreadGroup(uint32_t world_size)
    : meeting_(std::make_shared<Meeting>(world_size)) {}
ThreadGroup::~ThreadGroup() = default;

std::unique_ptr<Coordinator> ThreadGroup::Join(uint32_t rank) {
  return std::make_unique<Member>(meeting_, rank);
}

}  // namespace ckptdb
