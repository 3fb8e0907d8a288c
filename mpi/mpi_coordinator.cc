// SPDX-License-Identifier: Apache-2.0
#include "mpi/mpi_coordinator.h"

#include <chrono>
#include <condition_variable>
#include <limits>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using Message = Coordinator::Transport::Message;

// One tag suffices, because the communicator is not shared.
constexpr int kTag = 0;
// MPI passes the size of a message as an int.
constexpr size_t kMaxMessageBytes = std::numeric_limits<int>::max();
// How long waiting ranks collect messages from each other, to find the missing.
constexpr absl::Duration kRollCall = absl::Seconds(1);

// `call` is the name of the MPI function, such as "MPI_Isend".
absl::Status StatusOf(int code, absl::string_view call) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return absl::UnavailableError(
      absl::StrCat(call, " failed: ", absl::string_view(text, length)));
}

const char* NameOf(int thread_level) {
  switch (thread_level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    default:
      return "an unknown thread level";
  }
}

absl::Status CheckInitialized() {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("MpiCoordinator: MPI is ",
                     finalized != 0 ? "finalized already" : "not initialized",
                     "; call it between MPI_Init_thread and MPI_Finalize"));
  }
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  if (provided >= MPI_THREAD_MULTIPLE) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "MpiCoordinator: MPI provides ", NameOf(provided),
      ", but saving during training needs MPI_THREAD_MULTIPLE; call "
      "MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) instead "
      "of MPI_Init, with an MPI library that was built for it"));
}

absl::Status CheckCommunicator(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) {
    return absl::InvalidArgumentError(
        "MpiCoordinator: the communicator is MPI_COMM_NULL; pass "
        "MPI_COMM_WORLD or a communicator of the ranks that train");
  }
  int is_inter = 0;
  CKPTDB_RETURN_IF_ERROR(
      StatusOf(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter"));
  if (is_inter == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "MpiCoordinator: the communicator is an intercommunicator; merge its "
      "groups with MPI_Intercomm_merge first");
}

// Sleeps, so that other processes on a busy machine can run: MPI itself would
// wait by polling.
void Pause() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock<std::mutex> lock(mutex);
  never.wait_for(lock, std::chrono::microseconds(200));
}

// Returns whether `request` completed before `end`.
absl::StatusOr<bool> WaitFor(MPI_Request* request, absl::Time end) {
  while (true) {
    int done = 0;
    CKPTDB_RETURN_IF_ERROR(
        StatusOf(MPI_Test(request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (done != 0) return true;
    if (absl::Now() >= end) return false;
    Pause();
  }
}

// Sends and receives on its own communicator.
class MpiTransport : public Coordinator::Transport {
 public:
  // Takes ownership of the communicator.
  explicit MpiTransport(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    // The default handler would end the process at the first error.
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  uint32_t rank() const override { return static_cast<uint32_t>(rank_); }
  uint32_t world_size() const override { return static_cast<uint32_t>(size_); }
  size_t unsent() const override { return under_way_->sends.size(); }

  absl::StatusOr<std::vector<Message>> Exchange(std::vector<Message> outgoing,
                                                absl::Time give_up) override;

 private:
  // MPI keeps pointers to a transfer until it is complete, so transfers are in
  // lists, which do not move their elements.
  struct Transfer {
    uint32_t rank = 0;
    std::shared_ptr<const std::string> sent;
    std::string received;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  struct UnderWay {
    std::list<Transfer> sends;
    std::list<Transfer> receives;
  };

  absl::Status Send(Message message);
  absl::Status BeginReceives();
  // Removes the completed transfers from `transfers`, and returns them.
  static absl::StatusOr<std::list<Transfer>> TakeComplete(
      std::list<Transfer>* transfers);

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  std::unique_ptr<UnderWay> under_way_ = std::make_unique<UnderWay>();
};

// A send to a dead rank never completes, and MPI may read its buffer as long as
// the process lives; so the buffer is leaked.
MpiTransport::~MpiTransport() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!under_way_->sends.empty() || !under_way_->receives.empty()) {
    under_way_.release();  // NOLINT(bugprone-unused-return-value)
  } else if (finalized == 0) {
    MPI_Comm_free(&comm_);
  }
}

// Never waits, so it ignores the deadline: the hub calls it repeatedly.
absl::StatusOr<std::vector<Message>> MpiTransport::Exchange(
    std::vector<Message> outgoing, absl::Time /*give_up*/) {
  // A manager may be destroyed, and notify the others, after MPI_Finalize.
  CKPTDB_RETURN_IF_ERROR(CheckInitialized());
  for (Message& message : outgoing) {
    CKPTDB_RETURN_IF_ERROR(Send(std::move(message)));
  }
  CKPTDB_RETURN_IF_ERROR(TakeComplete(&under_way_->sends).status());
  CKPTDB_RETURN_IF_ERROR(BeginReceives());
  CKPTDB_ASSIGN_OR_RETURN(std::list<Transfer> received,
                          TakeComplete(&under_way_->receives));
  std::vector<Message> incoming;
  for (Transfer& transfer : received) {
    incoming.push_back({transfer.rank, std::make_shared<const std::string>(
                                           std::move(transfer.received))});
  }
  return incoming;
}

absl::Status MpiTransport::Send(Message message) {
  if (message.bytes->size() > kMaxMessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message to rank ", message.rank, " has ",
                     message.bytes->size(), " bytes; MPI's limit is ",
                     kMaxMessageBytes, "; divide the state among more ranks"));
  }
  Transfer& transfer = under_way_->sends.emplace_back();
  transfer.rank = message.rank;
  transfer.sent = std::move(message.bytes);
  return StatusOf(
      MPI_Isend(transfer.sent->data(), static_cast<int>(transfer.sent->size()),
                MPI_BYTE, static_cast<int>(transfer.rank), kTag, comm_,
                &transfer.request),
      "MPI_Isend");
}

// Begins to receive all messages that have arrived. MPI_Improbe returns a
// message's size and dequeues it in one step, so a buffer of that size is used
// for this message and no other.
absl::Status MpiTransport::BeginReceives() {
  while (true) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status from = {};
    CKPTDB_RETURN_IF_ERROR(StatusOf(
        MPI_Improbe(MPI_ANY_SOURCE, kTag, comm_, &found, &message, &from),
        "MPI_Improbe"));
    if (found == 0) return absl::OkStatus();
    int bytes = 0;
    MPI_Get_count(&from, MPI_BYTE, &bytes);
    Transfer& transfer = under_way_->receives.emplace_back();
    transfer.rank = static_cast<uint32_t>(from.MPI_SOURCE);
    transfer.received.resize(static_cast<size_t>(bytes));
    CKPTDB_RETURN_IF_ERROR(
        StatusOf(MPI_Imrecv(transfer.received.data(), bytes, MPI_BYTE, &message,
                            &transfer.request),
                 "MPI_Imrecv"));
  }
}

