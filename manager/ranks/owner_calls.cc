// SPDX-License-Identifier: Apache-2.0
// The calls of a channel, on the owner.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "manager/coordinator.h"
#include "manager/ranks/direct_exchange.h"
#include "manager/ranks/packed_values.h"
#include "manager/ranks/rank_calls.h"

namespace ckptdb::internal {
namespace {

// Outcomes that are kept for ranks that may ask. The number is limited because
// a dead rank would keep all of them.
constexpr size_t kMaxOutcomes = 64;

// The time after which the owner first asks for missing values. It doubles with
// each question, up to a fraction of the deadline and at most five seconds.
constexpr absl::Duration kFirstResend = absl::Milliseconds(200);
constexpr int kResendsInDeadline = 32;
constexpr absl::Duration kMaxResendSilence = absl::Seconds(5);
// A waiting rank sends at least one message per CallMessage::silence. A rank
// that stays silent for this many such intervals is presumed dead, and one that
// arrives at a call this much later than the first is late.
constexpr int kMaxSilences = 6;

class OwnerCalls : public RankCalls {
 public:
  OwnerCalls(uint32_t world_size, Outbox* outbox)
      : world_size_(world_size),
        outbox_(outbox),
        exchange_(kOwnerRank, world_size, outbox),
        at_(world_size) {}

  void Begin(CallRequest request) override {
    now_ = request.now;
    end_ = request.now + request.deadline;
    const uint64_t number = begun_++;
    result_.reset();
    waits_ = request.kind != CallKind::kAllGather;
    at_[kOwnerRank] = begun_;
    const bool settled = TakeSettled(number);
    Forget();
    if (settled) return;
    CallAt(number);
    entering_ = std::move(request);
    ResetSilence(entering_->deadline);
  }

  void Wait(absl::Time now, absl::Duration deadline) override {
    now_ = now;
    end_ = now + deadline;
    arrives_ = true;
    ResetSilence(deadline);
  }

  void OnMessage(uint32_t from, CallMessage message) override {
    if (from == kOwnerRank || from >= world_size_) return;
    if (message.type == CallMessage::Type::kHeard) {
      at_[from] = std::max(at_[from], message.number + 1);
      return;
    }
    at_[from] = std::max(at_[from], message.number);
    const auto settled = outcomes_.find(message.number);
    if (settled != outcomes_.end()) {
      outbox_->Send(from, OutcomeFor(from, settled->second));
      return;
    }
    if (message.number < begun_ && !open_.contains(message.number)) {
      return AnswerForgotten(from, message);
    }
    switch (message.type) {
      case CallMessage::Type::kBring:
        Name(from, message, &CallAt(message.number));
        Enter(from, std::move(message.value), &CallAt(message.number));
        break;
      case CallMessage::Type::kExpired:
        OnExpired(from, message);
        break;
      case CallMessage::Type::kAsk:
        OnAsk(from, message);
        break;
      case CallMessage::Type::kValue:
        Name(from, message, &CallAt(message.number));
        exchange_.OnValue(from, std::move(message));
        break;
      case CallMessage::Type::kResendValue:
        exchange_.OnResend(from, message.number);
        break;
      case CallMessage::Type::kHeard:
      case CallMessage::Type::kOutcome:
      case CallMessage::Type::kResend:
        break;  // kHeard is handled above, and only the owner sends the others
    }
  }

  void Advance(absl::Time now) override {
    now_ = now;
    if (entering_.has_value()) EnterOwner();
    if (std::exchange(arrives_, false)) waits_ = true;
    AdvanceExchange();
    ResendLost(now);
    for (auto next = open_.begin(); next != open_.end();) {
      const uint64_t number = next->first;
      const std::optional<absl::Status> status =
          Settled(number, next->second, now);
      ++next;
      if (status.has_value()) Settle(number, *status);
    }
  }

  bool is_over() const override { return result_.has_value(); }
  CallResult Take() override { return *std::exchange(result_, std::nullopt); }

  bool HaveAllHeard(const std::vector<bool>& missing) const override {
    for (const auto& [number, ended] : outcomes_) {
      for (uint32_t rank = 0; rank < world_size_; ++rank) {
        if (!missing[rank] && !HasHeard(rank, number, ended)) return false;
      }
    }
    return true;
  }

