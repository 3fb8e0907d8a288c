// The side of a rank other than the owner of the calls of a channel.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/ranks/rank_calls.h"

namespace ckptdb::internal {
namespace {

// When a rank that hears nothing asks for the first time. Each time it waits
// twice as long, up to a part of its deadline and five seconds.
constexpr absl::Duration kFirstAsk = absl::Milliseconds(200);
constexpr absl::Duration kMaxAskSilence = absl::Seconds(5);
constexpr int kAsksInDeadline = 32;
// How often it asks within its grace.
constexpr int kAsksInGrace = 20;
// How many other ranks it asks then: the owner may have died after it told
// some.
constexpr uint32_t kMaxPeers = 15;
// Values that are kept for the case that they were lost on their way.
constexpr size_t kMaxBrought = 8;
// Outcomes that are kept for other ranks that ask for them.
constexpr uint64_t kMaxTaken = 4;

class FollowerCalls : public RankCalls {
 public:
  FollowerCalls(uint32_t rank, uint32_t world_size, Send send)
      : rank_(rank), world_size_(world_size), send_(std::move(send)) {}

  void Begin(CallRequest request) override {
    number_ = begun_++;
    kind_ = request.kind;
    name_ = request.call;
    expired_ = false;
    end_ = request.now + request.deadline;
    grace_ = GraceOf(request.deadline);
    silence_ = kFirstAsk;
    max_silence_ = std::clamp(request.deadline / kAsksInDeadline, kFirstAsk,
                              kMaxAskSilence);
    ask_at_ = request.now + silence_;
    over_ = kind_ == CallKind::kGather || outcomes_.contains(number_);
    if (kind_ == CallKind::kTell || outcomes_.contains(number_)) return;
    CallMessage& message = brought_[number_];
    message = NewMessage(CallMessage::Type::kBring);
    message.value = std::move(request.value);
    send_(kOwnerRank, message);
    if (brought_.size() > kMaxBrought) brought_.erase(brought_.begin());
  }

  void OnMessage(uint32_t from, CallMessage message) override {
    switch (message.type) {
      case CallMessage::Type::kOutcome:
        OnOutcome(std::move(message));
        break;
      case CallMessage::Type::kResend:
        if (const auto found = brought_.find(message.number);
            found != brought_.end()) {
          send_(kOwnerRank, found->second);
        }
        break;
      case CallMessage::Type::kAsk:
        if (const auto found = outcomes_.find(message.number);
            found != outcomes_.end()) {
          send_(from, found->second);
        }
        break;
      case CallMessage::Type::kBring:
      case CallMessage::Type::kExpired:
        break;  // for the owner alone
    }
  }

  void Advance(absl::Time now) override {
    if (begun_ == 0 || over_) return;
    if (outcomes_.contains(number_)) {
      over_ = true;
      return;
    }
    if (!expired_ && now >= end_) Expire(now);
    if (expired_ && now >= end_ + grace_) return GiveUp();
    if (now < ask_at_) return;
    AskOwner();
    silence_ =
        expired_ ? grace_ / kAsksInGrace : std::min(2 * silence_, max_silence_);
    ask_at_ = now + silence_;
  }

  bool is_over() const override { return begun_ > 0 && over_; }

  CallResult Take() override {
    CallResult result;
    const auto found = outcomes_.find(number_);
    if (found != outcomes_.end()) {
      const CallMessage& outcome = found->second;
      result.status = outcome.status;
      result.value = outcome.value;
      if (result.status.ok() && outcome.call != name_) {
        result.status = RanksDisagree(rank_, name_, kOwnerRank, outcome.call);
      }
    }
    const uint64_t oldest = begun_ - std::min(begun_, kMaxTaken);
    outcomes_.erase(outcomes_.begin(), outcomes_.lower_bound(oldest));
    return result;
  }

 private:
  CallMessage NewMessage(CallMessage::Type type) const {
    CallMessage message;
    message.type = type;
    message.kind = kind_;
    message.number = number_;
    message.call = name_;
    return message;
  }

  void OnOutcome(CallMessage outcome) {
    const uint64_t number = outcome.number;
    // The owner has what was brought to it.
    brought_.erase(brought_.begin(), brought_.upper_bound(number));
    const bool taken = number < begun_ && !(number == number_ && !over_);
    if (!taken) outcomes_.emplace(number, std::move(outcome));
  }

  void Expire(absl::Time now) {
    expired_ = true;
    ask_at_ = now;
    const uint32_t peers = std::min(world_size_ - 1, kMaxPeers);
    for (uint32_t i = 1; i <= peers; ++i) {
      const uint32_t peer = (rank_ + i) % world_size_;
      if (peer == kOwnerRank) continue;
      send_(peer, NewMessage(CallMessage::Type::kAsk));
    }
  }

  void AskOwner() {
    send_(kOwnerRank, NewMessage(expired_ ? CallMessage::Type::kExpired
                                          : CallMessage::Type::kAsk));
  }

  void GiveUp() {
    CallMessage outcome = NewMessage(CallMessage::Type::kOutcome);
    outcome.status = MissingRanks({kOwnerRank}, world_size_, name_);
    outcomes_.emplace(number_, std::move(outcome));
    over_ = true;
  }

  const uint32_t rank_;
  const uint32_t world_size_;
  const Send send_;
  uint64_t begun_ = 0;
  // The call begun last.
  uint64_t number_ = 0;
  CallKind kind_ = CallKind::kBarrier;
  std::string name_;
  bool over_ = true;
  bool expired_ = false;
  absl::Time end_;
  absl::Duration grace_;
  absl::Duration silence_;
  absl::Duration max_silence_;
  absl::Time ask_at_;
  // By number: what the owner may not have, and how calls have ended.
  std::map<uint64_t, CallMessage> brought_;
  std::map<uint64_t, CallMessage> outcomes_;
};

}  // namespace

std::unique_ptr<RankCalls> NewFollowerCalls(uint32_t rank, uint32_t world_size,
                                            RankCalls::Send send) {
  return std::make_unique<FollowerCalls>(rank, world_size, std::move(send));
}

}  // namespace ckptdb::internal
