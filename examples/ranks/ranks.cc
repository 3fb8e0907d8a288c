// SPDX-License-Identifier: Apache-2.0
#include "ranks/ranks.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "ranks/mpi_ranks.h"

namespace examples {
namespace {

using CoordinatorMaker =
    std::function<absl::StatusOr<std::unique_ptr<ckptdb::Coordinator>>()>;

// The ranks of a coordinator: threads of this process, it alone, or processes.
class CoordinatedRanks : public Ranks {
 public:
  // `another` makes more coordinators of the same ranks. Default: duplicates.
  CoordinatedRanks(std::unique_ptr<ckptdb::Coordinator> coordinator,
                   absl::Duration deadline, CoordinatorMaker another = nullptr)
      : coordinator_(std::move(coordinator)),
        deadline_(deadline),
        another_(std::move(another)) {}

  uint32_t rank() const override { return coordinator_->rank(); }
  uint32_t size() const override { return coordinator_->world_size(); }
  absl::Duration deadline() const override { return deadline_; }
  absl::StatusOr<std::vector<std::string>> AllToAll(
      absl::string_view what, std::vector<std::string> to) override {
    return coordinator_->AllToAll(what, std::move(to), deadline_);
  }
  absl::StatusOr<std::unique_ptr<ckptdb::Coordinator>> NewCoordinator()
      override {
    return another_ ? another_() : coordinator_->Duplicate();
  }

 private:
  const std::unique_ptr<ckptdb::Coordinator> coordinator_;
  const absl::Duration deadline_;
  const CoordinatorMaker another_;
};

// Returns whether mpirun, or an equivalent launcher, has started this process:
// Open MPI, MPICH and its kin, and others that use PMIx set these.
bool StartedByMpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<Ranks>> StartProcess(absl::Duration deadline) {
  CKPTDB_RETURN_IF_ERROR(StartMpi());
  CKPTDB_ASSIGN_OR_RETURN(auto coordinator, MpiCoordinator(deadline));
  // A manager that closes ends the use of its coordinator's duplicates, too.
  return std::make_unique<CoordinatedRanks>(
      std::move(coordinator), deadline,
      [deadline] { return MpiCoordinator(deadline); });
}

int Report(const RankOptions& options, const Ranks& own,
           const absl::Status& status) {
  if (status.ok()) return 0;
  const std::string rank =
      own.size() == 1
          ? ""
          : absl::StrCat("rank ", own.rank(), " of ", own.size(), ": ");
  std::fprintf(stderr, "%s: %s%s\n", options.program.c_str(), rank.c_str(),
               status.ToString().c_str());
  std::fflush(nullptr);
  if (own.size() > 1) _exit(1);
  return 1;
}

int RunThreads(const RankOptions& options, uint32_t size,
               const std::function<absl::Status(Ranks*)>& body) {
  ckptdb::ThreadGroup group(size);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto own = ThreadRank(group.Join(rank), options.deadline);
      Report(options, *own, body(own.get()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

int RunProcess(const RankOptions& options,
               const std::function<absl::Status(Ranks*)>& body) {
  absl::StatusOr<std::unique_ptr<Ranks>> own = StartProcess(options.deadline);
  absl::Status status = own.status();
  if (status.ok() && options.ranks && *options.ranks != (*own)->size()) {
    status = absl::InvalidArgumentError(
        absl::StrCat("the number of ranks is given as ", *options.ranks,
                     ", but mpirun has started ", (*own)->size()));
  }
  if (status.ok()) status = body(own->get());
  if (own.ok() && Report(options, **own, status) == 0) {
    own->reset();
    EndMpi();
    return 0;
  }
  if (!own.ok()) Report(options, *OneRank(), status);
  std::fflush(nullptr);
  // Destructors and MPI_Finalize could wait for ranks that are gone.
  _exit(1);
}

}  // namespace

std::unique_ptr<Ranks> OneRank(absl::Duration deadline) {
  return std::make_unique<CoordinatedRanks>(ckptdb::SingleProcess(), deadline);
}

std::unique_ptr<Ranks> ThreadRank(
    std::unique_ptr<ckptdb::Coordinator> coordinator, absl::Duration deadline) {
  return std::make_unique<CoordinatedRanks>(std::move(coordinator), deadline);
}

int RunRanks(const RankOptions& options,
             const std::function<absl::Status(Ranks*)>& body) {
  if (StartedByMpirun()) return RunProcess(options, body);
  constexpr int64_t kMaxThreads = 4096;
  const int64_t size = options.ranks.value_or(1);
  const auto own = OneRank(options.deadline);
  if (size < 1 || size > kMaxThreads) {
    return Report(options, *own,
                  absl::InvalidArgumentError(
                      absl::StrCat("the number of ranks is ", size,
                                   "; it must be from 1 to ", kMaxThreads)));
  }
  if (size > 1) return RunThreads(options, static_cast<uint32_t>(size), body);
  return Report(options, *own, body(own.get()));
}

absl::Status CheckSame(Ranks* own, absl::string_view what,
                       const std::string& bytes) {
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<std::string> all,
      own->AllToAll(what, std::vector<std::string>(own->size(), bytes)));
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r] == all[ckptdb::kOwnerRank]) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", r, " has other ", what,
                     " than rank 0; start all ranks with the same"));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Sum(Ranks* own, absl::string_view what,
                             uint64_t value) {
  CKPTDB_ASSIGN_OR_RETURN(const PerRank<uint64_t> all,
                          AllGather<uint64_t>(own, what, {value}));
  uint64_t sum = 0;
  for (const std::vector<uint64_t>& of_rank : all) sum += of_rank.at(0);
  return sum;
}

absl::StatusOr<int64_t> AskOwner(
    Ranks* own, absl::string_view what,
    const std::function<absl::StatusOr<int64_t>()>& ask) {
  // The bytes are a value, or the code of an error, a "!" and its words.
  std::string answer;
  if (own->is_owner()) {
    const absl::StatusOr<int64_t> asked = ask();
    const int64_t head = asked.ok() ? *asked : asked.status().raw_code();
    answer.assign(reinterpret_cast<const char*>(&head), sizeof head);
    answer += asked.ok() ? "" : "!";
    absl::StrAppend(&answer, asked.status().message());
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<std::string> answers,
      own->AllToAll(what, std::vector<std::string>(own->size(), answer)));
  const absl::string_view owners = answers[ckptdb::kOwnerRank];
  int64_t head = 0;
  if (owners.size() < sizeof head) {
    return absl::InternalError(
        absl::StrCat("rank 0 has answered \"", what, "\" by ", owners.size(),
                     " bytes, expected at least ", sizeof head));
  }
  std::memcpy(&head, owners.data(), sizeof head);
  if (owners.size() == sizeof head) return head;
  return absl::Status(static_cast<absl::StatusCode>(head),
                      owners.substr(sizeof head + 1));
}

}  // namespace examples
