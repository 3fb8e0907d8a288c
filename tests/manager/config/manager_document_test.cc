// docs/manager.md: its loop is the code between the marks, which runs here.
#include <gmock/gmock.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/schema/status.h"
#include "ckptdb/tests/support/status_matchers.h"
#include "ckptdb/tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

// [preemption]
std::atomic<bool> sigterm = false;
void OnSigterm(int /*signal*/) { sigterm = true; }

absl::Status TrainUntilPreempted(CheckpointManager* manager, int64_t steps,
                                 const std::function<void()>& train) {
  while (manager->global_step() < steps) {
    train();
    if (sigterm.exchange(false)) manager->SetPreempted();
    CKPTDB_ASSIGN_OR_RETURN(const CheckpointManager::StepOutcome outcome,
                            manager->Step());
    if (outcome.preempted) break;
  }
  CKPTDB_RETURN_IF_ERROR(manager->FinishTraining());
  return manager->Close();
}

absl::Status TrainAlone(const ManagerOptions& options, ModelState* model,
                        int64_t steps, const std::function<void()>& train) {
  std::signal(SIGTERM, OnSigterm);
  CKPTDB_ASSIGN_OR_RETURN(auto manager,
                          CheckpointManager::Open(options, model));
  return TrainUntilPreempted(manager.get(), steps, train);
}

// Each rank calls it with its own coordinator; its process sets the handler.
absl::Status TrainAsRank(const ManagerOptions& options, ModelState* model,
                         std::unique_ptr<Coordinator> ranks, int64_t steps,
                         const std::function<void()>& train) {
  CKPTDB_ASSIGN_OR_RETURN(
      auto manager, CheckpointManager::Open(options, model, std::move(ranks)));
  return TrainUntilPreempted(manager.get(), steps, train);
}
// [preemption end]

std::string ReadSource(const std::string& path) {
  std::ifstream file(std::string(CKPTDB_SOURCE "/") + path);
  EXPECT_TRUE(file.is_open()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// What stands between the first `begin` and the next `end`.
std::string Between(const std::string& text, const std::string& begin,
                    const std::string& end) {
  const size_t at = text.find(begin);
  EXPECT_NE(at, std::string::npos) << begin;
  if (at == std::string::npos) return "";
  const size_t from = at + begin.size();
  const size_t until = text.find(end, from);
  EXPECT_NE(until, std::string::npos) << end;
  return text.substr(from, until - from);
}

class DocumentedLoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.path = dir_.path() + "/store";
    options_.schedule.permanent = SaveOnPreemption();
  }
  void TearDown() override { std::signal(SIGTERM, SIG_DFL); }

  void ExpectSavedIsOnly(int64_t step) {
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(options_.path));
    ASSERT_EQ(reader->Steps().size(), 1U);
    EXPECT_EQ(reader->Steps()[0].version.step, step);
  }

  TempDir dir_;
  ManagerOptions options_;
};

TEST_F(DocumentedLoopTest, EqualsTheDocumentedLoop) {
  EXPECT_EQ(Between(ReadSource("docs/manager.md"), "\n```cpp\n", "```\n"),
            Between(ReadSource("tests/manager/config/manager_document_test.cc"),
                    "// [preemption]\n", "// [preemption end]\n"));
}

TEST_F(DocumentedLoopTest, OneRankIsSavedOnSigterm) {
  int64_t trained = 0;
  ModelState model;
  ASSERT_OK(model.AddValue("trained", &trained));
  ASSERT_OK(TrainAlone(options_, &model, 1000, [&] {
    if (++trained == 5) std::raise(SIGTERM);
  }));
  EXPECT_EQ(trained, 5);
  ExpectSavedIsOnly(5);
}

TEST_F(DocumentedLoopTest, SeveralRanksAreSavedOnSigterm) {
  std::signal(SIGTERM, OnSigterm);
  constexpr uint32_t kRanks = 3;
  ThreadGroup group(kRanks);
  std::vector<absl::Status> statuses(kRanks);
  std::vector<int64_t> trained(kRanks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      ModelState model;
      statuses[rank] = model.AddValue("trained", &trained[rank]);
      statuses[rank].Update(TrainAsRank(options_, &model, group.Join(rank),
                                        1'000'000, [&trained, rank] {
                                          if (++trained[rank] == 5 && rank == 1)
                                            std::raise(SIGTERM);
                                        }));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) EXPECT_OK(status);
  EXPECT_LT(trained[0], 1'000'000);
  EXPECT_EQ(trained[1], trained[0]);
  EXPECT_EQ(trained[2], trained[0]);
  ExpectSavedIsOnly(trained[0]);
}

}  // namespace
}  // namespace ckptdb::testing
