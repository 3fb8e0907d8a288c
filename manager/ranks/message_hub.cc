// SPDX-License-Identifier: Apache-2.0
#include "manager/ranks/message_hub.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "db/base/call_guard.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// A waiting thread looks for messages after a pause, which doubles while none
// arrives: short at first, because most answers arrive soon, and then longer,
// because the training needs the processor.
constexpr absl::Duration kFirstPause = absl::Microseconds(20);
constexpr absl::Duration kMaxPause = absl::Milliseconds(2);
// A waiting rank checks its deadlines at least this often.
constexpr absl::Duration kMaxWait = absl::Milliseconds(50);
// If no message leaves for this long, the unsent ones count as stuck.
constexpr absl::Duration kMaxStandstill = absl::Seconds(1);

// How long the owner stays for ranks that may lack the outcomes of the last
// calls, and the time until it first resends them, which doubles up to a limit.
constexpr absl::Duration kMaxLeaveTime = absl::Seconds(2);
constexpr absl::Duration kFirstConfirm = absl::Milliseconds(50);
constexpr absl::Duration kMaxConfirm = absl::Milliseconds(200);

}  // namespace

// Sends the messages of one channel. Its callers hold the hub's mutex.
class MessageHub::Outbox : public RankCalls::Outbox {
 public:
  Outbox(MessageHub* hub, std::string channel)
      : hub_(hub), channel_(std::move(channel)) {}

  Bytes Send(uint32_t to, CallMessage message) override {
    hub_->mutex_.AssertHeld();
    message.channel = channel_;
    return hub_->Send(to, message);
  }
  void SendAgain(uint32_t to, Bytes bytes) override {
    hub_->mutex_.AssertHeld();
    hub_->SendAgain(to, std::move(bytes));
  }

 private:
  MessageHub* const hub_;
  const std::string channel_;
};

MessageHub::MessageHub(std::unique_ptr<Coordinator::Transport> transport)
    : transport_(std::move(transport)),
      rank_(transport_->rank()),
      world_size_(transport_->world_size()),
      heard_(world_size_, 0),
      missing_(world_size_, false),
      pause_(kFirstPause) {}
MessageHub::~MessageHub() = default;

CallResult MessageHub::Call(const std::string& channel, CallRequest request) {
  const MutexLock lock(&mutex_);
  CallResult result;
  result.status = broken_;
  if (!broken_.ok()) return result;
  request.now = absl::Now();
  const absl::Duration deadline = request.deadline;
  const bool sends_only =
      request.kind == CallKind::kGather && rank_ != kOwnerRank;
  const std::string call = request.call;
  RankCalls& calls = CallsOf(channel);
  calls.Begin(std::move(request));
  return AwaitEnd(&calls, deadline, sends_only ? call : "");
}

void MessageHub::Begin(const std::string& channel, CallRequest request) {
  const MutexLock lock(&mutex_);
  if (!broken_.ok()) return;
  request.now = absl::Now();
  request.deadline = absl::InfiniteDuration();
  CallsOf(channel).Begin(std::move(request));
  ExchangeOnce();
}

void MessageHub::Poll() {
  const MutexLock lock(&mutex_);
  ExchangeOnce();
}

CallResult MessageHub::Await(const std::string& channel,
                             absl::Duration deadline) {
  const MutexLock lock(&mutex_);
  CallResult result;
  result.status = broken_;
  if (!broken_.ok()) return result;
  RankCalls& calls = CallsOf(channel);
  calls.Wait(absl::Now(), deadline);
  return AwaitEnd(&calls, deadline, "");
}

