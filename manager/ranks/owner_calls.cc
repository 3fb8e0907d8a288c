// The owner's side of the calls of a channel.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/ranks/rank_calls.h"

namespace ckptdb::internal {
namespace {

// Outcomes that are kept for ranks that have not asked for them; one of a rank
// that is gone would keep all of them.
constexpr size_t kMaxOutcomes = 64;

// When the owner asks for the first time for what is missing of a gathering.
// Each time it waits twice as long, up to a part of its deadline and five
// seconds.
constexpr absl::Duration kFirstResend = absl::Milliseconds(200);
constexpr int kResendsInDeadline = 32;
constexpr absl::Duration kMaxResendSilence = absl::Seconds(5);

class OwnerCalls : public RankCalls {
 public:
  OwnerCalls(uint32_t world_size, Send send)
      : world_size_(world_size), send_(std::move(send)), at_(world_size) {}

  void Begin(CallRequest request) override {
    end_ = request.now + request.deadline;
    const uint64_t number = begun_++;
    result_.reset();
    at_[kOwnerRank] = begun_;
    if (TakeSettled(number)) return;
    CallAt(number);
    entering_ = std::move(request);
    silence_ = kFirstResend;
    max_silence_ = std::clamp(entering_->deadline / kResendsInDeadline,
                              kFirstResend, kMaxResendSilence);
    resend_at_ = entering_->now + silence_;
  }

  void OnMessage(uint32_t from, CallMessage message) override {
    if (from == kOwnerRank || from >= world_size_) return;
    at_[from] = std::max(at_[from], message.number);
    const auto settled = outcomes_.find(message.number);
    if (settled != outcomes_.end()) return send_(from, settled->second);
    if (message.number < begun_ && !open_.contains(message.number)) {
      return AnswerForgotten(from, message);
    }
    switch (message.type) {
      case CallMessage::Type::kBring:
        Enter(from, message.call, std::move(message.value),
              &CallAt(message.number));
        break;
      case CallMessage::Type::kExpired:
        OnExpired(from, message);
        break;
      case CallMessage::Type::kAsk:
        OnAsk(from, message);
        break;
      case CallMessage::Type::kOutcome:
      case CallMessage::Type::kResend:
        break;  // the owner sends these, and gets none
    }
  }

  void Advance(absl::Time now) override {
    if (entering_.has_value()) EnterOwner();
    ResendLost(now);
    for (auto next = open_.begin(); next != open_.end();) {
      const uint64_t number = next->first;
      const std::optional<absl::Status> status = Settled(next->second, now);
      ++next;
      if (status.has_value()) Settle(number, *status);
    }
    Forget();
  }

  bool is_over() const override { return result_.has_value(); }
  CallResult Take() override { return *std::exchange(result_, std::nullopt); }

 private:
  struct Call {
    CallKind kind = CallKind::kBarrier;  // known once the owner is here
    std::string name;
    uint32_t first = 0;  // the rank that named it
    uint32_t here = 0;
    std::vector<std::optional<std::string>> values;
    // The ranks that were heard of, even if what they brought is lost.
    std::set<uint32_t> seen;
    absl::Status disagreement;
    // A rank has waited for as long as it may. Then the owner is missing when
    // it had not come, whoever else had not.
    bool expired = false;
    bool owner_was_missing = false;
  };

  // The owner comes to its call after what was sent before is taken note of: a
  // rank may have waited for the owner in vain.
  void EnterOwner() {
    const uint64_t number = begun_ - 1;
    Call& call = CallAt(number);
    call.kind = entering_->kind;
    Enter(kOwnerRank, entering_->call, std::move(entering_->value), &call);
    entering_.reset();
  }

  // Ranks that are in no call any more do not ask whether what they brought to
  // a gathering is there.
  void ResendLost(absl::Time now) {
    if (begun_ == 0 || now < resend_at_) return;
    const auto own = open_.find(begun_ - 1);
    if (own == open_.end() || own->second.kind != CallKind::kGather) return;
    for (uint32_t rank = 0; rank < world_size_; ++rank) {
      if (!IsHere(own->second, rank)) AskToResend(rank, own->first);
    }
    silence_ = std::min(2 * silence_, max_silence_);
    resend_at_ = now + silence_;
  }

  void AskToResend(uint32_t rank, uint64_t number) {
    CallMessage resend;
    resend.type = CallMessage::Type::kResend;
    resend.number = number;
    send_(rank, std::move(resend));
  }

  Call& CallAt(uint64_t number) {
    Call& call = open_[number];
    if (call.values.empty()) call.values.resize(world_size_);
    return call;
  }

  static bool IsHere(const Call& call, uint32_t rank) {
    return call.values[rank].has_value();
  }

