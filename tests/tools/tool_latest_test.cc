// SPDX-License-Identifier: Apache-2.0
// "latest" while a trainer retires each step when it saves the next.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/long_run.h"
#include "tests/tools/tool_fixture.h"
#include "tools/open_store.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ToolLatest : public ToolFixture {
 protected:
  // Saves and retires steps until the end, several times while a command opens
  // the store, and ever more rarely until a command has ended: on a busy
  // machine it could not open a store that is always written to.
  void Train() {
    const std::vector<float> weights(1000, 1);
    std::unique_lock<std::mutex> lock(mutex_);
    for (int64_t step = 1000; !done_; ++step) {
      RankState state;
      state.AddTensor("w", TensorView::Of(weights.data(), {1000}));
      PublishSpec publish;
      if (step > 1000) publish.retire = {step - 1};
      ASSERT_OK(store_->Save({.step = step}, state, publish));
      ASSERT_OK(store_->Sweep());
      ++saves_;
      changed_.wait_for(lock, saves_ * std::chrono::milliseconds(1),
                        [this] { return done_; });
    }
  }
  void RunBesideATrainer(const std::vector<std::string>& arguments, int runs) {
    Own();
    std::thread trainer([this] { Train(); });
    // Under a sanitizer, a command is ten times slower, and retries opening a
    // changing store as many times more often.
    if (kSanitized) runs /= 10;
    for (int i = 0; i < runs; ++i) {
      const ToolResult result = Run(arguments);
      EXPECT_EQ(result.code, 0) << result.err;
      const std::lock_guard<std::mutex> lock(mutex_);
      saves_ = 0;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    trainer.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int saves_ = 0;  // since a command has ended last
  bool done_ = false;
};

TEST_F(ToolLatest, VerifyWhileATrainerRuns) {
  RunBesideATrainer({"verify", "latest"}, 60);
}

TEST_F(ToolLatest, DiffWhileATrainerRuns) {
  RunBesideATrainer({"diff", "100", "latest"}, 20);
}

TEST_F(ToolLatest, PlanWhileATrainerRuns) {
  RunBesideATrainer({"plan", "latest", "--from", "100"}, 20);
}

TEST_F(ToolLatest, ShowWhileATrainerRuns) {
  RunBesideATrainer({"show", "latest"}, 20);
}

TEST(RetryLatest, StopsAndReportsTheNumberOfTries) {
  int calls = 0;
  const auto gone = [&] {
    return absl::AbortedError(absl::StrCat("step ", ++calls, " is gone"));
  };
  EXPECT_THAT(tool::RetryLatest(true, gone),
              StatusIs(absl::StatusCode::kAborted,
                       AllOf(HasSubstr("100 times in a row"),
                             HasSubstr("step 100 is gone"))));
  EXPECT_EQ(calls, 100);
}

TEST(RetryLatest, RetriesOnlyAbortedReads) {
  int calls = 0;
  EXPECT_OK(tool::RetryLatest(true, [&] {
    return ++calls < 3 ? absl::AbortedError("") : absl::OkStatus();
  }));
  EXPECT_EQ(calls, 3);
  for (const bool latest : {true, false}) {
    calls = 0;
    const absl::Status error =
        latest ? absl::NotFoundError("none") : absl::AbortedError("gone");
    EXPECT_EQ(tool::RetryLatest(latest,
                                [&] {
                                  ++calls;
                                  return error;
                                }),
              error);
    EXPECT_EQ(calls, 1);
  }
}

}  // namespace
}  // namespace ckptdb::testing
