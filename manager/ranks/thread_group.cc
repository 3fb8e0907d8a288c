// Ranks that are threads: each call is a round, to which every rank brings a
// value.
#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "ckptdb/manager/coordinator.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {

class ThreadGroup::Meeting {
 public:
  explicit Meeting(uint32_t world_size) : rounds_of_(world_size) {}

  uint32_t world_size() const {
    return static_cast<uint32_t>(rounds_of_.size());
  }

  // The meeting of the duplicates with this number.
  std::shared_ptr<Meeting> Duplicate(uint64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (duplicates_.size() <= number) {
      duplicates_.push_back(std::make_shared<Meeting>(world_size()));
    }
    return duplicates_[number];
  }

  // Which values a rank has of a round. All go to one rank at most, which takes
  // them away.
  enum class Take { kNone, kOwners, kAll };

  // Brings a value to the next round of `rank`. Waits for all ranks when
  // `wait`, else for none.
  absl::StatusOr<std::vector<std::string>> Bring(uint32_t rank,
                                                 const std::string& tag,
                                                 std::string value,
                                                 absl::Duration deadline,
                                                 bool wait, Take take) {
    const absl::Time end = absl::Now() + deadline;
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t number = rounds_of_[rank]++;
    Round& round = rounds_[number];
    if (round.values.empty()) round.values.resize(rounds_of_.size());
    Enter(rank, tag, std::move(value), &round);
    while (wait && !IsOver(round)) {
      if (changed_.wait_until(lock, absl::ToChronoTime(end)) ==
              std::cv_status::timeout &&
          !IsOver(round)) {
        round.status = Missing(round);
        changed_.notify_all();
      }
    }
    return Leave(number, take, &round);
  }

 private:
  struct Round {
    std::string tag;
    uint32_t first = 0;  // the rank that brought the tag
    std::vector<std::optional<std::string>> values;
    uint32_t here = 0;
    uint32_t left = 0;
    absl::Status status;
  };

  bool IsOver(const Round& round) const {
    return !round.status.ok() || round.here == rounds_of_.size();
  }

  void Enter(uint32_t rank, const std::string& tag, std::string value,
             Round* round) {
    if (round->here++ == 0) {
      round->tag = tag;
      round->first = rank;
    }
    if (round->status.ok() && round->tag != tag) {
      round->status = absl::AbortedError(
          absl::StrCat("the ranks disagree: rank ", rank, " is at \"", tag,
                       "\", rank ", round->first, " at \"", round->tag, "\""));
    }
    round->values[rank] = std::move(value);
    changed_.notify_all();
  }

  static absl::Status Missing(const Round& round) {
    std::vector<size_t> missing;
    for (size_t rank = 0; rank < round.values.size(); ++rank) {
      if (!round.values[rank].has_value()) missing.push_back(rank);
    }
    return absl::DeadlineExceededError(absl::StrCat(
        "ranks ", absl::StrJoin(missing, ", "), " of ", round.values.size(),
        " did not come to \"", round.tag, "\" in time"));
  }

  absl::StatusOr<std::vector<std::string>> Leave(uint64_t number, Take take,
                                                 Round* round) {
    const absl::Status status = round->status;
    std::vector<std::string> values;
    if (status.ok() && take == Take::kOwners) {
      values = {*round->values[kOwnerRank]};
    } else if (status.ok() && take == Take::kAll) {
      for (auto& value : round->values) values.push_back(*std::move(value));
    }
    // The last one of all clears the table.
    if (++round->left == rounds_of_.size()) rounds_.erase(number);
    if (!status.ok()) return status;
    return values;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> rounds_of_;  // how many each rank has begun
  std::map<uint64_t, Round> rounds_;
  std::vector<std::shared_ptr<Meeting>> duplicates_;
};

class ThreadGroup::Member : public Coordinator {
  using Take = Meeting::Take;

 public:
  Member(std::shared_ptr<Meeting> meeting, uint32_t rank)
      : meeting_(std::move(meeting)), rank_(rank) {}

  uint32_t rank() const override { return rank_; }
  uint32_t world_size() const override { return meeting_->world_size(); }

  absl::Status Barrier(absl::string_view tag,
                       absl::Duration deadline) override {
    return Bring("barrier ", tag, "", deadline, /*wait=*/true, Take::kNone)
        .status();
  }

  absl::StatusOr<std::string> Broadcast(absl::string_view tag,
                                        std::string value,
                                        absl::Duration deadline) override {
    CKPTDB_ASSIGN_OR_RETURN(std::vector<std::string> values,
                            Bring("broadcast ", tag, std::move(value), deadline,
                                  /*wait=*/true, Take::kOwners));
    return std::move(values.front());
  }

  absl::StatusOr<std::vector<std::string>> Gather(
      absl::string_view tag, std::string value,
      absl::Duration deadline) override {
    const bool owner = rank_ == kOwnerRank;
    return Bring("gather ", tag, std::move(value), deadline, /*wait=*/owner,
                 owner ? Take::kAll : Take::kNone);
  }

  absl::StatusOr<std::unique_ptr<Coordinator>> Duplicate() override {
    return std::make_unique<Member>(meeting_->Duplicate(duplicates_++), rank_);
  }

 private:
  absl::StatusOr<std::vector<std::string>> Bring(absl::string_view call,
                                                 absl::string_view tag,
                                                 std::string value,
                                                 absl::Duration deadline,
                                                 bool wait, Take take) {
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
