// SPDX-License-Identifier: Apache-2.0
// The calls of all channels of a rank, over one transport; internal to
// manager/.
#ifndef CKPTDB_MANAGER_RANKS_MESSAGE_HUB_H_
#define CKPTDB_MANAGER_RANKS_MESSAGE_HUB_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/base/mutex.h"
#include "manager/coordinator.h"
#include "manager/ranks/rank_calls.h"

namespace ckptdb::internal {

// Each thread of a rank calls it in a separate channel. One of the waiting
// threads exchanges messages for all, so one thread at a time uses the
// transport, and only while some thread waits.
//
// An error of the transport fails all calls in progress and every later one.
class MessageHub {
 public:
  explicit MessageHub(std::unique_ptr<Coordinator::Transport> transport);
  ~MessageHub();
  MessageHub(const MessageHub&) = delete;
  MessageHub& operator=(const MessageHub&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t world_size() const { return world_size_; }

  // Makes the next call in `channel`, which one thread at a time uses. Sets the
  // request's time.
  CallResult Call(const std::string& channel, CallRequest request);

  // The parts of a kAllGather, whose deadline begins with Await. Begin and Poll
  // exchange messages once, without waiting, unless another thread does so now.
  void Begin(const std::string& channel, CallRequest request);
  void Poll();
  CallResult Await(const std::string& channel, absl::Duration deadline);

  // See Coordinator::Leave. No call follows. Calling it again does nothing.
  void Leave();

 private:
  using Message = Coordinator::Transport::Message;

  using Bytes = RankCalls::Outbox::Bytes;
  class Outbox;

  // The calls of a channel, and their outbox.
  struct Channel {
    std::unique_ptr<Outbox> outbox;
    std::unique_ptr<RankCalls> calls;
  };

  RankCalls& CallsOf(const std::string& channel)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Bytes Send(uint32_t to, const CallMessage& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendAgain(uint32_t to, Bytes bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for the end of the call in progress. `sends_only` is its name if only
  // the sending has to succeed, and empty otherwise.
  CallResult AwaitEnd(RankCalls* calls, absl::Duration deadline,
                      const std::string& sends_only)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ExchangeOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Progress(absl::Time give_up) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdvanceAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether messages were exchanged or are still to be sent.
  bool Exchange(absl::Time give_up) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Dispatch(std::vector<Message> incoming)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends the messages so far, and returns whether all but the stuck ones have
  // left this rank. Gives up at `give_up`, or when none has left for
  // `standstill`.
  bool Flush(absl::Time give_up, absl::Duration standstill)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // See RankCalls. These do it for all channels.
  bool HaveAllHeard() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Confirm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void NoteMissing(const std::vector<uint64_t>& heard)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Used only by the thread that has set `exchanging_`.
  const std::unique_ptr<Coordinator::Transport> transport_;
  const uint32_t rank_;
  const uint32_t world_size_;

  Mutex mutex_;
  // Notified when messages have arrived or are to be sent, and when a thread
  // stops exchanging.
  ConditionVariable changed_;
  std::map<std::string, Channel> channels_ ABSL_GUARDED_BY(mutex_);
  std::vector<Message> outgoing_ ABSL_GUARDED_BY(mutex_);
  // The number of messages ever added to `outgoing_`, and of those passed to
  // the transport.
  uint64_t sent_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  // Transport::unsent() after the last exchange.
  size_t unsent_ ABSL_GUARDED_BY(mutex_) = 0;
  // The number of unsent messages that no call waits for, because their
  // receiver is missing.
  size_t stuck_ ABSL_GUARDED_BY(mutex_) = 0;
  // The number of messages from each rank.
  std::vector<uint64_t> heard_ ABSL_GUARDED_BY(mutex_);
  // On the owner: the ranks that have sent nothing since a call failed without
  // them.
  std::vector<bool> missing_ ABSL_GUARDED_BY(mutex_);
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  bool exchanging_ ABSL_GUARDED_BY(mutex_) = false;
  // The time to wait after an exchange without messages.
  absl::Duration pause_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_MESSAGE_HUB_H_
