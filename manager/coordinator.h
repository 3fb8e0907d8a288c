// SPDX-License-Identifier: Apache-2.0
// Communication between the ranks of a training job.
//
// | coordinator | ranks |
// |---|---|
// | SingleProcess | a single process |
// | ThreadGroup | threads of one process |
// | MpiCoordinator (mpi/mpi_coordinator.h) | processes under mpirun |
// | CollectiveCoordinator | over torch.distributed, Gloo or NCCL |
// | MessageCoordinator | over any other messages |
//
//   ThreadGroup group(/*world_size=*/4);
//   std::thread worker([&] {
//     std::unique_ptr<Coordinator> ranks = group.Join(/*rank=*/2);
//     auto parts = ranks->Gather("staged", part, absl::Seconds(60));
//   });
//
// Every rank makes the same calls in the same order with the same tags; after a
// mismatch all ranks get Aborted, naming the tags. When a call's deadline
// passes, all ranks get the same DeadlineExceeded naming the missing ranks,
// even ranks that arrive later. After a failed call the next one can begin. If
// the owner dies while it announces how a call ended, the others learn the
// outcome from a rank that knows it, or get DeadlineExceeded naming the owner.
// One thread of a rank at a time may call its coordinator.
#ifndef CKPTDB_MANAGER_COORDINATOR_H_
#define CKPTDB_MANAGER_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace ckptdb {

// The rank that owns the store, decides and publishes.
inline constexpr uint32_t kOwnerRank = 0;

class Coordinator {
 public:
  class AllGather;
  class Transport;
  struct Collectives;

  virtual ~Coordinator() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t world_size() const = 0;

  // Returns when all ranks have called it.
  virtual absl::Status Barrier(absl::string_view tag,
                               absl::Duration deadline) = 0;

  // Returns the owner's `value` on all ranks.
  virtual absl::StatusOr<std::string> Broadcast(absl::string_view tag,
                                                std::string value,
                                                absl::Duration deadline) = 0;

  // Broadcast for facts such as a committed step: the owner waits for no rank,
  // and a missing rank does not affect the others. The default is Broadcast.
  virtual absl::StatusOr<std::string> Tell(absl::string_view tag,
                                           std::string value,
                                           absl::Duration deadline) {
    return Broadcast(tag, std::move(value), deadline);
  }

  // Tell with a value for each rank: rank r receives the owner's values[r], or
  // DeadlineExceeded if the owner dies first. The default sends all values to
  // all ranks.
  virtual absl::StatusOr<std::string> TellEach(absl::string_view tag,
                                               std::vector<std::string> values,
                                               absl::Duration deadline);

  // Returns all ranks' values on the owner, and nothing on the others, which
  // need not wait.
  virtual absl::StatusOr<std::vector<std::string>> Gather(
      absl::string_view tag, std::string value, absl::Duration deadline) = 0;

  // Sends values[r] to rank r, and returns what each rank sent to this one. A
  // rank holds both until all ranks have theirs. The default goes through the
  // owner, for small values.
  virtual absl::StatusOr<std::vector<std::string>> AllToAll(
      absl::string_view tag, std::vector<std::string> values,
      absl::Duration deadline);

  // Whether AllToAll sends each value directly to its rank; restores then
  // exchange rows that each rank would otherwise read. The same on all ranks.
  virtual bool HasDirectAllToAll() const { return false; }

  // Begins to send a small value to all ranks, and returns without waiting;
  // AllGather::Finish returns all ranks' values. Until then, calls are made
  // only on duplicates; only one coordinator among them and the original starts
  // all-gathers. The result is not null, and the coordinator outlives it. The
  // default exchanges values in Finish, by Gather and Tell.
  virtual std::unique_ptr<AllGather> StartAllGather(absl::string_view tag,
                                                    std::string value);

  // Returns another coordinator of the same ranks, with independent calls, for
  // another thread. All ranks duplicate in the same order.
  virtual absl::StatusOr<std::unique_ptr<Coordinator>> Duplicate() = 0;

  // Ends this rank's use of the coordinator and its duplicates; no call may be
  // in progress or follow. CheckpointManager::Close calls it. Where messages
  // may be lost, the owner answers other ranks for up to two seconds.
  virtual void Leave() {}
};

// An all-gather in progress, used by the thread that calls the coordinator. If
// it is destroyed without Finish, Leave is the coordinator's only further call.
class Coordinator::AllGather {
 public:
  virtual ~AllGather() = default;

  // Exchanges messages without waiting, so that Finish waits less later.
  virtual void Poll() {}

