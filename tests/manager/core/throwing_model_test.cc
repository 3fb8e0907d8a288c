// SPDX-License-Identifier: Apache-2.0
// Trainer code that throws: the call or save that runs it fails, and the
// training continues.
#include <new>
#include <stdexcept>

#include "absl/strings/match.h"
#include "tests/manager/forwarding_coordinator.h"
#include "tests/manager/manager_fixture.h"
#include "tests/manager/run_ranks.h"
#include "tests/support/no_threads.h"

namespace ckptdb::testing {
namespace {

[[noreturn]] void Throw() { throw std::runtime_error("the trainer is broken"); }

auto Threw(const std::string& where) {
  return Internal(where, "threw: the trainer is broken");
}

class ThrowingSource : public RowSource {
 public:
  uint64_t block_count() const override { return 1; }
  absl::StatusOr<RowBlock> Block(uint64_t) const override { Throw(); }
};

// Throws at the chosen place.
class ThrowingTable : public TestTable {
 public:
  explicit ThrowingTable(const std::string* at) : at_(*at) {}

  std::vector<Slot> slots() const override {
    Check("slots");
    return TestTable::slots();
  }
  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override {
    Check("AllRows");
    if (at_ == "Block") return std::make_unique<ThrowingSource>();
    if (at_ == "null") return std::unique_ptr<RowSource>();
    return TestTable::AllRows();
  }
  LiveTable* Live(absl::Span<const std::string> slots) override {
    Check("Live");
    return TestTable::Live(slots);
  }
  absl::Status Clear() override {
    Check("Clear");
    return TestTable::Clear();
  }
  absl::Status Consume(int worker, const RowSink::Batch& batch) override {
    Check("Consume");
    return TestTable::Consume(worker, batch);
  }

 private:
  void Check(const char* call) const {
    if (at_ == call) Throw();
  }
  const std::string& at_;
};

class ThrowingIo : public BlobState {
 public:
  explicit ThrowingIo(const std::string* at) : at_(*at) {}
  absl::StatusOr<std::string> Dump() override {
    if (at_ == "Dump") Throw();
    if (at_ == "memory") throw std::bad_alloc();
    return "";
  }
  absl::Status Load(absl::string_view) override {
    if (at_ == "Load") Throw();
    return absl::OkStatus();
  }

 private:
  const std::string& at_;
};

class ThrowingModelTest : public ManagerTest {
 protected:
  void StartThrowing() {
    Start();
    manager_.reset();
    at_.clear();
    table_ = std::make_unique<ThrowingTable>(&at_);
    ASSERT_OK(model_->state.AddTable("item", table_.get()));
    ASSERT_OK(model_->state.AddIoState("throwing", &io_));
    ASSERT_OK_AND_ASSIGN(manager_,
                         CheckpointManager::Open(options_, &model_->state));
    table_->Set(1, 1.5f);
  }

