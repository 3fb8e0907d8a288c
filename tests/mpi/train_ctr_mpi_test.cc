// SPDX-License-Identifier: Apache-2.0
// The trainer train_ctr under mpirun: its state does not depend on the number
// of ranks, and a run that was killed and resumed ends like one that was not.
#include <poll.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "db/options.h"
#include "db/store.h"
#include "tests/mpi/mpirun.h"
#include "tests/support/long_run.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

constexpr int kSteps = 18;
constexpr char kSmall[] =
    " --batch 37 --dim 4 --hidden 8,5 --zipf-examples 5000 --shuffle 20"
    " --erase-after 5 --save-every 3 --keep 2 --delta --base-every 3";

// A command whose output is read while it runs.
class RunningCommand {
 public:
  explicit RunningCommand(const std::string& command)
      : pipe_(popen(absl::StrCat(command, " 2>&1 < /dev/null").c_str(), "r")) {}
  ~RunningCommand() { Finish(); }
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  // Reads up to a line that contains `words`. Returns false at the end of the
  // output.
  bool ReadUpTo(const std::string& words) {
    std::array<char, 4096> line{};
    while (std::fgets(line.data(), line.size(), pipe_) != nullptr) {
      output_ += line.data();
      if (std::string(line.data()).find(words) != std::string::npos) {
        return true;
      }
    }
    return false;
  }
  // Waits for the command, and returns its exit code.
  int Finish() {
    if (pipe_ == nullptr) return code_;
    while (ReadUpTo("")) {
    }
    const int status = pclose(pipe_);
    pipe_ = nullptr;
    return code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  const std::string& output() const { return output_; }

 private:
  FILE* pipe_;
  int code_ = -1;
  std::string output_;
};

// Returns the word that follows `words` in a text.
std::string After(const std::string& words, const std::string& text) {
  const size_t at = text.rfind(words);
  if (at == std::string::npos) return "";
  const size_t begin = at + words.size();
  return text.substr(begin, text.find_first_of(" :\n", begin) - begin);
}

class TrainCtrMpiTest : public MpirunTest {
 protected:
  std::string Store(const std::string& name) const {
    return absl::StrCat(dir_.path(), "/", name);
  }
  std::string Program(const std::string& store, const std::string& more,
                      int steps = kSteps) const {
    return absl::StrCat(CKPTDB_TRAIN_CTR " --store ", Store(store), " --steps ",
                        steps, kSmall, " ", more);
  }

  // Returns the digest of a run with `ranks` ranks, or of one process without
  // mpirun. Empty if it failed.
  std::string Train(int ranks, const std::string& store,
                    const std::string& more = "", int steps = kSteps) {
    EXPECT_EQ(Mpirun(ranks, "", Program(store, more, steps)), 0) << log();
    return After("digest ", log());
  }
  std::string TrainAlone(const std::string& store, const std::string& more = "",
                         int steps = kSteps) {
    EXPECT_EQ(Shell(Program(store, more, steps)), 0) << log();
    const std::string digest = After("digest ", log());
    EXPECT_EQ(digest.size(), 16U) << log();
    return digest;
  }

  // Waits until a killed owner has ended, which may be after mpirun on a busy
  // machine.
  static int64_t LatestOf(const std::string& path) {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    auto store = ckptdb::Store::Open(path);
    while (absl::IsUnavailable(store.status()) && absl::Now() < deadline) {
      ::poll(nullptr, 0, /*timeout=*/5);
      store = ckptdb::Store::Open(path);
    }
    EXPECT_OK(store);
    if (!store.ok()) return -1;
    const auto latest = (*store)->Latest();
    return latest.ok() ? latest->version.step : 0;
  }
};

TEST_F(TrainCtrMpiTest, ResultDoesNotDependOnRanks) {
  const std::string expected = TrainAlone("alone");
  EXPECT_EQ(Train(1, "one"), expected) << log();
  EXPECT_EQ(Train(4, "four"), expected) << log();
  EXPECT_EQ(Train(3, "three", "--sync --sharding modulo"), expected) << log();
  // More ranks than examples in an evaluation's last batch.
  EXPECT_EQ(Train(8, "eight"), expected) << log();
  for (const std::string name : {"four", "three", "eight"}) {
    ASSERT_EQ(Shell(absl::StrCat(CKPTDB_TOOL " --store ", Store(name),
                                 " verify latest")),
              0)
        << log();
  }
}

struct Crash {
  int rank = 0;
  std::string at;  // the value of --crash-at

