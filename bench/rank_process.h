// A process of its own that stages one rank's part of a save, as the ranks of a
// job do.
#ifndef CKPTDB_BENCH_RANK_PROCESS_H_
#define CKPTDB_BENCH_RANK_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/db/state.h"

namespace ckptdb::bench {

class RankProcess {
 public:
  // Starts this program again, which makes a table of so many rows.
  static absl::StatusOr<std::unique_ptr<RankProcess>> Start(uint64_t rows,
                                                            uint64_t seed);
  // Ends the process.
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  // Sends the ticket, with which the process stages its table.
  absl::Status Send(const std::string& store, const Ticket& ticket,
                    int threads);
  // Waits for what it has staged.
  absl::StatusOr<StagedRank> Receive();

 private:
  RankProcess(pid_t pid, int to, int from) : pid_(pid), to_(to), from_(from) {}

  const pid_t pid_;
  const int to_;
  const int from_;
};

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_RANK_PROCESS_H_
