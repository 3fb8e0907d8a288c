#include "ckptdb/bench/counted_mailboxes.h"

#include <utility>

#include "absl/time/clock.h"

namespace ckptdb::bench {
namespace {

// How long a rank that has nothing to send waits for messages. It has only one
// thread, which has nothing else to do.
constexpr absl::Duration kPatience = absl::Milliseconds(100);

}  // namespace

class CountedMailboxes::Member : public Coordinator::Transport {
 public:
  Member(CountedMailboxes* mailboxes, uint32_t rank)
      : mailboxes_(mailboxes), rank_(rank) {}

  uint32_t rank() const override { return rank_; }
  uint32_t world_size() const override {
    return static_cast<uint32_t>(mailboxes_->mailboxes_.size());
  }
  size_t unsent() const override { return 0; }
  absl::StatusOr<std::vector<Message>> Exchange(
      std::vector<Message> outgoing, absl::Time /*give_up*/) override {
    return mailboxes_->Exchange(rank_, std::move(outgoing));
  }

 private:
  CountedMailboxes* const mailboxes_;
  const uint32_t rank_;
};

CountedMailboxes::CountedMailboxes(uint32_t world_size) {
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    mailboxes_.push_back(std::make_unique<Mailbox>());
  }
}
CountedMailboxes::~CountedMailboxes() = default;

std::unique_ptr<Coordinator::Transport> CountedMailboxes::Join(uint32_t rank) {
  return std::make_unique<Member>(this, rank);
}

CountedMailboxes::Traffic CountedMailboxes::TrafficOf(uint32_t rank) const {
  const Mailbox& mailbox = *mailboxes_[rank];
  const internal::MutexLock lock(&mailbox.mutex);
  return mailbox.traffic;
}

std::vector<Coordinator::Transport::Message> CountedMailboxes::Exchange(
    uint32_t rank, std::vector<Message> outgoing) {
  Traffic sent;
  for (Message& message : outgoing) {
    Mailbox& to = *mailboxes_[message.rank];
    ++sent.messages;
    sent.bytes += message.bytes->size();
    const internal::MutexLock lock(&to.mutex);
    ++to.traffic.messages;
    to.traffic.bytes += message.bytes->size();
    to.messages.push_back({rank, std::move(message.bytes)});
    to.filled.NotifyAll();
  }
  Mailbox& own = *mailboxes_[rank];
  const absl::Time end = absl::Now() + kPatience;
  const internal::MutexLock lock(&own.mutex);
  own.traffic.messages += sent.messages;
  own.traffic.bytes += sent.bytes;
  bool in_time = sent.messages == 0;
  while (own.messages.empty() && in_time) {
    in_time = own.filled.WaitUntil(&own.mutex, absl::ToChronoTime(end));
  }
  return std::exchange(own.messages, {});
}

}  // namespace ckptdb::bench
