// The calls of one rank in one channel, as a state machine; internal to
// manager/.
//
// It knows no thread, no clock and no transport: who uses it says what time it
// is, hands it the messages that came, and sends those that it gives to `send`.
// So a test can play any order of messages through it.
//
// The owner settles each call: by the values of all ranks, by two ranks that
// are at different calls, or by the first deadline that passes on any rank.
// The others do what it says. One that hears nothing asks again and again, and
// ends by itself only when the owner does not answer: the owner is the rank
// that is missing then.
//
// Numbered guarantees, for ranks whose messages arrive at last:
//   1. All ranks return the same status from a call, late ones too, as long as
//      the owner lives. When it dies before it has told all of them, those that
//      ask in time a rank that knows the outcome, or one that has asked it,
//      return the same; the others take the owner for missing. A kTellEach is
//      told by the owner alone.
//   2. An error of a deadline names the ranks that had not come; at an
//      all-to-all also those that have come, and were not heard of since, or
//      those that came last, too late for the others to get their values.
//   3. No rank waits longer than its deadline and GraceOf(it).
#ifndef CKPTDB_MANAGER_RANKS_RANK_CALLS_H_
#define CKPTDB_MANAGER_RANKS_RANK_CALLS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ckptdb/manager/ranks/call_message.h"

namespace ckptdb::internal {

// How long a rank asks for the outcome after its deadline.
absl::Duration GraceOf(absl::Duration deadline);

// The error of a call at which `missing` of `world_size` ranks are missing.
absl::Status MissingRanks(const std::vector<uint32_t>& missing,
                          uint32_t world_size, absl::string_view call);
// The error of ranks that are at different calls.
absl::Status RanksDisagree(uint32_t rank, absl::string_view call,
                           uint32_t other_rank, absl::string_view other_call);

struct CallRequest {
  CallKind kind = CallKind::kBarrier;
  std::string call;  // by DescribeCall
  std::string value;
  // One for each rank, at kAllToAll, and at kTellEach on the owner.
  std::vector<std::string> values;
  absl::Time now;
  absl::Duration deadline;
};

struct CallResult {
  absl::Status status;
  std::string value;  // of kBroadcast, kTell and kTellEach
  // Of kGather, on the owner; of kAllToAll, on each rank those for it.
  std::vector<std::string> values;
};

// Stands for all ranks but the own one, as the receivers of a message.
inline constexpr uint32_t kAllOthers = UINT32_MAX;

class RankCalls {
 public:
  // What the ranks of a channel are sent.
  class Outbox {
   public:
    using Bytes = std::shared_ptr<const std::string>;

    virtual ~Outbox() = default;
    // Fills in the channel, and passes the message on. Returns its bytes, which
    // are shared with the transport.
    virtual Bytes Send(uint32_t to, CallMessage message) = 0;
    // Passes the bytes of a large message on once more, unless what was sent
    // before may still be under way.
    virtual void SendAgain(uint32_t to, Bytes bytes) = 0;
  };

  virtual ~RankCalls() = default;

  // Begins the next call of this rank; the one before is over.
  virtual void Begin(CallRequest request) = 0;
  // Takes note of a message. What follows from it is done by Advance, so that
  // it does not depend on the order of messages that came together.
  virtual void OnMessage(uint32_t from, CallMessage message) = 0;
  virtual void Advance(absl::Time now) = 0;
  // Whether the call that was begun is over; its result is taken once.
  virtual bool is_over() const = 0;
  virtual CallResult Take() = 0;

  // The following are for a rank that leaves, and makes no call any more.
  //
  // Returns whether all ranks but those that are `missing` have heard how the
  // calls of the owner have ended; true on the others.
  virtual bool AreAllTold(const std::vector<bool>& missing) const = 0;
  // On the owner, tells the ranks that have not said that they have heard it.
  // The others say so to the owner.
  virtual void TellAgain(const std::vector<bool>& missing) = 0;
};

// Rank 0 settles the calls, all others follow. The outbox outlives them.
std::unique_ptr<RankCalls> NewOwnerCalls(uint32_t world_size,
                                         RankCalls::Outbox* outbox);
std::unique_ptr<RankCalls> NewFollowerCalls(uint32_t rank, uint32_t world_size,
                                            RankCalls::Outbox* outbox);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_RANK_CALLS_H_