  void Confirm(const std::vector<bool>& missing) override {
    for (const auto& [number, ended] : outcomes_) {
      for (uint32_t rank = 0; rank < world_size_; ++rank) {
        if (missing[rank] || HasHeard(rank, number, ended)) continue;
        outbox_->Send(rank, OutcomeFor(rank, ended));
      }
    }
  }

 private:
  struct Seen {
    absl::Time last;
    // The rank arrived at the call at this time or earlier, because messages
    // take time.
    absl::Time arrived;
    absl::Duration silence;  // see CallMessage
  };

  struct Call {
    CallKind kind = CallKind::kBarrier;  // known once the owner has arrived
    std::string name;
    uint32_t first = 0;  // the rank that named it
    uint32_t here = 0;   // values set
    std::vector<std::optional<std::string>> values;
    std::vector<std::string> to_each;  // the owner's values of a kTellEach
    // The ranks that have sent any message, even if their value is lost.
    std::map<uint32_t, Seen> seen;
    // At an all-to-all: the ranks that each rank waits for, and those that the
    // first rank waits for whose deadline has passed.
    std::map<uint32_t, std::vector<uint32_t>> waits_for;
    std::vector<uint32_t> expired_for;
    absl::Status disagreement;
    // Some rank's deadline has passed. If the owner had not arrived by then,
    // the owner is the missing rank, whoever else is missing.
    bool expired = false;
    bool owner_was_missing = false;
  };

  // The outcome of a call. At a kTellEach, each rank has its own value.
  struct Ended {
    CallMessage outcome;
    std::vector<std::string> to_each;
  };

  void ResetSilence(absl::Duration deadline) {
    silence_ = kFirstResend;
    max_silence_ = std::clamp(deadline / kResendsInDeadline, kFirstResend,
                              kMaxResendSilence);
    resend_at_ = now_ + silence_;
  }

  static bool IsTold(CallKind kind) {
    return kind == CallKind::kTell || kind == CallKind::kTellEach;
  }

  // Called after messages that were sent before the call are processed: a rank
  // may have waited for the owner in vain.
  void EnterOwner() {
    const uint64_t number = begun_ - 1;
    Call& call = CallAt(number);
    call.kind = entering_->kind;
    CallMessage own;
    own.call = entering_->call;
    own.waited = now_ - entering_->now;
    Name(kOwnerRank, own, &call);
    if (call.kind == CallKind::kAllToAll) {
      exchange_.Begin(MessageOf(number, call), std::move(entering_->values));
    } else {
      if (call.kind == CallKind::kTellEach) {
        call.to_each = std::move(entering_->values);
      }
      Enter(kOwnerRank, std::move(entering_->value), &call);
    }
    entering_.reset();
  }

  // At an all-to-all the owner's part is done when all values have arrived.
  void AdvanceExchange() {
    if (begun_ == 0) return;
    const auto own = open_.find(begun_ - 1);
    if (own == open_.end()) return;
    Call& call = own->second;
    if (call.kind != CallKind::kAllToAll) return;
    if (exchange_.IsComplete(own->first)) {
      Enter(kOwnerRank, "", &call);
    } else if (now_ >= end_ && !call.expired) {
      call.expired_for = exchange_.Missing(own->first);
    }
  }

  // A rank that has returned from a gathering does not ask whether its value
  // has arrived, so the owner asks for it.
  void ResendLost(absl::Time now) {
    if (begun_ == 0 || now < resend_at_) return;
    const auto own = open_.find(begun_ - 1);
    if (own == open_.end()) return;
    if (own->second.kind == CallKind::kAllToAll) {
      exchange_.AskForMissing(MessageOf(own->first, own->second));
    } else if (own->second.kind == CallKind::kGather) {
      for (uint32_t rank = 0; rank < world_size_; ++rank) {
        if (!IsHere(own->second, rank)) AskToResend(rank, own->first);
      }
    } else {
      return;
    }
    silence_ = std::min(2 * silence_, max_silence_);
    resend_at_ = now + silence_;
  }

