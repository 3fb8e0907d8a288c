// The communication between the ranks of a training job.
//
// A manager decides once, on its owner's rank, and broadcasts the decision; it
// gathers what the others staged, and all ranks come to the same result. These
// carry it:
//
// | coordinator | ranks |
// |---|---|
// | SingleProcess | one process alone |
// | ThreadGroup | threads of one process |
// | MpiCoordinator (mpi/mpi_coordinator.h) | processes under mpirun |
// | CollectiveCoordinator | those of torch.distributed, Gloo or NCCL |
// | MessageCoordinator | those of anything else that carries messages |
//
//   ThreadGroup group(/*world_size=*/4);
//   std::thread worker([&] {
//     std::unique_ptr<Coordinator> ranks = group.Join(/*rank=*/2);
//     auto parts = ranks->Gather("staged", part, absl::Seconds(60));
//   });
//
// Every rank makes the same calls in the same order, each with the same tag: if
// a tag does not match, all ranks get Aborted, naming the tags. Each call has a
// deadline: when it passes, all ranks get the same DeadlineExceeded that names
// the ranks that are missing, also those that come later. A call that failed
// leaves the ranks where the next one can begin.
//
// One case is beyond any protocol: the owner dies while it tells the others how
// a call has ended. Then a rank that it has not told asks the others. It gets
// the outcome from a rank that knows it and is in a call before this one gives
// up, and DeadlineExceeded, naming the owner, where there is none.
//
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
  class Transport;
  struct Collectives;

  virtual ~Coordinator() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t world_size() const = 0;

  // Returns when all ranks have called it.
  virtual absl::Status Barrier(absl::string_view tag,
                               absl::Duration deadline) = 0;

  // Returns the owner's `value` on all ranks; those of the others are ignored.
  virtual absl::StatusOr<std::string> Broadcast(absl::string_view tag,
                                                std::string value,
                                                absl::Duration deadline) = 0;

  // Returns the owner's `value` on each rank that comes. A rank that does not
  // come costs the others nothing, and the owner waits for none: it is for what
  // is so already, such as a step that is committed. The default is Broadcast.
  virtual absl::StatusOr<std::string> Tell(absl::string_view tag,
                                           std::string value,
                                           absl::Duration deadline) {
    return Broadcast(tag, std::move(value), deadline);
  }

  // Like Tell, but rank r gets the owner's values[r] alone: the owner sends as
  // much as all of them, not as much to each rank. It has one for each rank;
  // those of the others are ignored. A rank that the owner dies before it has
  // told gets DeadlineExceeded, as no other rank knows its value. The default
  // tells all values to all ranks, so it is for few bytes.
  virtual absl::StatusOr<std::string> TellEach(absl::string_view tag,
                                               std::vector<std::string> values,
                                               absl::Duration deadline);

  // Returns the values of all ranks, by rank, on the owner, and none on the
  // others, which need not wait for it.
  virtual absl::StatusOr<std::vector<std::string>> Gather(
      absl::string_view tag, std::string value, absl::Duration deadline) = 0;

  // Sends values[r] to rank r, and returns what each rank has sent to this one,
  // by rank. There is one value for each rank. A rank holds what it sends and
  // what it gets until all ranks have theirs; send much in several calls. The
  // default gathers all values on the owner and broadcasts them, so it is for
  // few bytes.
  virtual absl::StatusOr<std::vector<std::string>> AllToAll(
      absl::string_view tag, std::vector<std::string> values,
      absl::Duration deadline);

  // Returns whether AllToAll sends each value to its rank alone. Then restores
  // move rows by it where every rank would have to read the rows of others.
  // All ranks return the same. Default: false.
  virtual bool HasDirectAllToAll() const { return false; }

  // Returns another coordinator of the same ranks, for another thread: its
  // calls never meet those of this one. All ranks make as many duplicates, in
  // the same order.
  virtual absl::StatusOr<std::unique_ptr<Coordinator>> Duplicate() = 0;

  // Ends the calls of this rank, those of all duplicates as well; no call of it
  // follows or is under way. CheckpointManager::Close calls it. Where messages
  // may be lost, the owner answers the others until all have heard how the last
  // calls have ended, for two seconds at most. The default does nothing.
  virtual void Leave() {}
};