CallResult MessageHub::AwaitEnd(RankCalls* calls, absl::Duration deadline,
                                const std::string& sends_only) {
  const absl::Time give_up = absl::Now() + deadline + GraceOf(deadline);
  // If the call fails, this shows which ranks sent nothing during it.
  const std::vector<uint64_t> heard = heard_;
  pause_ = kFirstPause;
  while (!calls->is_over() && broken_.ok()) Progress(give_up);
  CallResult result;
  if (!calls->is_over()) {
    result.status = broken_;
    return result;
  }
  result = calls->Take();
  if (!result.status.ok()) {
    // The others must learn of the error, but a missing rank may receive
    // nothing, so this waits only while messages leave.
    Flush(absl::Now() + kMaxStandstill, kMaxStandstill);
    NoteMissing(heard);
    return result;
  }
  // A call is over when its messages have left. The owner gives up after a
  // standstill, because all others wait for it, and it must not wait for a dead
  // rank.
  const bool owner = rank_ == kOwnerRank;
  const bool flushed =
      Flush(give_up, owner ? kMaxStandstill : absl::InfiniteDuration());
  if (!flushed && owner) NoteMissing(heard);
  if (!flushed && !sends_only.empty()) {
    result.status = broken_.ok()
                        ? MissingRanks({kOwnerRank}, world_size_, sends_only)
                        : broken_;
  }
  return result;
}

void MessageHub::Leave() {
  const MutexLock lock(&mutex_);
  if (std::exchange(left_, true)) return;
  const absl::Time give_up = absl::Now() + kMaxLeaveTime;
  if (rank_ != kOwnerRank) Confirm();
  absl::Duration silence = kFirstConfirm;
  absl::Time again = absl::Now() + silence;
  while (broken_.ok() && !HaveAllHeard() && absl::Now() < give_up) {
    Progress(give_up);
    if (absl::Now() < again) continue;
    Confirm();
    silence = std::min(2 * silence, kMaxConfirm);
    again = absl::Now() + silence;
  }
  Flush(give_up, kMaxStandstill);
}

bool MessageHub::HaveAllHeard() const {
  for (const auto& [name, channel] : channels_) {
    if (!channel.calls->HaveAllHeard(missing_)) return false;
  }
  return true;
}

void MessageHub::Confirm() {
  for (const auto& [name, channel] : channels_) {
    channel.calls->Confirm(missing_);
  }
}

RankCalls& MessageHub::CallsOf(const std::string& channel) {
  auto& [outbox, calls] = channels_[channel];
  if (calls != nullptr) return *calls;
  outbox = std::make_unique<Outbox>(this, channel);
  calls = rank_ == kOwnerRank
              ? NewOwnerCalls(world_size_, outbox.get())
              : NewFollowerCalls(rank_, world_size_, outbox.get());
  return *calls;
}

MessageHub::Bytes MessageHub::Send(uint32_t to, const CallMessage& message) {
  auto bytes = std::make_shared<const std::string>(Encode(message));
  for (uint32_t rank = 0; rank < world_size_; ++rank) {
    const bool receives = to == kAllOthers ? rank != rank_ : rank == to;
    if (receives) outgoing_.push_back({rank, bytes});
  }
  ++sent_;
  changed_.NotifyAll();
  return bytes;
}

// A rank also asks for a value that is only slow, and sending it twice would
// take longer. A value that was lost has left this rank.
void MessageHub::SendAgain(uint32_t to, Bytes bytes) {
  const bool waits = std::any_of(
      outgoing_.begin(), outgoing_.end(), [&](const Message& message) {
        return message.rank == to && message.bytes == bytes;
      });
  if (unsent_ > stuck_ || waits) return;
  outgoing_.push_back({to, std::move(bytes)});
  ++sent_;
  changed_.NotifyAll();
}

// Exchanges messages once, or waits for the thread that does so now, and
// advances all calls.
void MessageHub::Progress(absl::Time give_up) {
  if (exchanging_) {
    // The other thread notifies `changed_`; the limit is for this call's
    // deadline.
    changed_.WaitUntil(&mutex_, absl::ToChronoTime(absl::Now() + kMaxWait));
  } else if (Exchange(give_up)) {
    pause_ = kFirstPause;
  } else {
    changed_.WaitUntil(&mutex_, absl::ToChronoTime(absl::Now() + pause_));
    pause_ = std::min(2 * pause_, kMaxPause);
  }
  AdvanceAll();
}