  std::string Flags() const {
    return absl::StrCat("--crash-at ", at, " --crash-rank ", rank);
  }
};

// Some of the crashes of one rank of four, or all of them in a long run.
std::vector<Crash> Crashes() {
  std::vector<Crash> crashes = {{2, "11"}, {3, "12:stage:writing"}};
  if (!IsLongRun()) {
    crashes.push_back({0, "12:publish:ingested"});
    crashes.push_back({0, "12:publish:committed"});
    return crashes;
  }
  for (const absl::string_view point : kCrashPoints) {
    crashes.push_back({0, absl::StrCat("12:", point)});
  }
  crashes.push_back({1, "12:stage:done"});
  return crashes;
}

TEST_F(TrainCtrMpiTest, ResumesOnOtherRanksAfterAKill) {
  const std::string expected = TrainAlone("alone");
  int ranks = 0;
  for (const Crash& crash : Crashes()) {
    SCOPED_TRACE(crash.Flags());
    const std::string store = absl::StrCat("store", crash.rank, crash.at);
    EXPECT_NE(Mpirun(4, "", Program(store, crash.Flags())), 0) << log();
    // The previous save may still have been in progress during training.
    EXPECT_THAT(LatestOf(Store(store)), AnyOf(6, 9, 12)) << log();
    const int resumed_on = std::array{3, 8, 1, 2}[size_t(ranks++ % 4)];
    EXPECT_EQ(Train(resumed_on, store, "--resume"), expected) << log();
    EXPECT_THAT(log(), HasSubstr("resumed from step "));
  }
}

TEST_F(TrainCtrMpiTest, ResumesWithOtherSharding) {
  const std::string expected = TrainAlone("alone");
  Train(3, "store", "", 9);
  EXPECT_EQ(Train(2, "store", "--resume --sharding modulo"), expected) << log();
  // One process continues after ranks, and ranks continue after it.
  const std::string longer = TrainAlone("alone", "--resume", 24);
  Train(1, "store", "--resume", 21);
  EXPECT_EQ(Train(4, "store", "--resume", 24), longer) << log();
}

TEST_F(TrainCtrMpiTest, OtherRanksNameAKilledRank) {
  const std::string expected = TrainAlone("alone");
  const std::vector<Crash> crashes = {
      {2, "11"}, {1, "12:stage:writing"}, {0, "12:publish:committed"}};
  for (const Crash& crash : crashes) {
    SCOPED_TRACE(crash.Flags());
    const std::string store = absl::StrCat("store", crash.rank);
    // mpirun then exits with 0, whatever the exit codes of the ranks.
    Mpirun(4, kGoOn, Program(store, "--deadline 3 " + crash.Flags()));
    EXPECT_EQ(After("digest ", log()), "") << log();
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == crash.rank) continue;
      EXPECT_THAT(log(), HasSubstr(absl::StrCat("rank ", rank, " of 4: ")));
    }
    EXPECT_THAT(log(), HasSubstr("DEADLINE_EXCEEDED"));
    EXPECT_THAT(log(),
                HasSubstr(absl::StrCat("ranks ", crash.rank, " of 4 did not")));
    EXPECT_THAT(LatestOf(Store(store)), AnyOf(6, 9, 12));
    EXPECT_EQ(Train(3, store, "--resume"), expected) << log();
  }
}

