// SPDX-License-Identifier: Apache-2.0
// An in-memory network between a test's ranks that disturbs messages, from a
// seed; and a process group whose collectives do.
#ifndef CKPTDB_TESTS_MANAGER_RANKS_RANK_NETWORK_H_
#define CKPTDB_TESTS_MANAGER_RANKS_RANK_NETWORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "db/base/mutex.h"
#include "manager/coordinator.h"

namespace ckptdb::testing {

// The seed, the sender, the receiver and the number of earlier messages
// determine a message's fate, so that it does not depend on threads.
struct NetworkFaults {
  uint64_t seed = 0;
  double lost = 0;
  double duplicated = 0;
  absl::Duration max_delay = {};  // messages may be reordered
  // The rank that is cut off after it has sent that many messages.
  std::optional<uint32_t> killed = {};
  uint64_t after_messages = 0;
};

// The bytes and messages that a rank has sent and received.
struct NetworkTraffic {
  uint64_t messages = 0;
  uint64_t bytes = 0;
};

class RankNetwork {
 public:
  RankNetwork(uint32_t world_size, NetworkFaults faults);

  // The transport of a rank, for a MessageCoordinator. The network outlives it.
  std::unique_ptr<Coordinator::Transport> Join(uint32_t rank);
  // Returns whether the rank was cut off.
  bool IsDead(uint32_t rank);
  NetworkTraffic TrafficOf(uint32_t rank);

 private:
  class Member;
  using Message = Coordinator::Transport::Message;
  struct Rank {
    bool dead = false;
    uint64_t sent = 0;
    std::map<uint32_t, uint64_t> sent_to;
    NetworkTraffic traffic;
    std::multimap<absl::Time, Message> mailbox;
  };

  absl::StatusOr<std::vector<Message>> Exchange(uint32_t rank,
                                                std::vector<Message> outgoing);
  void Post(uint32_t from, Message message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const NetworkFaults faults_;
  internal::Mutex mutex_;
  std::vector<Rank> ranks_ ABSL_GUARDED_BY(mutex_);
};

// A process group of threads, like Gloo's or NCCL's: a collective returns when
// all ranks have joined it, or when one has aborted the group; then its error
// names the ranks that had not joined.
class CollectiveGroup {
 public:
  explicit CollectiveGroup(uint32_t world_size);

  // The functions of a rank, for a CollectiveCoordinator. The group outlives
  // them.
  Coordinator::Collectives Join(uint32_t rank);

 private:
  struct Round {
    std::string function;
    std::map<uint32_t, std::vector<std::string>> values;
  };

  // The rounds of collectives, or of all-gathers that were started, with the
  // number of those that each rank has entered.
  struct Rounds {
    std::vector<uint64_t> of_rank;
    std::map<uint64_t, Round> rounds;
  };

  absl::StatusOr<std::vector<std::string>> Meet(
      uint32_t rank, const std::string& function,
      std::vector<std::string> values);
  uint64_t Enter(uint32_t rank, const std::string& function,
                 std::vector<std::string> values, Rounds* rounds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::vector<std::string>> Await(uint32_t rank, uint64_t number,
                                                 Rounds* rounds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Abort(const absl::Status& why);

  const uint32_t world_size_;
  internal::Mutex mutex_;
  internal::ConditionVariable changed_;
  Rounds collectives_ ABSL_GUARDED_BY(mutex_);
  Rounds started_ ABSL_GUARDED_BY(mutex_);
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
};

// A rank's fault at its n-th call of a function. A rank that dies neither joins
// a collective nor aborts the group.
struct CollectiveFaults {
  enum class Kind { kFailBefore, kFailAfter, kWrongCount, kThrow, kDie };
  Kind kind = Kind::kFailBefore;
  uint64_t at_call = 0;
  uint64_t seed = 0;
  absl::Duration max_delay;  // of every call
};

Coordinator::Collectives Disturb(Coordinator::Collectives collectives,
                                 const CollectiveFaults& faults);

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_RANKS_RANK_NETWORK_H_
