// SPDX-License-Identifier: Apache-2.0
// The MPI coordinator, with ranks as processes under mpirun on this host.
#include <filesystem>

#include "db/store.h"
#include "manager/checkpoint_manager.h"
#include "mpi/mpi_coordinator.h"
#include "schema/status.h"
#include "tests/mpi/mpirun.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kOk[] = "OK\n";

class MpiTest : public MpirunTest {
 protected:
  // Returns the result of each rank, empty for a rank without a result.
  std::vector<std::string> Run(int ranks,
                               const std::vector<std::string>& arguments,
                               const std::string& flags = "") {
    const std::string out = absl::StrCat(dir_.path(), "/out", runs_++);
    fs::create_directories(out);
    Mpirun(ranks, flags,
           absl::StrCat(CKPTDB_MPI_RANKS " ", out, " ",
                        absl::StrJoin(arguments, " ")));
    std::vector<std::string> came_to;
    for (int rank = 0; rank < ranks; ++rank) {
      came_to.push_back(Read(absl::StrCat(out, "/", rank)));
    }
    return came_to;
  }

  // Expects that all ranks but `gone` have named it in their errors.
  void ExpectOthersName(int gone, const std::vector<std::string>& came_to) {
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == gone) continue;
      EXPECT_THAT(
          came_to[size_t(rank)],
          AllOf(HasSubstr("DEADLINE_EXCEEDED"),
                HasSubstr(absl::StrCat("ranks ", gone, " of 4 did not reach"))))
          << rank << log();
    }
  }

  std::string store() const { return dir_.path() + "/store"; }

  int runs_ = 0;
};

TEST_F(MpiTest, SavesOnFourRanksAndRestoresOnOthers) {
  EXPECT_THAT(Run(4, {"save", store(), "5"}), Each(kOk)) << log();
  {
    ASSERT_OK_AND_ASSIGN(const auto opened, Store::Open(store()));
    ASSERT_OK_AND_ASSIGN(const StepRecord latest, opened->Latest());
    EXPECT_EQ(latest.version.step, 4);
    EXPECT_EQ(latest.world_size, 4U);
  }
  EXPECT_THAT(Run(3, {"restore", store(), "4"}), Each(kOk)) << log();
  EXPECT_THAT(Run(8, {"restore", store(), "4"}), Each(kOk)) << log();
  // Another number of ranks continues.
  EXPECT_THAT(Run(2, {"save", store(), "8"}), Each(kOk)) << log();
  EXPECT_THAT(Run(1, {"restore", store(), "8"}), Each(kOk)) << log();
}

// Rows are sent from rank to rank: the coordinator has a direct all-to-all.
TEST_F(MpiTest, RestoresModuloShardingOnOtherRanks) {
  EXPECT_THAT(Run(4, {"save", store(), "4", "modulo"}), Each(kOk)) << log();
  EXPECT_THAT(Run(3, {"restore", store(), "4", "modulo"}), Each(kOk)) << log();
  EXPECT_THAT(Run(5, {"restore", store(), "4", "modulo"}), Each(kOk)) << log();
}

TEST_F(MpiTest, ExchangesLargeAndEmptyValues) {
  EXPECT_THAT(Run(4, {"exchange"}), Each(kOk)) << log();
}

TEST_F(MpiTest, AllRanksNameALateRank) {
  EXPECT_THAT(Run(4, {"late"}),
              Each(AllOf(HasSubstr("DEADLINE_EXCEEDED"),
                         HasSubstr("ranks 3 of 4 did not reach \"barrier "
                                   "all\" in time"))))
      << log();
}

TEST_F(MpiTest, AllRanksFailIfTheyDisagree) {
  EXPECT_THAT(Run(3, {"disagree"}),
              Each(AllOf(HasSubstr("ABORTED"), HasSubstr("\"barrier save\""),
                         HasSubstr("rank 2 "))))
      << log();
}

TEST_F(MpiTest, NamesARankWithoutACoordinator) {
  const std::vector<std::string> came_to = Run(4, {"never"});
  for (const size_t rank : {0U, 1U, 2U}) {
    EXPECT_THAT(came_to[rank],
                AllOf(HasSubstr("DEADLINE_EXCEEDED"),
                      HasSubstr("ranks 3 of 4 did not call MpiCoordinator "
                                "within 2s")))
        << log();
  }
}

TEST_F(MpiTest, OtherRanksNameAKilledRank) {
  for (const int killed : {2, 0}) {
    SCOPED_TRACE(killed);
    const std::string path = absl::StrCat(store(), killed);
    ExpectOthersName(killed,
                     Run(4, {"die", path, std::to_string(killed)}, kGoOn));
    // The store has the previous step, and not the interrupted one.
    ASSERT_OK_AND_ASSIGN(const auto opened, Store::Open(path));
    EXPECT_EQ(opened->Latest().value().version.step, 2);
  }
}

TEST_F(MpiTest, OtherRanksNameARankKilledInAnExchange) {
  for (const int killed : {2, 0}) {
    SCOPED_TRACE(killed);
    ExpectOthersName(killed,
                     Run(4, {"die-exchanging", std::to_string(killed)}, kGoOn));
  }
}

TEST_F(MpiTest, RejectsAnInsufficientThreadLevel) {
  EXPECT_THAT(Run(2, {"refused"}),
              Each(AllOf(HasSubstr("FAILED_PRECONDITION"),
                         HasSubstr("MPI provides MPI_THREAD_FUNNELED"),
                         HasSubstr("call MPI_Init_thread"))))
      << log();
}

TEST(MpiCoordinator, FailsIfMpiIsNotInitialized) {
  EXPECT_THAT(MpiCoordinator(MPI_COMM_WORLD, absl::Seconds(1)),
              FailedPrecondition("MPI is not initialized"));
}

// The example in the header.
[[maybe_unused]] absl::Status Train(int argc, char** argv,
                                    const ManagerOptions& options,
                                    ModelState& model) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Coordinator> ranks,
                          MpiCoordinator(MPI_COMM_WORLD, absl::Minutes(5)));
  CKPTDB_ASSIGN_OR_RETURN(
      auto manager, CheckpointManager::Open(options, &model, std::move(ranks)));
  return manager->Close();
}

}  // namespace
}  // namespace ckptdb::testing
