// The communication between the ranks of a training job.
//
// A manager decides once, on its owner's rank, and broadcasts the decision; it
// gathers what the others staged, and all ranks come to the same result. The
// trainer implements the transport by MPI or its own collectives. This file has
// two implementations: one process alone, and threads of one process.
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
// One thread of a rank at a time may call its coordinator.
#ifndef CKPTDB_MANAGER_COORDINATOR_H_
#define CKPTDB_MANAGER_COORDINATOR_H_

#include <cstdint>
#include <memory>
#include <string>
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

  // Returns the values of all ranks, by rank, on the owner, and none on the
  // others, which need not wait for it.
  virtual absl::StatusOr<std::vector<std::string>> Gather(
      absl::string_view tag, std::string value, absl::Duration deadline) = 0;

  // Returns another coordinator of the same ranks, for another thread: its
  // calls never meet those of this one. All ranks make as many duplicates, in
  // the same order.
  virtual absl::StatusOr<std::unique_ptr<Coordinator>> Duplicate() = 0;
};

// Returns the deadline of a broadcast after a gathering: before it the owner
// has waited for what the ranks gather, for `deadline` at the most.
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

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_COORDINATOR_H_