  void AskToResend(uint32_t rank, uint64_t number) {
    CallMessage resend;
    resend.type = CallMessage::Type::kResend;
    resend.number = number;
    outbox_->Send(rank, std::move(resend));
  }

  Call& CallAt(uint64_t number) {
    Call& call = open_[number];
    if (call.values.empty()) call.values.resize(world_size_);
    return call;
  }

  static CallMessage MessageOf(uint64_t number, const Call& call) {
    CallMessage message;
    message.kind = call.kind;
    message.number = number;
    message.call = call.name;
    return message;
  }

  static bool IsHere(const Call& call, uint32_t rank) {
    return call.values[rank].has_value();
  }

  static void Enter(uint32_t rank, std::string value, Call* call) {
    if (IsHere(*call, rank)) return;  // sent twice
    call->values[rank] = std::move(value);
    ++call->here;
  }

  // Records which call a rank is in.
  void Name(uint32_t rank, const CallMessage& message, Call* call) const {
    const absl::Time arrived = now_ - message.waited;
    Seen& seen =
        call->seen.try_emplace(rank, Seen{now_, arrived, {}}).first->second;
    seen.last = now_;
    seen.arrived = std::min(seen.arrived, arrived);
    seen.silence = std::max(max_silence_, message.silence);
    if (call->name.empty()) {
      call->name = message.call;
      call->first = rank;
    }
    if (call->disagreement.ok() && call->name != message.call) {
      call->disagreement =
          RanksDisagree(rank, message.call, call->first, call->name);
    }
  }

  void OnExpired(uint32_t from, const CallMessage& message) {
    Call& call = CallAt(message.number);
    Name(from, message, &call);
    if (!call.expired) {
      const bool own = message.number + 1 == begun_;
      call.owner_was_missing =
          !call.seen.contains(kOwnerRank) || (own && !waits_);
      call.expired_for = DecodeRanks(message.value);
    }
    call.expired = true;
  }

  void OnAsk(uint32_t from, const CallMessage& message) {
    Call& asked = CallAt(message.number);
    Name(from, message, &asked);
    if (message.kind == CallKind::kAllToAll) {
      asked.waits_for[from] = DecodeRanks(message.value);
    }
    // Earlier calls may wait for a value that was lost.
    for (const auto& [number, call] : open_) {
      if (number > message.number) break;
      if (IsHere(call, from)) continue;
      if (number == message.number && IsTold(message.kind)) continue;
      AskToResend(from, number);
    }
  }

  // Returns the status of a call if it is over.
  std::optional<absl::Status> Settled(uint64_t number, const Call& call,
                                      absl::Time now) const {
    if (!call.disagreement.ok()) return call.disagreement;
    if (call.owner_was_missing) {
      return MissingRanks({kOwnerRank}, world_size_, call.name);
    }
    if (!call.seen.contains(kOwnerRank)) return std::nullopt;
    if (IsTold(call.kind) || call.here == world_size_) {
      return absl::OkStatus();
    }
    if (!call.expired && now < end_) return std::nullopt;
    const std::vector<uint32_t> missing = call.kind == CallKind::kAllToAll
                                              ? MissingAtExchange(number, call)
                                              : MissingAt(call);
    return MissingRanks(missing, world_size_, call.name);
  }

  // One dead or late rank keeps all ranks from finishing that wait for its
  // value, and a late one waits itself. So the missing ranks are those that
  // have sent nothing; if there are none, those that fell silent; then those
  // that arrived last; and if all arrived together, those that others wait for.
  std::vector<uint32_t> MissingAtExchange(uint64_t number,
                                          const Call& call) const {
    std::vector<uint32_t> missing = UnseenAt(call);
    if (missing.empty()) missing = SilentAt(call);
    if (missing.empty()) missing = LateAt(call);
    if (missing.empty()) missing = call.expired_for;
    if (missing.empty()) missing = WaitedForAt(number, call);
    return missing;
  }

  std::vector<uint32_t> UnseenAt(const Call& call) const {
    std::vector<uint32_t> unseen;
    for (uint32_t rank = 0; rank < world_size_; ++rank) {
      if (!call.seen.contains(rank)) unseen.push_back(rank);
    }
    return unseen;
  }