// Each rank writes its process id to a file.
TEST_F(TrainCtrMpiTest, SigtermToOneRankSavesAStepOnAllRanks) {
  const std::string script = absl::StrCat(dir_.path(), "/rank.sh");
  std::ofstream(script) << "echo $$ > " << dir_.path()
                        << "/pid.$OMPI_COMM_WORLD_RANK\nexec "
                        << Program("store", "", 1'000'000) << "\n";
  RunningCommand job(MpirunCommand(3, "", "sh " + script));
  ASSERT_TRUE(job.ReadUpTo("step 6 saved")) << job.output();
  int pid = 0;
  ASSERT_TRUE(absl::SimpleAtoi(Read(dir_.path() + "/pid.2"), &pid));
  ASSERT_EQ(kill(pid, SIGTERM), 0);
  EXPECT_EQ(job.Finish(), 0) << job.output();
  const std::string digest = After("digest ", job.output());
  const int64_t step = LatestOf(Store("store"));
  EXPECT_GE(step, 6);
  EXPECT_EQ(TrainAlone("alone", "", static_cast<int>(step)), digest)
      << job.output();
  EXPECT_EQ(Train(2, "store", "--resume", static_cast<int>(step)), digest)
      << log();
}

TEST_F(TrainCtrMpiTest, FollowerAndCommandReadDuringTraining) {
  RunningCommand follower(
      absl::StrCat(CKPTDB_TRAIN_CTR " --store ", Store("store"),
                   " --follow --poll-ms 5 --until-step 60"));
  RunningCommand job(MpirunCommand(3, "", Program("store", "", 60)));
  ASSERT_TRUE(job.ReadUpTo("step 6 saved")) << job.output();
  for (const std::string call : {"ls", "verify latest", "show latest"}) {
    EXPECT_EQ(
        Shell(absl::StrCat(CKPTDB_TOOL " --store ", Store("store"), " ", call)),
        0)
        << log();
  }
  EXPECT_EQ(job.Finish(), 0) << job.output();
  EXPECT_EQ(follower.Finish(), 0) << follower.output();
  const std::string digest = After("digest ", job.output());
  EXPECT_EQ(digest.size(), 16U) << job.output();
  EXPECT_EQ(After("digest ", follower.output()), digest) << follower.output();
}

TEST_F(TrainCtrMpiTest, InterruptedEvaluationResumesOnOtherRanks) {
  const std::string expected = TrainAlone("alone");
  const std::string evaluations =
      "--eval-every 6 --eval-save-every 2 --crash-at 12:evaluation";
  EXPECT_NE(Mpirun(2, "", Program("store", evaluations)), 0) << log();
  EXPECT_EQ(LatestOf(Store("store")), 12);
  EXPECT_EQ(Train(3, "store", "--resume"), expected) << log();
}

TEST_F(TrainCtrMpiTest, TrainsOnRealData) {
  const std::string log_path = CKPTDB_SHARED_DATA "/ml-100k/u.data";
  if (!std::filesystem::exists(log_path)) GTEST_SKIP() << "no " << log_path;
  const std::string real =
      absl::StrCat("--data ", log_path, " --format movielens");
  EXPECT_EQ(Train(3, "ranks", real), TrainAlone("alone", real));
}

TEST_F(TrainCtrMpiTest, InvalidFlagsEndAllRanks) {
  EXPECT_NE(Mpirun(2, "", Program("store", "--crash-at 3 --crash-rank 2")), 0);
  EXPECT_THAT(log(),
              HasSubstr("--crash-rank 2: there are 2 ranks, numbered from 0"));
  EXPECT_NE(Mpirun(2, "", Program("store", "--deadline 0")), 0);
  EXPECT_THAT(log(), HasSubstr("--deadline 0 is not above 0 seconds"));
  EXPECT_NE(Mpirun(1, "",
                   absl::StrCat(Program("store", ""), " : -np 1 ",
                                Program("store", "--seed 2"))),
            0);
  EXPECT_THAT(log(), HasSubstr("rank 1 has other options or data than rank 0"));
  Train(2, "store", "", 6);
  EXPECT_NE(Mpirun(2, "", Program("store", "")), 0);
  EXPECT_THAT(log(), HasSubstr("rank 1 of 2: ALREADY_EXISTS"));
}

}  // namespace
}  // namespace ckptdb::testing
