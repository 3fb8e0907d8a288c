// SPDX-License-Identifier: Apache-2.0
// Stores and readers that are closed, or that the process ends with.

#include <future>

#include "db/base/changed_steps.h"
#include "tests/db/child.h"
#include "tests/db/store_fixture.h"
#include "tests/support/exit_folder.h"

namespace ckptdb::testing {
namespace {

using ::testing::StartsWith;

using CloseTest = StoreFixture;

TEST_F(CloseTest, AClosedStoreRefusesEveryCall) {
  SaveSmall({1});
  const std::string uuid = store_->uuid();
  ASSERT_OK(store_->Close());
  EXPECT_OK(store_->Close());
  EXPECT_EQ(store_->path(), path());
  EXPECT_EQ(store_->uuid(), uuid);
  for (const absl::Status& status : {Save(2, SmallContent(2)).status(),
                                     store_->Begin({.step = 2}).status(),
                                     store_->Publish({2, 2}, {}).status(),
                                     store_->Abandon({2, 2}),
                                     store_->FindStep(1).status(),
                                     store_->Latest().status(),
                                     store_->OpenStep(1).status(),
                                     store_->OpenChanges({1, 1}, 1).status(),
                                     store_->Fold(1).status(),
                                     store_->Delete(1),
                                     store_->Pin(1),
                                     store_->Unpin(1),
                                     store_->Quarantine(1),
                                     store_->Unquarantine(1),
                                     store_->SetEphemeral(1, true),
                                     store_->AddMetrics(1, {}),
                                     store_->SetUserMetadata({}),
                                     store_->SaveEvaluation(1, "e", "g", {}),
                                     store_->FindEvaluation(1, "e", 0).status(),
                                     store_->ListEvaluations(1).status(),
                                     store_->DeleteEvaluations({}),
                                     store_->Sweep().status(),
                                     store_->GetUsage().status()}) {
    EXPECT_THAT(status, FailedPrecondition("is closed"));
  }
  EXPECT_OK(store_->sweep_status());
  EXPECT_THAT(store_->Steps(), IsEmpty());
  EXPECT_THAT(store_->BadFiles(), IsEmpty());
  EXPECT_THAT(store_->user_metadata(), IsEmpty());
  EXPECT_FALSE(store_->VisitStep(1, [](const StepRecord&) {}));
  store_->VisitSteps([](const StepRecord&) { ADD_FAILURE(); });
  EXPECT_THAT(internal::StepsChangedSince(*store_, 0).steps, IsEmpty());
  // Another owner may open it at once.
  ASSERT_OK_AND_ASSIGN(const auto other, Store::Open(path(), options_));
  ExpectHolds(*other->OpenStep(1).value(), {SmallContent(1)});
}

TEST_F(CloseTest, WaitsForTheCallUnderWay) {
  std::promise<void> staging;
  std::promise<void> go;
  options_.background_sweep = false;
  options_.on_point = [&](absl::string_view point) {
    if (point != "stage:writing") return;
    staging.set_value();
    go.get_future().wait();
  };
  Reopen();
  auto saving = std::async(std::launch::async,
                           [&] { return Save(1, SmallContent(1)).status(); });
  staging.get_future().wait();
  auto closing =
      std::async(std::launch::async, [&] { return store_->Close(); });
  EXPECT_EQ(closing.wait_for(std::chrono::milliseconds(50)),
            std::future_status::timeout);
  go.set_value();
  EXPECT_OK(closing.get());
  EXPECT_OK(saving.get());
  options_.on_point = nullptr;
  Reopen();
  ExpectStep(1, {SmallContent(1)});
}

TEST_F(CloseTest, StaysOpenWhileAReaderIsThere) {
  SaveSmall({1});
  ASSERT_OK_AND_ASSIGN(auto step, store_->OpenStep(1));
  EXPECT_THAT(store_->Close(),
              FailedPrecondition(path(), " 1 open StepReader"));
  ExpectHolds(*step, {SmallContent(1)});
  SaveSmall({2});
  step.reset();
  EXPECT_OK(store_->Close());
}

TEST_F(CloseTest, AHookCannotCloseTheStoreThatCallsIt) {
  std::optional<absl::Status> closed;
  options_.background_sweep = false;
  options_.on_point = [&](absl::string_view) {
    if (!closed.has_value()) closed = store_->Close();
  };
  Reopen();
  SaveSmall({1});
  ASSERT_TRUE(closed.has_value());
  EXPECT_THAT(*closed, FailedPrecondition("cannot be closed from within"));
  ExpectSmall({1});
}

std::unique_ptr<Store> global_store;
Store* leaked_store = nullptr;  // where a leak checker finds it
std::unique_ptr<Reader> global_reader;
std::unique_ptr<StepReader> global_step;

class ExitTest : public CloseTest {
 protected:
  void SetUp() override {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    folder_ = ExitFolder(dir_) + "/store";
  }
  // A store with a step, whose sweeper has work.
  std::unique_ptr<Store> Make() {
    absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(folder_);
    EXPECT_OK(store);
    const HeldState held(BulkContent(1));
    EXPECT_OK((*store)->Save({.step = 1}, held.state()));
    EXPECT_OK((*store)->Save({.step = 1, .overwrite = true}, held.state()));
    return *std::move(store);
  }
  // The process ends well after what `before_exit` leaves.
  void ExpectExits(const std::function<void()>& before_exit) {
    EXPECT_EXIT(
        {
          before_exit();
          std::exit(HasFailure() ? 1 : 0);
        },
        ::testing::ExitedWithCode(0), "");
  }
  std::string folder_;
};

TEST_F(ExitTest, GlobalStore) {
  ExpectExits([this] { global_store = Make(); });
}

TEST_F(ExitTest, GlobalStoreThatWasClosed) {
  ExpectExits([this] {
    global_store = Make();
    EXPECT_OK(global_store->Close());
  });
}

TEST_F(ExitTest, StoreThatIsNeverDestroyed) {
  ExpectExits([this] { leaked_store = Make().release(); });
}

TEST_F(ExitTest, GlobalStoreWithAReader) {
  ExpectExits([this] {
    global_store = Make();
    global_step = *global_store->OpenStep(1);
  });
}

TEST_F(ExitTest, GlobalReader) {
  ExpectExits([this] {
    Make().reset();
    global_reader = *Reader::Open(folder_);
    global_step = *global_reader->OpenStep(1);
  });
}

// By then RocksDB has destroyed its static objects.
TEST_F(ExitTest, OlderExitHandlersAreRefused) {
  Child child({"late", folder_});
  for (const char* call : {"open", "follow", "stage", "save", "verify own",
                           "refresh", "open step", "verify", "look up"}) {
    const std::string line = child.ReadLine();
    EXPECT_THAT(line, StartsWith(absl::StrCat(call, " FAILED_PRECONDITION")));
    EXPECT_THAT(line, AnyOf(HasSubstr("the process is exiting"),
                            HasSubstr("is closed")));
  }
  EXPECT_EQ(child.ReadLine(), "close OK");
  EXPECT_EQ(child.Wait(), 0);
}

TEST_F(ExitTest, OlderExitHandlersOfAStagerAreRefused) {
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(folder_));
  ASSERT_OK_AND_ASSIGN(const auto save, store->Begin({.step = 1}));
  ASSERT_OK_AND_ASSIGN(const std::string ticket, save.tickets[0].Encode());
  Child child({"late-stage", folder_});
  child.Write(ticket);
  child.CloseInput();
  EXPECT_THAT(child.ReadLine(), AllOf(StartsWith("stage FAILED_PRECONDITION"),
                                      HasSubstr("the process is exiting")));
  EXPECT_EQ(child.Wait(), 0);
}

// A save that another thread makes while the process exits is whole or is not
// there. The store is never destroyed: no object may be while it is used.
TEST_F(ExitTest, WhileAThreadSaves) {
  ExpectExits([this] {
    leaked_store = Make().release();
    std::promise<void> saved;
    std::thread([&saved] {
      const HeldState held(BulkContent(2));
      for (int64_t step = 2;; ++step) {
        if (!leaked_store->Save({.step = step}, held.state()).ok()) break;
        if (step == 3) saved.set_value();
      }
      std::promise<void> never;
      never.get_future().wait();
    }).detach();
    saved.get_future().wait();
  });
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(folder_));
  for (const int64_t step : StepsOf(*reader)) {
    ExpectHolds(*reader->OpenStep(step).value(),
                {BulkContent(step == 1 ? 1 : 2)});
  }
  EXPECT_OK(reader->FindStep(3));
}

}  // namespace
}  // namespace ckptdb::testing
