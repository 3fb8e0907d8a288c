// Messages between ranks that are threads, counted: what a manager sends for a
// save, in bytes and messages.
#ifndef CKPTDB_BENCH_COUNTED_MAILBOXES_H_
#define CKPTDB_BENCH_COUNTED_MAILBOXES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/manager/coordinator.h"

namespace ckptdb::bench {

class CountedMailboxes {
 public:
  // What has come to a rank and gone from it.
  struct Traffic {
    uint64_t messages = 0;
    uint64_t bytes = 0;
  };

  explicit CountedMailboxes(uint32_t world_size);
  ~CountedMailboxes();

  // Returns the transport of a rank, for a MessageCoordinator. The mailboxes
  // outlive it.
  std::unique_ptr<Coordinator::Transport> Join(uint32_t rank);
  Traffic TrafficOf(uint32_t rank) const;

 private:
  class Member;
  using Message = Coordinator::Transport::Message;
  struct Mailbox {
    mutable internal::Mutex mutex;
    internal::ConditionVariable filled;
    std::vector<Message> messages ABSL_GUARDED_BY(mutex);
    Traffic traffic ABSL_GUARDED_BY(mutex);
  };

  std::vector<Message> Exchange(uint32_t rank, std::vector<Message> outgoing);

  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
};

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_COUNTED_MAILBOXES_H_
