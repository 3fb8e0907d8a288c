// SPDX-License-Identifier: Apache-2.0
// The ranks of a training job, for the examples: this process alone, threads of
// it, or the processes that mpirun has started. A trainer is the same on all.
//
//   int main(int argc, char** argv) {
//     return examples::RunRanks({.program = "train"}, [](examples::Ranks* own)
//     {
//       CKPTDB_ASSIGN_OR_RETURN(auto ranks, own->NewCoordinator());
//       CKPTDB_ASSIGN_OR_RETURN(
//           const examples::PerRank<float> all,
//           examples::AllGather<float>(own, "gradients", gradients));
//       ...
//     });
//   }
#ifndef CKPTDB_EXAMPLES_RANKS_RANKS_H_
#define CKPTDB_EXAMPLES_RANKS_RANKS_H_

#include <ckptdb/manager/coordinator.h>
#include <ckptdb/schema/status.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace examples {

// One rank's view of the job, for its training thread. All ranks make the same
// calls in the same order. After an error the job cannot continue.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  // How long ranks wait for one another.
  virtual absl::Duration deadline() const = 0;
  bool is_owner() const { return rank() == ckptdb::kOwnerRank; }

  // Sends to[r] to rank r, and returns what each rank has sent to this one, by
  // rank. `what` is for errors. Returns DeadlineExceeded naming the missing
  // ranks.
  virtual absl::StatusOr<std::vector<std::string>> AllToAll(
      absl::string_view what, std::vector<std::string> to) = 0;

  // Returns a coordinator of the same ranks, for a manager. It is destroyed
  // before this.
  virtual absl::StatusOr<std::unique_ptr<ckptdb::Coordinator>>
  NewCoordinator() = 0;
};

struct RankOptions {
  // The name that errors begin with.
  std::string program;
  // The number of ranks: so many threads of this process, from 1 to 4096, or,
  // under mpirun, the number of processes, which is an error unless it is this
  // one. Default: the processes that mpirun has started, or else one rank.
  std::optional<int64_t> ranks = std::nullopt;
  // Default: 5 minutes.
  absl::Duration deadline = absl::Minutes(5);
};

// Runs `body` as each rank of this process, and returns its exit code: 0, or 1
// after an error, which is written to stderr. With several ranks an error ends
// the process at once, without destructors, as these could wait for a rank that
// has died.
int RunRanks(const RankOptions& options,
             const std::function<absl::Status(Ranks* own)>& body);

// Returns this process alone, or one of the ranks of a group of threads.
std::unique_ptr<Ranks> OneRank(absl::Duration deadline = absl::Minutes(5));
std::unique_ptr<Ranks> ThreadRank(
    std::unique_ptr<ckptdb::Coordinator> coordinator, absl::Duration deadline);

// The values for or from each rank, by rank.
template <typename T>
using PerRank = std::vector<std::vector<T>>;

// AllToAll of values that are copied byte by byte.
template <typename T>
absl::StatusOr<PerRank<T>> Exchange(Ranks* own, absl::string_view what,
                                    const PerRank<T>& to) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<std::string> bytes;
  bytes.reserve(to.size());
  for (const std::vector<T>& values : to) {
    bytes.emplace_back(reinterpret_cast<const char*>(values.data()),
                       values.size() * sizeof(T));
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<std::string> received,
                          own->AllToAll(what, std::move(bytes)));
  PerRank<T> from(received.size());
  for (size_t r = 0; r < received.size(); ++r) {
    from[r].resize(received[r].size() / sizeof(T));
    if (from[r].empty()) continue;
    std::memcpy(from[r].data(), received[r].data(), from[r].size() * sizeof(T));
  }
  return from;
}

// Returns the values of all ranks, by rank.
template <typename T>
absl::StatusOr<PerRank<T>> AllGather(Ranks* own, absl::string_view what,
                                     const std::vector<T>& values) {
  return Exchange<T>(own, what, PerRank<T>(own->size(), values));
}

// Returns FailedPrecondition on all ranks, naming one that has other bytes than
// rank 0, such as other options.
absl::Status CheckSame(Ranks* own, absl::string_view what,
                       const std::string& bytes);

// Returns the sum of the values of all ranks.
absl::StatusOr<uint64_t> Sum(Ranks* own, absl::string_view what,
                             uint64_t value);

// Returns on all ranks what `ask` returns on rank 0, which alone calls it: a
// value, or an error.
absl::StatusOr<int64_t> AskOwner(
    Ranks* own, absl::string_view what,
    const std::function<absl::StatusOr<int64_t>()>& ask);

}  // namespace examples

#endif  // CKPTDB_EXAMPLES_RANKS_RANKS_H_