  std::string at_;
  std::unique_ptr<ThrowingTable> table_;
  ThrowingIo io_{&at_};
};

TEST_F(ThrowingModelTest, SaveFails_WhenTheModelThrows) {
  const auto no_memory = ResourceExhausted("BlobState::Dump");
  const auto null = InvalidArgument("\"item\"", "AllRows returned null");
  const std::vector<std::pair<std::string, ::testing::Matcher<absl::Status>>>
      places = {{"slots", Threw("TableState")},
                {"AllRows", Threw("TableState")},
                {"Block", Threw("RowSource::Block")},
                {"Dump", Threw("BlobState::Dump")},
                {"memory", no_memory},
                {"null", null}};
  for (const bool async : {true, false}) {
    options_.save.async = async;
    options_.path = dir_.path() + (async ? "/async" : "/sync");
    StartThrowing();
    int64_t step = 1;
    for (const auto& [at, error] : places) {
      SCOPED_TRACE(absl::StrCat(at, async));
      at_ = at;
      ASSERT_TRUE(manager_->StepTo(step += 2).ok());
      // The first to receive the error.
      absl::Status status = manager_->Save().status();
      status.Update(manager_->WaitUntilFinished());
      EXPECT_THAT(status, error);
      EXPECT_OK(manager_->CheckForErrors());
    }
    at_.clear();
    ASSERT_OK(manager_->Save());
    ASSERT_OK(manager_->Close());
    EXPECT_THAT(Steps(), ElementsAre(step));
  }
}

TEST_F(ThrowingModelTest, RestoreFails_WhenTheModelThrows) {
  StartThrowing();
  TrainAndWait(2);
  const std::vector<std::pair<std::string, std::string>> places = {
      {"Live", "ModelState"},
      {"Clear", "LiveTable::Clear"},
      {"Consume", "RowSink::Consume"},
      {"Load", "io_state \"throwing\""}};
  for (const auto& [at, where] : places) {
    SCOPED_TRACE(at);
    at_ = at;
    EXPECT_THAT(manager_->Restore(), Threw(where));
  }
  at_.clear();
  ASSERT_OK(manager_->Restore());
  EXPECT_EQ(table_->rows().size(), 1U);
  TrainTo(4);
  EXPECT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
}

// Exceptions of callbacks undo nothing, and are returned once.
TEST_F(ThrowingModelTest, CallbacksThatThrowFailTheNextCall) {
  for (const bool async : {true, false}) {
    SCOPED_TRACE(async);
    options_.save.async = async;
    options_.path = dir_.path() + (async ? "/async" : "/sync");
    options_.observers.on_saved = [](const SaveReport&) { Throw(); };
    options_.observers.on_restored = [](const RestoreReport&) { Throw(); };
    options_.observers.on_deleted = [](int64_t) { Throw(); };
    Start();
    TrainTo(2);
    EXPECT_THAT(manager_->WaitUntilFinished(),
                Threw("ManagerOptions::observers.on_saved"));
    EXPECT_OK(manager_->CheckForErrors());
    EXPECT_OK(manager_->Restore());
    EXPECT_THAT(manager_->Step(),
                Threw("ManagerOptions::observers.on_restored"));
    EXPECT_EQ(manager_->global_step(), 3);
    EXPECT_OK(manager_->Delete(2));
    EXPECT_THAT(manager_->Close(),
                Threw("ManagerOptions::observers.on_deleted"));
    EXPECT_THAT(Steps(), ElementsAre());
  }
}

TEST_F(ThrowingModelTest, WarningCallbackMayThrow) {
  options_.save.tolerated_failures = 1;
  options_.observers.on_warning = [](const std::string&) { Throw(); };
  Start();
  gate_.Close();
  TrainTo(1);
  ASSERT_OK_AND_ASSIGN(PendingSave save, manager_->Save());
  save.Cancel();
  gate_.Open();
  EXPECT_THAT(manager_->WaitUntilFinished(),
              Threw("ManagerOptions::observers.on_warning"));
  TrainTo(2);
  EXPECT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2));
}

TEST_F(ThrowingModelTest, ClockMayThrow) {
  bool broken = false;
  options_.observers.now_micros = [&]() -> int64_t {
    if (broken) Throw();
    return 1;
  };
  Start();
  TrainTo(1);
  broken = true;
  EXPECT_THAT(TrainStep(), Threw("deciding on a save"));
  EXPECT_THAT(manager_->Save().status(), Threw("deciding on a save"));
  EXPECT_OK(manager_->WaitUntilFinished());
  broken = false;
  TrainTo(4);
  EXPECT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(4));
}