  std::vector<uint32_t> SilentAt(const Call& call) const {
    std::vector<uint32_t> silent;
    for (const auto& [rank, seen] : call.seen) {
      if (rank == kOwnerRank || IsHere(call, rank)) continue;
      if (now_ - seen.last > kMaxSilences * seen.silence) {
        silent.push_back(rank);
      }
    }
    return silent;
  }

  // Lost messages also make a rank late, by a few silences.
  static std::vector<uint32_t> LateAt(const Call& call) {
    absl::Time first = absl::InfiniteFuture();
    absl::Time last = absl::InfinitePast();
    absl::Duration silence;
    for (const auto& [rank, seen] : call.seen) {
      first = std::min(first, seen.arrived);
      last = std::max(last, seen.arrived);
      silence = std::max(silence, seen.silence);
    }
    std::vector<uint32_t> late;
    if (last - first < kMaxSilences * silence) return late;
    for (const auto& [rank, seen] : call.seen) {
      if (last - seen.arrived < silence) late.push_back(rank);
    }
    return late;
  }

  // A rank may have died after it received all values, and its value for the
  // owner may be lost.
  std::vector<uint32_t> WaitedForAt(uint64_t number, const Call& call) const {
    const std::vector<uint32_t> by_owner = exchange_.Missing(number);
    std::set<uint32_t> waited_for(by_owner.begin(), by_owner.end());
    for (uint32_t rank = 0; rank < world_size_; ++rank) {
      if (rank == kOwnerRank || IsHere(call, rank)) continue;
      const auto waits_for = call.waits_for.find(rank);
      if (waits_for == call.waits_for.end() || waits_for->second.empty()) {
        waited_for.insert(rank);
      } else {
        waited_for.insert(waits_for->second.begin(), waits_for->second.end());
      }
    }
    return {waited_for.begin(), waited_for.end()};
  }

  // Returns the ranks that have sent nothing; if there are none, those whose
  // values are lost.
  std::vector<uint32_t> MissingAt(const Call& call) const {
    std::vector<uint32_t> missing;
    std::vector<uint32_t> silent;
    for (uint32_t rank = 0; rank < world_size_; ++rank) {
      if (!IsHere(call, rank)) missing.push_back(rank);
      if (!call.seen.contains(rank)) silent.push_back(rank);
    }
    return silent.empty() ? missing : silent;
  }

  void Settle(uint64_t number, const absl::Status& status) {
    Call call = std::move(open_.at(number));
    open_.erase(number);
    Ended& ended = outcomes_[number];
    CallMessage& outcome = ended.outcome;
    outcome.type = CallMessage::Type::kOutcome;
    outcome.kind = call.kind;
    outcome.number = number;
    outcome.call = call.name;
    outcome.status = status;
    const bool gathered = call.kind == CallKind::kGather && status.ok();
    if (status.ok() && call.kind == CallKind::kAllGather) {
      outcome.value = Packed(std::move(call.values));
    } else if (status.ok() && !gathered) {
      outcome.value = *std::move(call.values[kOwnerRank]);
    }
    if (status.ok()) ended.to_each = std::move(call.to_each);
    // No rank waits for the end of a gathering.
    if (!gathered) SendToAll(ended);
    if (number + 1 == begun_) SettleOwn(number, status, std::move(call));
    exchange_.Forget(number);
  }

  static std::string Packed(std::vector<std::optional<std::string>> values) {
    std::vector<std::string> all;
    for (auto& value : values) all.push_back(*std::move(value));
    return PackValues(all);
  }

  void SendToAll(const Ended& ended) {
    if (ended.to_each.empty()) {
      outbox_->Send(kAllOthers, ended.outcome);
      return;
    }
    for (uint32_t rank = 0; rank < world_size_; ++rank) {
      if (rank != kOwnerRank) outbox_->Send(rank, OutcomeFor(rank, ended));
    }
  }

