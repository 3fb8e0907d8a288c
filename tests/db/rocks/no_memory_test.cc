// SPDX-License-Identifier: Apache-2.0
// RocksDB is out of memory in the middle of a change: the store is out of use
// until it is opened again, and no call waits for ever.

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "tests/db/sim_store.h"
#include "tests/support/no_memory.h"

namespace ckptdb::testing {
namespace {

// Actions of many allocations take so many runs of the test to fail all.
constexpr uint64_t kManyPasses = 7;

// Ends the program without exit(), which joins RocksDB's threads. One of them
// waits forever if it began to compact during an ingestion that an exception
// has ended: docs/rocksdb.md.
class ExitWithoutThreads : public ::testing::EmptyTestEventListener {
  void OnTestProgramEnd(const ::testing::UnitTest& tests) override {
    std::fflush(nullptr);
    std::_Exit(tests.Passed() ? 0 : 1);
  }
};

class NoMemoryTest : public PreparedStoreTest {
 protected:
  static void SetUpTestSuite() {
    ::testing::UnitTest::GetInstance()->listeners().Append(
        new ExitWithoutThreads);
  }
  void SetUp() override {
    if (!NoMemory::kWorks) GTEST_SKIP() << "under a sanitizer";
    Prepare({SaveAction(1, InlineStep(1)), SaveAction(2, BulkStep(2)),
             DeleteAction(1)});
  }
  void FailEachAllocationOf(const Action& action) {
    EXPECT_GT(FailAllocationsOf(action, 1), 0U) << action.name;
  }
  // Fails one allocation in so many, each once in a long run. A sample may miss
  // those within a write of RocksDB, which take the store out of use.
  void FailSomeAllocationsOf(const Action& action) {
    const uint64_t stride = IsLongRun() ? 1 : kManyPasses * Stride();
    const uint64_t out_of_use = FailAllocationsOf(action, stride);
    if (IsLongRun()) {
      EXPECT_GT(out_of_use, 0U) << action.name;
    }
  }

 private:
  // Returns how many of the failures took the store out of use.
  uint64_t FailAllocationsOf(const Action& action, uint64_t stride) {
    uint64_t out_of_use = 0;
    bool thrown = true;
    for (uint64_t after = FirstCase(stride); thrown && !HasFailure();
         after += stride) {
      SCOPED_TRACE(absl::StrCat(action.name, ", allocation ", after));
      thrown = FailAllocation(action, after, &out_of_use);
    }
    return out_of_use;
  }
  // Returns false if the action needs no more allocations than `after`.
  bool FailAllocation(const Action& action, uint64_t after,
                      uint64_t* out_of_use) {
    SimStore sim(CopyOf(*files_));
    EXPECT_OK(sim.Open());
    if (prepare_) {
      EXPECT_OK(prepare_(&sim));
    }
    StoreModel changed = model_;
    action.apply(&changed);
    bool thrown = false;
    absl::Status status;
    {
      const NoMemory none(static_cast<int64_t>(after));
      // The test takes memory as well.
      status =
          internal::CallGuarded("the action", [&] { return action.run(&sim); });
      thrown = none.HasThrown();
    }
    const Action next = SaveAction(9, InlineStep(9));
    const absl::Status saved = next.run(&sim);
    if (!saved.ok()) {
      ++*out_of_use;
      EXPECT_THAT(saved, FailedPrecondition("unusable until it is reopened"));
    }
    EXPECT_OK(sim.Open()) << "it is closed, and opened again";
    ExpectBeforeOrAfter(&sim, changed, status.ok(),
                        saved.ok() ? &next : nullptr);
    return thrown;
  }
  void ExpectBeforeOrAfter(SimStore* sim, StoreModel changed,
                           bool must_be_after, const Action* next) {
    StoreModel before = model_;
    if (next != nullptr) {
      next->apply(&before);
      next->apply(&changed);
    }
    const std::string found = Outline(*sim->store());
    if (must_be_after) {
      EXPECT_EQ(found, Outline(changed));
    } else {
      EXPECT_THAT(found, AnyOf(Outline(before), Outline(changed)));
    }
    EXPECT_OK(
        ReadModel(sim->store(), found == Outline(before) ? before : changed));
    EXPECT_OK(SaveAction(10, InlineStep(10)).run(sim));
  }

 protected:
  // Comes before the action, and has all the memory that it needs.
  std::function<absl::Status(SimStore*)> prepare_;
};

TEST_F(NoMemoryTest, InlineSaveLeavesStoreThatCanBeOpenedAgain) {
  FailSomeAllocationsOf(SaveAction(3, InlineStep(3)));
}
TEST_F(NoMemoryTest, SaveOfFilesLeavesStoreThatCanBeOpenedAgain) {
  FailSomeAllocationsOf(SaveAction(3, BulkStep(3)));
}
TEST_F(NoMemoryTest, PublishingFilesLeavesStoreThatCanBeOpenedAgain) {
  const ModelStep step = BulkStep(3);
  Store::Attempt attempt;
  std::vector<StagedRank> staged;
  prepare_ = [&](SimStore* sim) {
    SaveSpec spec{.step = 3,
                  .world_size = static_cast<uint32_t>(step.ranks.size())};
    staged.clear();
    auto begun = sim->Begin(spec, step, &staged);
    const absl::Status status = begun.status();
    if (status.ok()) attempt = *std::move(begun);
    return status;
  };
  Action publish = SaveAction(3, step);
  publish.run = [&](SimStore* sim) {
    SaveSpec spec;
    spec.metrics["serial"] = step.serial;
    return sim->store()->Publish(attempt.version, staged, spec).status();
  };
  FailSomeAllocationsOf(publish);
}
TEST_F(NoMemoryTest, PinLeavesStoreThatCanBeOpenedAgain) {
  FailEachAllocationOf(PinAction(2));
}
TEST_F(NoMemoryTest, DeletionLeavesStoreThatCanBeOpenedAgain) {
  FailEachAllocationOf(DeleteAction(2));
}
TEST_F(NoMemoryTest, SweepLeavesStoreThatCanBeOpenedAgain) {
  FailSomeAllocationsOf(SweepAction());
}

}  // namespace
}  // namespace ckptdb::testing