class ThrowingRanks : public ForwardingCoordinator {
 public:
  ThrowingRanks(std::unique_ptr<Coordinator> ranks, std::string at)
      : ForwardingCoordinator(std::move(ranks)), at_(std::move(at)) {}
  absl::StatusOr<std::string> Broadcast(absl::string_view tag,
                                        std::string value,
                                        absl::Duration wait) override {
    if (absl::StartsWith(tag, at_)) Throw();
    return ForwardingCoordinator::Broadcast(tag, std::move(value), wait);
  }
  absl::StatusOr<std::vector<std::string>> Gather(
      absl::string_view tag, std::string value, absl::Duration wait) override {
    if (absl::StartsWith(tag, at_)) Throw();
    return ForwardingCoordinator::Gather(tag, std::move(value), wait);
  }
  absl::StatusOr<std::unique_ptr<Coordinator>> Duplicate() override {
    if (at_ == "duplicate") Throw();
    CKPTDB_ASSIGN_OR_RETURN(auto other, ForwardingCoordinator::Duplicate());
    return std::make_unique<ThrowingRanks>(std::move(other), at_);
  }

 private:
  const std::string at_;
};

TEST_F(ThrowingModelTest, CoordinatorMayThrow) {
  TestModel model;
  EXPECT_THAT(CheckpointManager::Open(options_, &model.state,
                                      std::make_unique<ThrowingRanks>(
                                          SingleProcess(), "duplicate")),
              Threw("Coordinator::Duplicate"));
  EXPECT_THAT(CheckpointManager::Open(options_, &model.state, nullptr),
              InvalidArgument("the coordinator is null"));
  EXPECT_THAT(CheckpointManager::Open(options_, nullptr),
              InvalidArgument("the model is null"));
}

// The exception is thrown on the save thread, where the trainer cannot catch
// it.
TEST_F(ThrowingModelTest, CoordinatorMayThrowInTheBackground) {
  options_.observers.on_saved = nullptr;
  options_.ranks.sharding = TableSharding::ByModulo();
  OnRanks(2, [&](uint32_t rank, auto ranks) -> absl::Status {
    TestModel model;
    const auto manager = CheckpointManager::Open(
        options_, &model.state,
        std::make_unique<ThrowingRanks>(std::move(ranks), "attempt"));
    EXPECT_OK(manager);
    EXPECT_OK((*manager)->Step());
    EXPECT_OK((*manager)->Save());
    EXPECT_THAT((*manager)->WaitUntilFinished(),
                Threw(rank == kOwnerRank ? "Coordinator::Gather"
                                         : "Coordinator::Tell"));
    return absl::OkStatus();
  });
}

// All ranks receive the exception of one rank's callback.
TEST_F(ThrowingModelTest, CallbackThatThrowsOnOneRankFailsAll) {
  options_.observers.on_saved = nullptr;
  options_.ranks.deadline = absl::Seconds(30);
  RunModels(
      2, options_,
      [](uint32_t, CheckpointManager* manager, TestModel* model) {
        model->Train(1);
        ASSERT_OK(manager->Step());
        model->Train(2);
        ASSERT_OK_AND_ASSIGN(const StepOutcome saved, manager->Step());
        ASSERT_TRUE(saved.save.has_value());
        ASSERT_OK(saved.save->WaitCommitted());
        // The next save waits for the first to end.
        absl::Status told = manager->Save().status();
        if (told.ok() || absl::IsAlreadyExists(told)) {
          told = manager->StepTo(3).status();
        }
        EXPECT_THAT(told, Threw("rank 1: ManagerOptions::observers.on_saved"));
        EXPECT_OK(manager->StepTo(5));
        EXPECT_OK(manager->Close());
      },
      [](uint32_t rank, ManagerOptions* options) {
        if (rank != 1) return;
        options->observers.on_saved = [](const SaveReport&) { Throw(); };
      });
}

TEST_F(ThrowingModelTest, SaveRunsOnTheCallingThread_WithoutThreads) {
  if (!NoThreads::kWorks) GTEST_SKIP() << "not in sanitizer builds";
  Start();
  {
    const NoThreads none;
    TrainTo(2);
    EXPECT_FALSE(manager_->IsSavingInProgress());
  }
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2));
  ExpectStepHolds(2);
}

}  // namespace
}  // namespace ckptdb::testing