  void Enter(uint32_t rank, const std::string& name, std::string value,
             Call* call) {
    if (IsHere(*call, rank)) return;  // a duplicate
    Name(rank, name, call);
    call->values[rank] = std::move(value);
    ++call->here;
  }

  static void Name(uint32_t rank, const std::string& name, Call* call) {
    call->seen.insert(rank);
    if (call->name.empty()) {
      call->name = name;
      call->first = rank;
    }
    if (call->disagreement.ok() && call->name != name) {
      call->disagreement = RanksDisagree(rank, name, call->first, call->name);
    }
  }

  void OnExpired(uint32_t from, const CallMessage& message) {
    Call& call = CallAt(message.number);
    Name(from, message.call, &call);
    if (!call.expired) call.owner_was_missing = !IsHere(call, kOwnerRank);
    call.expired = true;
  }

  void OnAsk(uint32_t from, const CallMessage& message) {
    Call& asked = CallAt(message.number);
    Name(from, message.call, &asked);
    // Calls before it may wait for a value that was lost.
    for (const auto& [number, call] : open_) {
      if (number > message.number) break;
      if (IsHere(call, from)) continue;
      if (number == message.number && message.kind == CallKind::kTell) continue;
      AskToResend(from, number);
    }
  }

  // Returns the status of a call that is over.
  std::optional<absl::Status> Settled(const Call& call, absl::Time now) const {
    if (!call.disagreement.ok()) return call.disagreement;
    if (call.owner_was_missing) {
      return MissingRanks({kOwnerRank}, world_size_, call.name);
    }
    if (!IsHere(call, kOwnerRank)) return std::nullopt;
    if (call.kind == CallKind::kTell || call.here == world_size_) {
      return absl::OkStatus();
    }
    if (!call.expired && now < end_) return std::nullopt;
    return MissingRanks(MissingAt(call), world_size_, call.name);
  }

  // The ranks that were not heard of; where there are none, those whose values
  // are lost.
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
    CallMessage& outcome = outcomes_[number];
    outcome.type = CallMessage::Type::kOutcome;
    outcome.kind = call.kind;
    outcome.number = number;
    outcome.call = call.name;
    outcome.status = status;
    const bool gathered = call.kind == CallKind::kGather && status.ok();
    if (status.ok() && !gathered) {
      outcome.value = *std::move(call.values[kOwnerRank]);
    }
    // Nobody waits for the end of a gathering.
    if (!gathered) send_(kAllOthers, outcome);
    if (number + 1 != begun_) return;
    TakeSettled(number);
    for (size_t rank = 0; rank < call.values.size() && gathered; ++rank) {
      result_->values.push_back(*std::move(call.values[rank]));
    }
  }

  // Whether the owner's own call is settled already.
  bool TakeSettled(uint64_t number) {
    const auto outcome = outcomes_.find(number);
    if (outcome == outcomes_.end()) return false;
    result_.emplace();
    result_->status = outcome->second.status;
    result_->value = outcome->second.value;
    return true;
  }

  void AnswerForgotten(uint32_t to, const CallMessage& message) {
    CallMessage outcome;
    outcome.type = CallMessage::Type::kOutcome;
    outcome.number = message.number;
    outcome.call = message.call;
    outcome.status = absl::AbortedError(absl::StrCat(
        "rank ", to, " comes to \"", message.call,
        "\" too late: the others are ", begun_ - message.number,
        " calls ahead, and at most ", kMaxOutcomes, " outcomes are kept"));
    send_(to, std::move(outcome));
  }

  // Removes the outcomes that every rank has left behind.
  void Forget() {
    const uint64_t all_at = *std::min_element(at_.begin(), at_.end());
    outcomes_.erase(outcomes_.begin(), outcomes_.lower_bound(all_at));
    while (outcomes_.size() > kMaxOutcomes) outcomes_.erase(outcomes_.begin());
  }

  const uint32_t world_size_;
  const Send send_;
  uint64_t begun_ = 0;  // by the owner
  absl::Time end_;      // of the owner's own call
  std::optional<CallRequest> entering_;
  absl::Duration silence_;
  absl::Duration max_silence_;
  absl::Time resend_at_;
  std::map<uint64_t, Call> open_;
  std::map<uint64_t, CallMessage> outcomes_;
  // The call that each rank was last seen at.
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
                   " did not come to \"", call, "\" in time"));
}

absl::Status RanksDisagree(uint32_t rank, absl::string_view call,
                           uint32_t other_rank, absl::string_view other_call) {
  return absl::AbortedError(
      absl::StrCat("the ranks disagree: rank ", rank, " is at \"", call,
                   "\", rank ", other_rank, " at \"", other_call, "\""));
}

std::unique_ptr<RankCalls> NewOwnerCalls(uint32_t world_size,
                                         RankCalls::Send send) {
  return std::make_unique<OwnerCalls>(world_size, std::move(send));
}

}  // namespace ckptdb::internal