absl::StatusOr<std::list<MpiTransport::Transfer>> MpiTransport::TakeComplete(
    std::list<Transfer>* transfers) {
  std::list<Transfer> complete;
  for (auto next = transfers->begin(); next != transfers->end();) {
    const auto transfer = next++;
    int done = 0;
    CKPTDB_RETURN_IF_ERROR(StatusOf(
        MPI_Test(&transfer->request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (done != 0) complete.splice(complete.end(), *transfers, transfer);
  }
  return complete;
}

// Returns a tag that the trainer is unlikely to use.
int HighestTag(MPI_Comm comm) {
  int* highest = nullptr;
  int found = 0;
  MPI_Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&highest), &found);
  // Every MPI library allows tags up to 32767.
  return found != 0 ? *highest : std::numeric_limits<int16_t>::max();
}

// Collects the ranks that send an empty message, until `end`.
absl::Status CollectPresentRanks(MPI_Comm comm, int tag, absl::Time end,
                                 std::vector<bool>* here) {
  while (absl::Now() < end) {
    int found = 0;
    MPI_Status from = {};
    CKPTDB_RETURN_IF_ERROR(StatusOf(
        MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &found, &from), "MPI_Iprobe"));
    if (found == 0) {
      Pause();
      continue;
    }
    MPI_Recv(nullptr, 0, MPI_BYTE, from.MPI_SOURCE, tag, comm,
             MPI_STATUS_IGNORE);
    (*here)[static_cast<size_t>(from.MPI_SOURCE)] = true;
  }
  return absl::OkStatus();
}

// Returns the error for a communicator that some ranks did not help to create.
// The ranks that called notify each other on `comm` and name the others. The
// job is about to end, so unreceived messages do no harm.
absl::Status MissingRanksError(MPI_Comm comm, absl::Duration deadline) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const int tag = HighestTag(comm);
  for (int to = 0; to < size; ++to) {
    if (to == rank) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    CKPTDB_RETURN_IF_ERROR(StatusOf(
        MPI_Isend(nullptr, 0, MPI_BYTE, to, tag, comm, &request), "MPI_Isend"));
    // The messages are empty, so MPI does not read memory of this process.
    MPI_Request_free(&request);
  }
  std::vector<bool> here(static_cast<size_t>(size), false);
  here[static_cast<size_t>(rank)] = true;
  CKPTDB_RETURN_IF_ERROR(
      CollectPresentRanks(comm, tag, absl::Now() + kRollCall, &here));
  std::vector<int> missing;
  for (int r = 0; r < size; ++r) {
    if (!here[static_cast<size_t>(r)]) missing.push_back(r);
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "ranks ", absl::StrJoin(missing, ", "), " of ", size,
      " did not call MpiCoordinator within ", absl::FormatDuration(deadline)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> MpiCoordinator(
    MPI_Comm comm, absl::Duration deadline) {
  CKPTDB_RETURN_IF_ERROR(CheckInitialized());
  CKPTDB_RETURN_IF_ERROR(CheckCommunicator(comm));
  // MPI writes to `own` when the duplication completes, which may be after the
  // deadline; then it is leaked. MPI_Comm_dup would wait for a missing rank
  // forever.
  auto own = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  CKPTDB_RETURN_IF_ERROR(
      StatusOf(MPI_Comm_idup(comm, own.get(), &request), "MPI_Comm_idup"));
  const absl::StatusOr<bool> done = WaitFor(&request, absl::Now() + deadline);
  if (!done.ok() || !*done) {
    own.release();  // NOLINT(bugprone-unused-return-value)
    CKPTDB_RETURN_IF_ERROR(done.status());
    return MissingRanksError(comm, deadline);
  }
  return MessageCoordinator(std::make_unique<MpiTransport>(*own));
}

}  // namespace ckptdb
