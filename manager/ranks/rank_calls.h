// SPDX-License-Identifier: Apache-2.0
// The calls of one rank in one channel, as a state machine; internal to
// manager/.
//
// It uses no thread, no clock and no transport: the caller passes the time and
// the messages that have arrived, and sends those in the outbox. So a test can
// try any order of messages.
//
// The owner settles each call: when it has the values of all ranks, when two
// ranks are in different calls, or when the first deadline passes on any rank.
// The others follow. A follower that receives nothing asks repeatedly, and
// settles a call itself only if the owner does not answer: then the owner is
// missing.
//
// Guarantees, for ranks whose messages eventually arrive:
//   1. All ranks return the same status from a call, late ones too, as long as
//      the owner lives. If it dies before it has sent the outcome to all, a
//      rank that asks another in time, directly or through a third, returns
//      that rank's outcome; others return an error that the owner is missing.
//      Only the owner can answer for a kTellEach.
//   2. The error of a deadline names the ranks that had not arrived. At an
//      all-to-all it may also name ranks that arrived and fell silent, or that
//      arrived too late for the others to receive their values.
//   3. No rank waits longer than its deadline plus GraceOf(its deadline).
//
// A kAllGather begins long before its rank waits: its request has an infinite
// deadline, and Wait sets the deadline. Until then each rank advances now and
// then. In these guarantees, a rank arrives at a kAllGather when it waits, but
// the call may be settled earlier if all values have arrived.
#ifndef CKPTDB_MANAGER_RANKS_RANK_CALLS_H_
#define CKPTDB_MANAGER_RANKS_RANK_CALLS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "manager/ranks/call_message.h"

namespace ckptdb::internal {

// Returns how long a rank asks for the outcome after its deadline.
absl::Duration GraceOf(absl::Duration deadline);

// Returns the error of a call that `missing` of `world_size` ranks did not
// make.
absl::Status MissingRanks(const std::vector<uint32_t>& missing,
                          uint32_t world_size, absl::string_view call);
// Returns the error of ranks that are in different calls.
absl::Status RanksDisagree(uint32_t rank, absl::string_view call,
                           uint32_t other_rank, absl::string_view other_call);

struct CallRequest {
  CallKind kind = CallKind::kBarrier;
  std::string call;  // from DescribeCall
  std::string value;
  // By rank. Set for kAllToAll, and on the owner for kTellEach.
  std::vector<std::string> values;
  absl::Time now;
  absl::Duration deadline;
};

struct CallResult {
  absl::Status status;
  // The result of kBroadcast, kTell and kTellEach; of kAllGather, all values
  // packed into one string.
  std::string value;
  // By rank. Set on the owner for kGather, on all ranks for kAllToAll.
  std::vector<std::string> values;
};

// Stands for all ranks but the sender.
inline constexpr uint32_t kAllOthers = UINT32_MAX;

class RankCalls {
 public:
  // Sends the messages of a channel.
  class Outbox {
   public:
    using Bytes = std::shared_ptr<const std::string>;

    virtual ~Outbox() = default;
    // Sets the channel, and sends the message. Returns its bytes, which are
    // shared with the transport.
    virtual Bytes Send(uint32_t to, CallMessage message) = 0;
    // Sends the bytes of a large message again, unless the first copy may still
    // be on its way.
    virtual void SendAgain(uint32_t to, Bytes bytes) = 0;
  };

  virtual ~RankCalls() = default;

  // Begins the next call of this rank, after the previous one is over.
  virtual void Begin(CallRequest request) = 0;
  // Called once for each kAllGather, when the rank begins to wait for its end.
  virtual void Wait(absl::Time now, absl::Duration deadline) = 0;
  // Records a message. Advance acts on it, so that the order of messages that
  // arrived together does not matter.
  virtual void OnMessage(uint32_t from, CallMessage message) = 0;
  virtual void Advance(absl::Time now) = 0;
  // Returns whether the call is over. Its result can be taken once.
  virtual bool is_over() const = 0;
  virtual CallResult Take() = 0;

  // The following are for a rank that leaves, and makes no more calls.
  //
  // On the owner, returns whether all ranks that are not `missing` have
  // received the outcomes of its calls; true on other ranks. No rank waits for
  // the end of a kAllGather that the owner has not waited for.
  virtual bool HaveAllHeard(const std::vector<bool>& missing) const = 0;
  // On the owner, sends outcomes again to ranks that have not confirmed them.
  // On other ranks, confirms all outcomes to the owner.
  virtual void Confirm(const std::vector<bool>& missing) = 0;
};

// Rank 0 settles the calls, and all others follow. The outbox outlives them.
std::unique_ptr<RankCalls> NewOwnerCalls(uint32_t world_size,
                                         RankCalls::Outbox* outbox);
std::unique_ptr<RankCalls> NewFollowerCalls(uint32_t rank, uint32_t world_size,
                                            RankCalls::Outbox* outbox);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_RANK_CALLS_H_