// Returns the deadline of Tell after Gather: before it the owner may have come
// late, by `deadline`, and have waited for what the ranks gather for as long.
// A third one is for what it does when a rank is missing. Tell, not Broadcast,
// as the rank that Gather has missed does not come to either.
absl::Duration AfterGather(const Coordinator& ranks, absl::Duration deadline);

// Brings all ranks to one status. Returns OK if all of `status` are, else the
// error of the lowest rank that has one, with "rank R: " before it where there
// is more than one rank.
absl::Status Agree(Coordinator* ranks, absl::string_view tag,
                   const absl::Status& status, absl::Duration deadline);

// Returns the coordinator of a process alone: rank 0 of 1.
std::unique_ptr<Coordinator> SingleProcess();

// The ranks of a group of threads of this process.
class ThreadGroup {
 public:
  // `world_size` is at least 1.
  explicit ThreadGroup(uint32_t world_size);
  ~ThreadGroup();
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  // Returns the coordinator of one rank, below the world size, for its thread.
  // It is called once for each rank. The coordinator may outlive the group.
  std::unique_ptr<Coordinator> Join(uint32_t rank);

 private:
  class Meeting;
  class Member;
  std::shared_ptr<Meeting> meeting_;
};

// Carries messages from rank to rank, for a MessageCoordinator: a send and a
// receive queue over MPI, sockets, shared memory. A message may be late, lost,
// duplicated or overtaken by another one, but not changed.
//
// Thread-safety: one thread at a time, but not always the same.
class Coordinator::Transport {
 public:
  struct Message {
    // The rank that it goes to, or that it comes from.
    uint32_t rank = 0;
    // Messages that go to several ranks share their bytes.
    std::shared_ptr<const std::string> bytes;
  };

  virtual ~Transport() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t world_size() const = 0;

  // Takes `outgoing`, and returns what has come. It need not wait for either to
  // be complete; one that waits does so until `give_up` at the most. After an
  // error it is not called any more.
  virtual absl::StatusOr<std::vector<Message>> Exchange(
      std::vector<Message> outgoing, absl::Time give_up) = 0;

  // How many messages that it took have not left the memory of this rank. They
  // need another Exchange.
  virtual size_t unsent() const = 0;
};

// Returns a coordinator over `transport`. A rank that has waited for as long as
// its deadline asks the owner for the outcome for a quarter of that longer, at
// least a second and at most ten; so does one whose message was lost, earlier.
// The owner answers in any of its calls, of whatever thread, and in Leave.
std::unique_ptr<Coordinator> MessageCoordinator(
    std::unique_ptr<Coordinator::Transport> transport);

// These are collectives of bytes. Their process group must serve nothing else:
// with torch.distributed it is a new_group(backend="gloo"). All ranks call the
// same ones in the same order, and the threads of a rank take turns. Values
// have any length, which may differ from rank to rank.
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
  // Returns the value of rank 0. The other ranks give an empty one.
  std::function<absl::StatusOr<std::string>(std::string value)> broadcast;
  // values[r] goes to rank r. Returns what each rank has for this one, by rank.
  std::function<absl::StatusOr<std::vector<std::string>>(
      std::vector<std::string> values)>
      all_to_all;
  // Makes the function under way on this rank return an error, and those of the
  // other ranks where it can. It is called from another thread when a deadline
  // passes, and once a function has failed; no function is called after it.
  std::function<void(const absl::Status& why)> abort;
};

// Returns a coordinator over collectives. It cannot go on after a deadline has
// passed within one of the functions, or one has failed: all later calls return
// that error at once, with the words of the function, which should name the
// ranks that are missing where it knows them. Returns InvalidArgument for a
// function that is null, and for a rank that is not below the world size.
absl::StatusOr<std::unique_ptr<Coordinator>> CollectiveCoordinator(
    Coordinator::Collectives collectives);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_COORDINATOR_H_
