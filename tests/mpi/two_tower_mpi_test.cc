// SPDX-License-Identifier: Apache-2.0
// The example two_tower under mpirun: it ends with the same state as with
// threads, with any number of ranks, after kills and preemptions.
#include <csignal>

#include "tests/mpi/mpirun.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

class TwoTowerMpiTest : public MpirunTest {
 protected:
  std::string Program(const std::string& store, int steps, int ranks,
                      const std::string& more = "") const {
    return absl::StrCat(CKPTDB_TWO_TOWER " ", dir_.path(), "/", store, " ",
                        steps, " ", ranks, " ", more);
  }

  // Returns the digest that the last run printed, or "".
  std::string Digest() const {
    const std::string text = log();
    const size_t at = text.find("digest ");
    return at == std::string::npos ? "" : text.substr(at, 23);
  }

  std::string TrainThreads(const std::string& store, int steps, int ranks) {
    EXPECT_EQ(Shell(Program(store, steps, ranks)), 0) << log();
    EXPECT_NE(Digest(), "") << log();
    return Digest();
  }

  std::string Train(const std::string& store, int steps, int ranks) {
    EXPECT_EQ(Mpirun(ranks, "", Program(store, steps, ranks)), 0) << log();
    return Digest();
  }
};

TEST_F(TwoTowerMpiTest, ResumedRunMatchesThreads) {
  const std::string expected = TrainThreads("threads", 120, 3);
  const std::string kill = absl::StrCat(SIGKILL, " 71");
  ASSERT_NE(Mpirun(3, "", Program("ranks", 120, 3, kill)), 0) << log();
  ASSERT_EQ(Digest(), "") << log();
  EXPECT_EQ(Train("ranks", 120, 2), expected) << log();
  // The same store, with the other kind and number of ranks.
  EXPECT_EQ(TrainThreads("ranks", 140, 4), Train("threads", 140, 1));
}

TEST_F(TwoTowerMpiTest, SigtermToOneRankSavesAStepOnAllRanks) {
  const std::string preempt = absl::StrCat(SIGTERM, " 50");
  EXPECT_EQ(Mpirun(3, "", Program("ranks", 120, 3, preempt)), 0) << log();
  const std::string preempted = Digest();
  EXPECT_EQ(TrainThreads("ranks", 51, 1), preempted);
}

TEST_F(TwoTowerMpiTest, RejectsAWrongNumberOfRanks) {
  EXPECT_NE(Mpirun(2, "", Program("ranks", 120, 3)), 0);
  EXPECT_THAT(log(), HasSubstr("the number of ranks is given as 3, but mpirun "
                               "has started 2"));
}

}  // namespace
}  // namespace ckptdb::testing
