// SPDX-License-Identifier: Apache-2.0
// All calls of a coordinator, for tests of each implementation.
#ifndef CKPTDB_TESTS_MANAGER_RANKS_ALL_CALLS_H_
#define CKPTDB_TESTS_MANAGER_RANKS_ALL_CALLS_H_

#include <thread>

#include "manager/coordinator.h"
#include "schema/status.h"
#include "tests/support/test.h"

namespace ckptdb::testing {

// Long enough for any machine; no test waits for it to pass.
inline constexpr absl::Duration kLong = absl::Minutes(5);

// Starts an all-gather, by `own`'s implementation or by the default one, makes
// other calls on its duplicate `beside`, and checks the values.
inline absl::Status AllGatherBeside(Coordinator* own, Coordinator* beside,
                                    bool by_default = false) {
  const uint32_t rank = own->rank();
  for (int round = 0; round < 10; ++round) {
    const std::string value = absl::StrCat("vote ", rank, ".", round);
    const auto begun = by_default
                           ? own->Coordinator::StartAllGather("votes", value)
                           : own->StartAllGather("votes", value);
    begun->Poll();
    // Some ranks end it before others reach the call on `beside`. The default
    // exchanges values when it is ended, so there all ranks use the same order.
    const bool ends_first =
        !by_default && (rank + static_cast<uint32_t>(round)) % 2 == 1;
    if (!ends_first) {
      CKPTDB_RETURN_IF_ERROR(beside->Barrier("beside", kLong));
      begun->Poll();
    }
    CKPTDB_ASSIGN_OR_RETURN(const auto votes, begun->Finish(kLong));
    if (ends_first) {
      CKPTDB_RETURN_IF_ERROR(beside->Barrier("beside", kLong));
    }
    EXPECT_EQ(votes.size(), own->world_size());
    for (size_t from = 0; from < votes.size(); ++from) {
      EXPECT_EQ(votes[from], absl::StrCat("vote ", from, ".", round));
    }
  }
  return absl::OkStatus();
}

// Makes all calls ten times, with `own`'s implementations of AllToAll and
// TellEach or with the default ones, and checks the results.
inline absl::Status MakeAllCalls(Coordinator* own, bool by_default = false) {
  const uint32_t rank = own->rank();
  const uint32_t world_size = own->world_size();
  for (int round = 0; round < 10; ++round) {
    CKPTDB_ASSIGN_OR_RETURN(
        const auto values,
        own->Gather("part", absl::StrCat(rank, ".", round), kLong));
    EXPECT_EQ(values.size(), rank == kOwnerRank ? world_size : 0);
    for (size_t r = 0; r < values.size(); ++r) {
      EXPECT_EQ(values[r], absl::StrCat(r, ".", round));
    }
    const std::string mine = absl::StrCat("of ", rank);
    CKPTDB_ASSIGN_OR_RETURN(const std::string one,
                            own->Broadcast("one", mine, kLong));
    EXPECT_EQ(one, "of 0");
    CKPTDB_ASSIGN_OR_RETURN(const std::string told,
                            own->Tell("told", mine, kLong));
    EXPECT_EQ(told, "of 0");
    std::vector<std::string> to_each;
    for (uint32_t to = 0; to < world_size; ++to) {
      to_each.push_back(absl::StrCat(rank, " to ", to, ".", round));
    }
    CKPTDB_ASSIGN_OR_RETURN(
        const std::string part,
        by_default ? own->Coordinator::TellEach("parts", to_each, kLong)
                   : own->TellEach("parts", to_each, kLong));
    EXPECT_EQ(part, absl::StrCat("0 to ", rank, ".", round));
    CKPTDB_RETURN_IF_ERROR(Agree(own, "fine", absl::OkStatus(), kLong));
    const absl::Status bad =
        rank >= 1 ? absl::DataLossError(mine + "!") : absl::OkStatus();
    const absl::Status agreed = Agree(own, "agree", bad, kLong);
    if (world_size == 1) {
      EXPECT_OK(agreed);
    } else {
      EXPECT_EQ(agreed, absl::DataLossError("rank 1: of 1!"));
    }
    CKPTDB_ASSIGN_OR_RETURN(
        const auto from_each,
        by_default ? own->Coordinator::AllToAll("exchange", to_each, kLong)
                   : own->AllToAll("exchange", to_each, kLong));
    EXPECT_EQ(from_each.size(), world_size);
    for (size_t from = 0; from < from_each.size(); ++from) {
      EXPECT_EQ(from_each[from], absl::StrCat(from, " to ", rank, ".", round));
    }
    CKPTDB_RETURN_IF_ERROR(own->Barrier("all", kLong));
  }
  return absl::OkStatus();
}

// The same on the coordinator and, on another thread, on a duplicate.
inline absl::Status MakeAllCallsOnTwoThreads(Coordinator* ranks) {
  CKPTDB_ASSIGN_OR_RETURN(const auto other, ranks->Duplicate());
  CKPTDB_ASSIGN_OR_RETURN(const auto votes, ranks->Duplicate());
  for (const bool by_default : {false, true}) {
    CKPTDB_RETURN_IF_ERROR(AllGatherBeside(votes.get(), ranks, by_default));
  }
  absl::Status second;
  std::thread beside([&] { second = MakeAllCalls(other.get()); });
  absl::Status first = MakeAllCalls(ranks);
  beside.join();
  first.Update(second);
  return first;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_RANKS_ALL_CALLS_H_
