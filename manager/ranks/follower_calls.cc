// SPDX-License-Identifier: Apache-2.0
// The calls of a channel, on a rank other than the owner.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "manager/coordinator.h"
#include "manager/ranks/direct_exchange.h"
#include "manager/ranks/rank_calls.h"

namespace ckptdb::internal {
namespace {

// The time after which a rank that receives nothing first asks. It doubles with
// each question, up to a fraction of the deadline and at most five seconds. The
// fraction is small because the deadline may be several times the owner's
// (AfterGather), and lost messages must be asked for within the owner's.
constexpr absl::Duration kFirstAsk = absl::Milliseconds(200);
constexpr absl::Duration kMaxAskSilence = absl::Seconds(5);
constexpr int kAsksInDeadline = 128;
// The number of times it asks during its grace period.
constexpr int kAsksInGrace = 20;
// During its grace period it asks the ranks at distances up to this one, and at
// twice this distance, four times, and so on, because the owner may have died
// after it sent the outcome to some. Ranks pass outcomes on, so all learn what
// one knows.
constexpr uint32_t kNearPeers = 16;
// The number of times that a leaving rank confirms that it has all outcomes.
constexpr int kConfirmations = 3;
// Values that are kept in case they are lost.
constexpr size_t kMaxSentValues = 8;
// Outcomes that are kept for other ranks that ask. No rank waits for the
// outcome of a gathering.
constexpr ptrdiff_t kMaxTakenOutcomes = 4;

class FollowerCalls : public RankCalls {
 public:
  FollowerCalls(uint32_t rank, uint32_t world_size, Outbox* outbox)
      : rank_(rank),
        world_size_(world_size),
        outbox_(outbox),
        exchange_(rank, world_size, outbox) {}

  void Begin(CallRequest request) override {
    number_ = begun_++;
    kind_ = request.kind;
    name_ = request.call;
    expired_ = false;
    began_ = now_ = request.now;
    SetDeadline(request.deadline);
    over_ = kind_ == CallKind::kGather || outcomes_.contains(number_);
    if (!over_) AskRanksAhead();
    const bool told = kind_ == CallKind::kTell || kind_ == CallKind::kTellEach;
    if (told || outcomes_.contains(number_)) return;
    if (kind_ == CallKind::kAllToAll) {
      exchange_.Begin(NewMessage(CallMessage::Type::kValue),
                      std::move(request.values));
    } else {
      Bring(std::move(request.value));
    }
  }

  void Wait(absl::Time now, absl::Duration deadline) override {
    now_ = now;
    SetDeadline(deadline);
  }

  void OnMessage(uint32_t from, CallMessage message) override {
    if (from == kOwnerRank) AskOwnerIfAhead(message.number);
    switch (message.type) {
      case CallMessage::Type::kOutcome:
        // An owner that leaves sends it again until it is confirmed.
        if (from == kOwnerRank && IsTaken(message.number)) SendHeard();
        OnOutcome(std::move(message));
        break;
      case CallMessage::Type::kResend:
        if (const auto found = brought_.find(message.number);
            found != brought_.end()) {
          outbox_->Send(kOwnerRank, found->second);
        }
        break;
      case CallMessage::Type::kAsk:
        OnAsk(from, message.number);
        break;
      case CallMessage::Type::kValue:
        if (!IsTaken(message.number)) {
          exchange_.OnValue(from, std::move(message));
        }
        break;
      case CallMessage::Type::kResendValue:
        exchange_.OnResend(from, message.number);
        break;
      case CallMessage::Type::kBring:
      case CallMessage::Type::kExpired:
      case CallMessage::Type::kHeard:
        break;  // for the owner alone
    }
  }

  void Advance(absl::Time now) override {
    now_ = now;
    if (begun_ == 0 || over_) return;
    if (outcomes_.contains(number_)) {
      over_ = true;
      return;
    }
    if (IsExchanged() && !brought_.contains(number_)) Bring("");
    if (!expired_ && now >= end_) Expire(now);
    if (expired_ && now >= end_ + grace_) return GiveUp();
    if (now < ask_at_) return;
    AskOwner();
    if (kind_ == CallKind::kAllToAll) {
      exchange_.AskForMissing(NewMessage(CallMessage::Type::kResendValue));
    }
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
    // The owner settled the call after all values had arrived.
    if (result.status.ok() && IsExchanged()) {
      result.values = exchange_.Take(number_);
    }
    ForgetTaken();
    return result;
  }

  bool HaveAllHeard(const std::vector<bool>& /*missing*/) const override {
    return true;
  }

  // If all copies are lost, the owner waits in vain until it gives up.
  void Confirm(const std::vector<bool>& /*missing*/) override {
    for (int copy = 0; copy < kConfirmations; ++copy) SendHeard();
  }

 private:
  void SetDeadline(absl::Duration deadline) {
    end_ = now_ + deadline;
    grace_ = GraceOf(deadline);
    silence_ = kFirstAsk;
    max_silence_ =
        std::clamp(deadline / kAsksInDeadline, kFirstAsk, kMaxAskSilence);
    ask_at_ = now_ + silence_;
  }

  void SendHeard() {
    if (begun_ == 0 || (!over_ && number_ == 0)) return;
    CallMessage heard = NewMessage(CallMessage::Type::kHeard);
    heard.number = over_ ? number_ : number_ - 1;
    outbox_->Send(kOwnerRank, std::move(heard));
  }