// Called by a thread that does not wait. Does nothing while another thread
// exchanges messages, which serves this thread as well. Messages that have
// arrived come before a call that was begun: see RankCalls::OnMessage.
void MessageHub::ExchangeOnce() {
  if (exchanging_ || !broken_.ok()) return;
  Exchange(absl::Now());
  AdvanceAll();
  if (exchanging_ || !broken_.ok() || outgoing_.empty()) return;
  Exchange(absl::Now());
}

void MessageHub::AdvanceAll() {
  // An error of the transport is the outcome of all calls, not a deadline.
  if (!broken_.ok()) return;
  const absl::Time now = absl::Now();
  for (const auto& [name, channel] : channels_) channel.calls->Advance(now);
}

bool MessageHub::Exchange(absl::Time give_up) {
  // Messages that are added from here on wait for the next exchange.
  std::vector<Message> outgoing = std::exchange(outgoing_, {});
  size_t to_missing = 0;
  for (const Message& message : outgoing) {
    if (missing_[message.rank]) ++to_missing;
  }
  const uint64_t taken = sent_;
  const bool sends = !outgoing.empty();
  exchanging_ = true;
  // The transport may block, so the mutex is released: other threads may begin
  // calls and add messages, but `exchanging_` keeps them from the transport.
  mutex_.Unlock();
  size_t unsent = 0;
  absl::StatusOr<std::vector<Message>> incoming =
      CallGuarded("Coordinator::Transport", [&] {
        auto messages = transport_->Exchange(std::move(outgoing), give_up);
        unsent = transport_->unsent();
        return messages;
      });
  mutex_.Lock();
  exchanging_ = false;
  unsent_ = unsent;
  // Messages to missing ranks may never leave, so no call waits for them. No
  // more can be stuck than are unsent.
  stuck_ = std::min(stuck_ + to_missing, unsent_);
  taken_ = taken;
  broken_.Update(incoming.status());
  const bool receives = incoming.ok() && !incoming->empty();
  if (incoming.ok()) Dispatch(*std::move(incoming));
  changed_.NotifyAll();
  return !broken_.ok() || sends || receives || !outgoing_.empty();
}

// Frees the bytes of each message once it is decoded, so that not all large
// values are in memory twice.
void MessageHub::Dispatch(std::vector<Message> incoming) {
  for (Message& message : incoming) {
    CallMessage decoded;
    const absl::Status status =
        message.rank < world_size_
            ? Annotate(Decode(*message.bytes, &decoded),
                       absl::StrCat("from rank ", message.rank))
            : absl::InternalError(absl::StrCat(
                  "Coordinator::Transport: a message is from rank ",
                  message.rank, "; the ranks are 0 to ", world_size_ - 1));
    broken_.Update(status);
    if (!status.ok()) return;
    ++heard_[message.rank];
    missing_[message.rank] = false;
    message.bytes.reset();
    const std::string channel = decoded.channel;
    CallsOf(channel).OnMessage(message.rank, std::move(decoded));
  }
}

bool MessageHub::Flush(absl::Time give_up, absl::Duration standstill) {
  const uint64_t sent = sent_;
  const auto is_flushed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return taken_ >= sent && unsent_ <= stuck_;
  };
  absl::Time moved = absl::Now();
  while (!is_flushed() && broken_.ok() && absl::Now() < give_up &&
         absl::Now() < moved + standstill) {
    const size_t unsent = unsent_;
    Progress(give_up);
    if (unsent_ < unsent) moved = absl::Now();
  }
  return is_flushed();
}

// Called after a call that failed or got stuck. No later call waits for
// messages that are unsent now, nor for the owner's messages to ranks that have
// sent none since `heard`: sending to a dead rank may never end.
void MessageHub::NoteMissing(const std::vector<uint64_t>& heard) {
  stuck_ = unsent_;
  if (rank_ != kOwnerRank) return;
  for (uint32_t rank = 0; rank < world_size_; ++rank) {
    if (heard_[rank] == heard[rank]) missing_[rank] = true;
  }
}

}  // namespace ckptdb::internal
