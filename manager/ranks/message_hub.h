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
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/ranks/rank_calls.h"

namespace ckptdb::internal {

// Threads of a rank call it, each in a channel of its own. One of those that
// wait exchanges messages for all; so the transport is used by one thread at a
// time, and only while some thread waits.
//
// An error of the transport ends all calls, and every later one.
class MessageHub {
 public:
  explicit MessageHub(std::unique_ptr<Coordinator::Transport> transport);
  ~MessageHub();
  MessageHub(const MessageHub&) = delete;
  MessageHub& operator=(const MessageHub&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t world_size() const { return world_size_; }

  // Makes the next call in `channel`, which one thread at a time uses. The time
  // of the request is filled in.
  CallResult Call(const std::string& channel, CallRequest request);

  // Leaves the other ranks: see Coordinator::Leave. No call follows. Later
  // calls of it do nothing.
  void Leave();

 private:
  using Message = Coordinator::Transport::Message;

  using Bytes = RankCalls::Outbox::Bytes;
  class Outbox;

  // The calls of a channel, and what they send.
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
  void Progress(absl::Time give_up) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Exchange(absl::Time give_up) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Dispatch(std::vector<Message> incoming)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether what this rank has sent so far has left it, but for what is
  // stuck. Gives up as well when nothing has left for as long as `standstill`.
  bool Flush(absl::Time give_up, absl::Duration standstill)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Whether all ranks have heard how the calls of all channels have ended.
  bool AreAllTold() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void NoteMissing(const std::vector<uint64_t>& heard)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Only the thread that has set `exchanging_` uses it.
  const std::unique_ptr<Coordinator::Transport> transport_;
  const uint32_t rank_;
  const uint32_t world_size_;

  Mutex mutex_;
  // It is notified when messages came or are to go, and when a thread stops
  // exchanging.
  ConditionVariable changed_;
  std::map<std::string, Channel> channels_ ABSL_GUARDED_BY(mutex_);
  std::vector<Message> outgoing_ ABSL_GUARDED_BY(mutex_);
  // These count the messages that were ever in `outgoing_`, and those that were
  // given to the transport.
  uint64_t sent_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  // What the transport has not sent yet.
  size_t unsent_ ABSL_GUARDED_BY(mutex_) = 0;
  // How many of these nobody waits for: at most those to ranks that are
  // missing.
  size_t stuck_ ABSL_GUARDED_BY(mutex_) = 0;
  // The number of messages from each rank.
  std::vector<uint64_t> heard_ ABSL_GUARDED_BY(mutex_);
  // On the owner: the ranks that were not heard of during a call that failed,
  // and not since.
  std::vector<bool> missing_ ABSL_GUARDED_BY(mutex_);
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  bool exchanging_ ABSL_GUARDED_BY(mutex_) = false;
  // How long to wait for the next exchange after one that brought nothing.
  absl::Duration pause_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_MESSAGE_HUB_H_