  CallMessage NewMessage(CallMessage::Type type) const {
    CallMessage message;
    message.type = type;
    message.kind = kind_;
    message.number = number_;
    message.call = name_;
    message.waited = now_ - began_;
    message.silence = max_silence_;
    return message;
  }

  void Bring(std::string value) {
    CallMessage& message = brought_[number_];
    message = NewMessage(CallMessage::Type::kBring);
    message.value = std::move(value);
    outbox_->Send(kOwnerRank, message);
    if (brought_.size() > kMaxSentValues) brought_.erase(brought_.begin());
  }

  // Returns whether all values of an all-to-all have arrived.
  bool IsExchanged() const {
    return kind_ == CallKind::kAllToAll && exchange_.IsComplete(number_);
  }

  // Returns whether this rank has returned from the call.
  bool IsTaken(uint64_t number) const {
    return number < begun_ && !(number == number_ && !over_);
  }

  void OnOutcome(CallMessage outcome) {
    const uint64_t number = outcome.number;
    // The owner has received this rank's values up to this call.
    brought_.erase(brought_.begin(), brought_.upper_bound(number));
    if (IsTaken(number) || outcomes_.contains(number)) return;
    if (IsForAll(outcome)) {
      for (const uint32_t rank : askers_[number]) outbox_->Send(rank, outcome);
    }
    askers_.erase(number);
    outcomes_.emplace(number, std::move(outcome));
  }

  // An owner in a later call has settled this one, and its outcome was lost. It
  // is asked whenever one of its messages arrives, because no other rank knows
  // the value of a kTellEach; other ranks are asked when they ask.
  void AskOwnerIfAhead(uint64_t number) {
    if (!over_ && number > number_ && !outcomes_.contains(number_)) AskOwner();
  }

  void OnAsk(uint32_t from, uint64_t number) {
    if (number > ahead_[from]) {
      ahead_[from] = number;
      if (!over_) AskIfAhead(from);
    }
    const auto found = outcomes_.find(number);
    if (found != outcomes_.end()) {
      if (IsForAll(found->second)) outbox_->Send(from, found->second);
    } else if (!IsTaken(number)) {
      askers_[number].insert(from);
    }
  }

  // Returns whether the outcome is the same on other ranks: each rank has its
  // own value of a kTellEach.
  static bool IsForAll(const CallMessage& outcome) {
    return outcome.kind != CallKind::kTellEach || !outcome.status.ok();
  }

  // A rank that asks for a later call knows the outcome of this one. It is
  // asked now, because it may be in no call when this rank's deadline passes.
  void AskIfAhead(uint32_t rank) {
    if (ahead_[rank] > number_) {
      outbox_->Send(rank, NewMessage(CallMessage::Type::kAsk));
    }
  }

  void AskRanksAhead() {
    for (const auto& [rank, number] : ahead_) AskIfAhead(rank);
  }

  void Expire(absl::Time now) {
    expired_ = true;
    ask_at_ = now;
    for (uint64_t distance = 1; distance < world_size_;
         distance = distance < kNearPeers ? distance + 1 : 2 * distance) {
      const auto peer = static_cast<uint32_t>((rank_ + distance) % world_size_);
      if (peer == kOwnerRank) continue;
      outbox_->Send(peer, NewMessage(CallMessage::Type::kAsk));
    }
  }

  void ForgetTaken() {
    exchange_.Forget(number_);
    askers_.erase(askers_.begin(), askers_.upper_bound(number_));
    const auto after = outcomes_.upper_bound(number_);
    auto taken = std::distance(outcomes_.begin(), after);
    while (taken-- > kMaxTakenOutcomes) outcomes_.erase(outcomes_.begin());
  }

  void AskOwner() {
    CallMessage message = NewMessage(expired_ ? CallMessage::Type::kExpired
                                              : CallMessage::Type::kAsk);
    if (kind_ == CallKind::kAllToAll) {
      message.value = EncodeRanks(exchange_.Missing(number_));
    }
    outbox_->Send(kOwnerRank, std::move(message));
  }

  void GiveUp() {
    CallMessage outcome = NewMessage(CallMessage::Type::kOutcome);
    outcome.status = MissingRanks({kOwnerRank}, world_size_, name_);
    outcomes_.emplace(number_, std::move(outcome));
    over_ = true;
  }

  const uint32_t rank_;
  const uint32_t world_size_;
  Outbox* const outbox_;
  uint64_t begun_ = 0;   // the number of calls begun
  uint64_t number_ = 0;  // of the last call begun
  CallKind kind_ = CallKind::kBarrier;
  std::string name_;
  bool over_ = true;
  bool expired_ = false;
  absl::Time now_;
  absl::Time began_;
  absl::Time end_;
  absl::Duration grace_;
  absl::Duration silence_;
  absl::Duration max_silence_;
  absl::Time ask_at_;
  // Each call's kBring, by number, until the owner certainly has it.
  std::map<uint64_t, CallMessage> brought_;
  DirectExchange exchange_;
  std::map<uint64_t, CallMessage> outcomes_;  // by number
  // The ranks that asked for an outcome before it was known here, by number.
  std::map<uint64_t, std::set<uint32_t>> askers_;
  // The latest call whose outcome each rank has asked for.
  std::map<uint32_t, uint64_t> ahead_;
};

}  // namespace

std::unique_ptr<RankCalls> NewFollowerCalls(uint32_t rank, uint32_t world_size,
                                            RankCalls::Outbox* outbox) {
  return std::make_unique<FollowerCalls>(rank, world_size, outbox);
}

}  // namespace ckptdb::internal