  // Returns the values of all ranks, by rank, once all have begun it; they need
  // not have called Finish. Called once. The deadline starts with this call.
  virtual absl::StatusOr<std::vector<std::string>> Finish(
      absl::Duration deadline) = 0;
};

// The deadline of a Tell after a Gather: three times `deadline` on a follower,
// because the owner may arrive late and handle a missing rank.
absl::Duration AfterGather(const Coordinator& ranks, absl::Duration deadline);

// Returns OK on all ranks if every `status` is OK, and otherwise the error of
// the lowest rank that has one, prefixed with "rank R: " if there are several
// ranks.
absl::Status Agree(Coordinator* ranks, absl::string_view tag,
                   const absl::Status& status, absl::Duration deadline);

// Rank 0 of 1.
std::unique_ptr<Coordinator> SingleProcess();

// Ranks that are threads of this process.
class ThreadGroup {
 public:
  // `world_size` is at least 1.
  explicit ThreadGroup(uint32_t world_size);
  ~ThreadGroup();
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  // Call it once per rank. The coordinator may outlive the group.
  std::unique_ptr<Coordinator> Join(uint32_t rank);

 private:
  class Meeting;
  class Member;
  class Started;
  std::shared_ptr<Meeting> meeting_;
};

// Carries messages between ranks, over sockets for example. They may be late,
// lost, duplicated or reordered, but not changed. One thread at a time calls
// it, but not always the same one.
class Coordinator::Transport {
 public:
  struct Message {
    // The destination, or the sender.
    uint32_t rank = 0;
    // Shared by messages to several ranks.
    std::shared_ptr<const std::string> bytes;
  };

  virtual ~Transport() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t world_size() const = 0;

  // Takes `outgoing` and returns received messages. May block until `give_up`.
  // Not called again after an error.
  virtual absl::StatusOr<std::vector<Message>> Exchange(
      std::vector<Message> outgoing, absl::Time give_up) = 0;

  // The number of messages in this rank's memory that need another Exchange.
  virtual size_t unsent() const = 0;
};

// After a call's deadline, a rank keeps asking the owner for the outcome for a
// quarter of the deadline, but from one to ten seconds. The owner answers
// during any of its calls, on any thread, and in Leave.
std::unique_ptr<Coordinator> MessageCoordinator(
    std::unique_ptr<Coordinator::Transport> transport);

// Collectives over byte strings, whose lengths may differ between ranks, on a
// process group that serves nothing else: in torch.distributed,
// new_group(backend="gloo"). All ranks call the same ones in the same order,
// and the threads of a rank take turns; `start_all_gather` is an exception.
//
//   Coordinator::Collectives group;
//   group.rank = torch_rank;
//   group.world_size = torch_world_size;
//   group.all_gather = [&](std::string own) { return AllGather(pg, own); };
//   group.broadcast = [&](std::string value) { return FromZero(pg, value); };
//   group.all_to_all = [&](std::vector<std::string> to) {
//     return AllToAll(pg, to);
//   };
//   group.abort = [&](const absl::Status& why) { Abort(pg, why); };
//   auto ranks = CollectiveCoordinator(std::move(group));
struct Coordinator::Collectives {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  // Returns the values of all ranks, by rank.
  std::function<absl::StatusOr<std::vector<std::string>>(std::string own)>
      all_gather;
  // Returns the value of rank 0.
  std::function<absl::StatusOr<std::string>(std::string value)> broadcast;
  // Sends values[r] to rank r. Returns the values for this rank, by sender.
  std::function<absl::StatusOr<std::vector<std::string>>(
      std::vector<std::string> values)>
      all_to_all;
  // Makes the function in progress return an error, on this rank and where
  // possible on others. Called from another thread after a deadline, and after
  // a function failed; no function is called afterwards.
  std::function<void(const absl::Status& why)> abort;
  // Optional, but set on all ranks or on none: begins an all-gather and returns
  // a function, not always called, that waits for all values. One at a time is
  // in progress. It needs a second process group, because ranks run other
  // functions meanwhile, in any order relative to it. Without it, an AllGather
  // exchanges its values only in Finish.
  std::function<std::function<absl::StatusOr<std::vector<std::string>>()>(
      std::string own)>
      start_all_gather;
};

// The coordinator is unusable once a function has failed or exceeded a
// deadline: later calls return that error. Returns InvalidArgument for a null
// function that is not optional, or a rank not below the world size.
absl::StatusOr<std::unique_ptr<Coordinator>> CollectiveCoordinator(
    Coordinator::Collectives collectives);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_COORDINATOR_H_