  // Returns whether the rank knows the outcome or does not wait for it. No rank
  // waits for the outcome of a successful gathering, or of an all-gather that
  // the owner leaves before waiting for it.
  bool HasHeard(uint32_t rank, uint64_t number, const Ended& ended) const {
    const bool gathered =
        ended.outcome.kind == CallKind::kGather && ended.outcome.status.ok();
    const bool left = number + 1 == begun_ && !waits_;
    return gathered || left || rank == kOwnerRank || at_[rank] > number;
  }

  // Returns the outcome for a rank.
  static CallMessage OutcomeFor(uint32_t rank, const Ended& ended) {
    CallMessage outcome = ended.outcome;
    if (!ended.to_each.empty()) outcome.value = ended.to_each[rank];
    return outcome;
  }

  void SettleOwn(uint64_t number, const absl::Status& status, Call call) {
    TakeSettled(number);
    if (!status.ok()) return;
    if (call.kind == CallKind::kAllToAll) {
      result_->values = exchange_.Take(number);
    } else if (call.kind == CallKind::kGather) {
      for (std::optional<std::string>& value : call.values) {
        result_->values.push_back(*std::move(value));
      }
    }
  }

  // Returns whether the owner's own call is already settled, and takes its
  // result.
  bool TakeSettled(uint64_t number) {
    const auto outcome = outcomes_.find(number);
    if (outcome == outcomes_.end()) return false;
    CallMessage own = OutcomeFor(kOwnerRank, outcome->second);
    result_.emplace();
    result_->status = std::move(own.status);
    result_->value = std::move(own.value);
    return true;
  }

  void AnswerForgotten(uint32_t to, const CallMessage& message) {
    CallMessage outcome;
    outcome.type = CallMessage::Type::kOutcome;
    outcome.number = message.number;
    outcome.call = message.call;
    outcome.status = absl::AbortedError(absl::StrCat(
        "rank ", to, " reached \"", message.call,
        "\" too late: the others are ", begun_ - message.number,
        " calls ahead, and at most ", kMaxOutcomes, " outcomes are kept"));
    outbox_->Send(to, std::move(outcome));
  }

  // Removes the outcomes that every rank has received.
  void Forget() {
    const uint64_t all_at = *std::min_element(at_.begin(), at_.end());
    outcomes_.erase(outcomes_.begin(), outcomes_.lower_bound(all_at));
    while (outcomes_.size() > kMaxOutcomes) outcomes_.erase(outcomes_.begin());
  }

  const uint32_t world_size_;
  Outbox* const outbox_;
  DirectExchange exchange_;
  absl::Time now_;
  uint64_t begun_ = 0;  // calls begun by the owner
  absl::Time end_;      // the deadline of the owner's call
  std::optional<CallRequest> entering_;
  // Whether the owner waits for the end of its call, or has waited; false at
  // the beginning of a kAllGather. `arrives_` becomes `waits_` after the
  // messages that were sent before are processed: see EnterOwner.
  bool waits_ = true;
  bool arrives_ = false;
  absl::Duration silence_;
  absl::Duration max_silence_;
  absl::Time resend_at_;
  std::map<uint64_t, Call> open_;
  std::map<uint64_t, Ended> outcomes_;
  // The latest call of each rank, as its messages show.
  std::vector<uint64_t> at_;
  std::optional<CallResult> result_;
};

}  // namespace

absl::Duration GraceOf(absl::Duration deadline) {
  return std::clamp(deadline / 4, absl::Seconds(1), absl::Seconds(10));
}

absl::Status MissingRanks(const std::vector<uint32_t>& missing,
                          uint32_t world_size, absl::string_view call) {
  return absl::DeadlineExceededError(
      absl::StrCat("ranks ", absl::StrJoin(missing, ", "), " of ", world_size,
                   " did not reach \"", call, "\" in time"));
}

absl::Status RanksDisagree(uint32_t rank, absl::string_view call,
                           uint32_t other_rank, absl::string_view other_call) {
  return absl::AbortedError(
      absl::StrCat("the ranks disagree: rank ", rank, " is at \"", call,
                   "\", rank ", other_rank, " at \"", other_call, "\""));
}

std::unique_ptr<RankCalls> NewOwnerCalls(uint32_t world_size,
                                         RankCalls::Outbox* outbox) {
  return std::make_unique<OwnerCalls>(world_size, outbox);
}

}  // namespace ckptdb::internal
