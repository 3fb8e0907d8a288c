// SPDX-License-Identifier: Apache-2.0
#include "ranks/mpi_ranks.h"

#include <ckptdb/mpi/mpi_coordinator.h>
#include <ckptdb/schema/status.h>

#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace examples {
namespace {

constexpr int kTag = 1;
// How long ranks that miss others look for each other, to name the others.
constexpr absl::Duration kRollCall = absl::Seconds(1);

absl::Status StatusOf(int code, absl::string_view call) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return absl::UnavailableError(
      absl::StrCat(call, " failed: ", absl::string_view(text, length)));
}

// Lets the other ranks and threads of a busy machine run. Yielding would not
// suffice: threads that only yield keep saving threads off the processors.
void Pause() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock<std::mutex> lock(mutex);
  never.wait_for(lock, std::chrono::microseconds(50));
}

// The messages to and from one rank in one AllToAll.
struct Transfer {
  int rank = 0;
  std::string sent;
  std::string received;
  MPI_Request send = MPI_REQUEST_NULL;
  MPI_Request receive = MPI_REQUEST_NULL;
  bool announced = false;  // the message of that rank is there, or on its way
  bool done = false;
};

absl::Status BeginSend(MPI_Comm comm, Transfer* transfer) {
  if (transfer->sent.size() > std::numeric_limits<int>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a message for rank ", transfer->rank, " has ", transfer->sent.size(),
        " bytes; MPI carries at most ", std::numeric_limits<int>::max(),
        " in one, so choose a smaller --batch"));
  }
  return StatusOf(
      MPI_Isend(transfer->sent.data(), static_cast<int>(transfer->sent.size()),
                MPI_BYTE, transfer->rank, kTag, comm, &transfer->send),
      "MPI_Isend");
}

// Begins to receive, once it is known how much.
absl::Status BeginReceive(MPI_Comm comm, Transfer* transfer) {
  int found = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status = {};
  CKPTDB_RETURN_IF_ERROR(StatusOf(
      MPI_Improbe(transfer->rank, kTag, comm, &found, &message, &status),
      "MPI_Improbe"));
  if (found == 0) return absl::OkStatus();
  transfer->announced = true;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  transfer->received.resize(static_cast<size_t>(bytes));
  return StatusOf(MPI_Imrecv(transfer->received.data(), bytes, MPI_BYTE,
                             &message, &transfer->receive),
                  "MPI_Imrecv");
}

absl::Status Advance(MPI_Comm comm, Transfer* transfer) {
  if (!transfer->announced) {
    CKPTDB_RETURN_IF_ERROR(BeginReceive(comm, transfer));
    if (!transfer->announced) return absl::OkStatus();
  }
  MPI_Request requests[] = {transfer->send, transfer->receive};
  int done = 0;
  const int code = MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
  transfer->done = done != 0;
  return StatusOf(code, "MPI_Testall");
}

// Messages are nonblocking and looked at until the deadline, as one to or from
// a rank that has died never completes.
class MpiRanks : public Ranks {
 public:
  MpiRanks(std::unique_ptr<ckptdb::Coordinator> roll_call,
           absl::Duration deadline)
      : roll_call_(std::move(roll_call)), deadline_(deadline) {}

  uint32_t rank() const override { return roll_call_->rank(); }
  uint32_t size() const override { return roll_call_->world_size(); }
  absl::Duration deadline() const override { return deadline_; }

  absl::StatusOr<std::vector<std::string>> AllToAll(
      absl::string_view what, std::vector<std::string> to) override;

  absl::StatusOr<std::unique_ptr<ckptdb::Coordinator>> NewCoordinator()
      override {
    return ckptdb::MpiCoordinator(MPI_COMM_WORLD, deadline_);
  }

 private:
  absl::Status Complete(absl::string_view what,
                        std::vector<Transfer>* transfers);

  const std::unique_ptr<ckptdb::Coordinator> roll_call_;
  const absl::Duration deadline_;
};

absl::StatusOr<std::vector<std::string>> MpiRanks::AllToAll(
    absl::string_view what, std::vector<std::string> to) {
  std::vector<std::string> from(size());
  auto transfers = std::make_unique<std::vector<Transfer>>();
  for (uint32_t r = 0; r < size(); ++r) {
    if (r == rank()) {
      from[r] = std::move(to[r]);
      continue;
    }
    Transfer& transfer = transfers->emplace_back();
    transfer.rank = static_cast<int>(r);
    transfer.sent = std::move(to[r]);
  }
  const absl::Status completed = Complete(what, transfers.get());
  if (!completed.ok()) {
    // MPI may use the bytes of messages under way for as long as it lives.
    transfers.release();  // NOLINT(bugprone-unused-return-value)
    return completed;
  }
  for (Transfer& transfer : *transfers) {
    from[static_cast<size_t>(transfer.rank)] = std::move(transfer.received);
  }
  return from;
}

absl::Status MpiRanks::Complete(absl::string_view what,
                                std::vector<Transfer>* transfers) {
  const absl::Time end = absl::Now() + deadline_;
  for (Transfer& transfer : *transfers) {
    CKPTDB_RETURN_IF_ERROR(BeginSend(MPI_COMM_WORLD, &transfer));
  }
  for (size_t left = transfers->size(); left > 0;) {
    for (Transfer& transfer : *transfers) {
      if (transfer.done) continue;
      CKPTDB_RETURN_IF_ERROR(Advance(MPI_COMM_WORLD, &transfer));
      if (transfer.done) --left;
    }
    if (left == 0) break;
    if (absl::Now() >= end) {
      const absl::Status missing = roll_call_->Barrier(what, kRollCall);
      return absl::DeadlineExceededError(absl::StrCat(
          "the exchange of ", what, " was not complete within ",
          absl::FormatDuration(deadline_), ": ",
          missing.ok() ? "all ranks are here, but too slow; raise --deadline"
                       : missing.message()));
    }
    Pause();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ranks>> StartMpi(absl::Duration deadline) {
  int provided = MPI_THREAD_SINGLE;
  CKPTDB_RETURN_IF_ERROR(StatusOf(
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided),
      "MPI_Init_thread"));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  CKPTDB_ASSIGN_OR_RETURN(auto roll_call,
                          ckptdb::MpiCoordinator(MPI_COMM_WORLD, deadline));
  return std::make_unique<MpiRanks>(std::move(roll_call), deadline);
}

void EndMpi() { MPI_Finalize(); }

}  // namespace examples
