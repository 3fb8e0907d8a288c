// SPDX-License-Identifier: Apache-2.0
// Stores and readers that are closed, or that the process ends with.
#include <gmock/gmock.h>

#include <cstdlib>
#include <future>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "db/base/changed_steps.h"
#include "db/reader.h"
#include "tests/db/child.h"
#include "tests/db/store_fixture.h"
#include "tests/support/exit_folder.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class CloseTest : public StoreFixture {
 protected:
  static auto IsClosed() {
    return StatusIs(absl::StatusCode::kFailedPrecondition,
                    HasSubstr("is closed"));
  }
};

TEST_F(CloseTest, AnotherOwnerOpensAClosedStoreAtOnce) {
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK(store_->Close());
  ASSERT_OK_AND_ASSIGN(const auto other, Store::Open(path(), options_));
  ASSERT_OK_AND_ASSIGN(const auto step, other->OpenStep(1));
  ExpectHolds(*step, {SmallContent(1)});
}

TEST_F(CloseTest, AClosedStoreRefusesEveryCall) {
  ASSERT_OK(Save(1, SmallContent(1)));
  const std::string uuid = store_->uuid();
  ASSERT_OK(store_->Close());
  EXPECT_OK(store_->Close());
  EXPECT_EQ(store_->path(), path());
  EXPECT_EQ(store_->uuid(), uuid);
  EXPECT_THAT(Save(2, SmallContent(2)), IsClosed());
  EXPECT_THAT(store_->Begin({.step = 2}), IsClosed());
  EXPECT_THAT(store_->Publish({2, 2}, {}), IsClosed());
  EXPECT_THAT(store_->Abandon({2, 2}), IsClosed());
  EXPECT_THAT(store_->FindStep(1), IsClosed());
  EXPECT_THAT(store_->Latest(), IsClosed());
  EXPECT_THAT(store_->OpenStep(1), IsClosed());
  EXPECT_THAT(store_->OpenChanges({1, 1}, 1), IsClosed());
  EXPECT_THAT(store_->Fold(1), IsClosed());
  EXPECT_THAT(store_->Delete(1), IsClosed());
  EXPECT_THAT(store_->Pin(1), IsClosed());
  EXPECT_THAT(store_->Unpin(1), IsClosed());
  EXPECT_THAT(store_->Quarantine(1), IsClosed());
  EXPECT_THAT(store_->SetEphemeral(1, true), IsClosed());
  EXPECT_THAT(store_->AddMetrics(1, {}), IsClosed());
  EXPECT_THAT(store_->SetUserMetadata({}), IsClosed());
  EXPECT_THAT(store_->SaveEvaluation(1, "e", "g", {}), IsClosed());
  EXPECT_THAT(store_->FindEvaluation(1, "e", 0), IsClosed());
  EXPECT_THAT(store_->ListEvaluations(1), IsClosed());
  EXPECT_THAT(store_->DeleteEvaluations({}), IsClosed());
  EXPECT_THAT(store_->Sweep(), IsClosed());
  EXPECT_OK(store_->sweep_status());
  EXPECT_THAT(store_->GetUsage(), IsClosed());
  EXPECT_THAT(store_->Steps(), IsEmpty());
  EXPECT_THAT(store_->BadFiles(), IsEmpty());
  EXPECT_THAT(store_->user_metadata(), IsEmpty());
  EXPECT_FALSE(store_->VisitStep(1, [](const StepRecord&) {}));
  store_->VisitSteps([](const StepRecord&) { ADD_FAILURE(); });
  EXPECT_THAT(internal::StepsChangedSince(*store_, 0).steps, IsEmpty());
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
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK_AND_ASSIGN(auto step, store_->OpenStep(1));
  EXPECT_THAT(
      store_->Close(),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr(path()), HasSubstr(" 1 open StepReader"))));
  ExpectHolds(*step, {SmallContent(1)});
  EXPECT_OK(Save(2, SmallContent(2)));
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
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_TRUE(closed.has_value());
  EXPECT_THAT(*closed, StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("cannot be closed from within")));
  ExpectStep(1, {SmallContent(1)});
}

// The ends of processes, each in one of its own.
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

  std::string folder_;
};

TEST_F(ExitTest, GlobalStore) {
  EXPECT_EXIT(
      {
        global_store = Make();
        std::exit(HasFailure() ? 1 : 0);
      },
      ExitedWithCode(0), "");
}

TEST_F(ExitTest, GlobalStoreThatWasClosed) {
  EXPECT_EXIT(
      {
        global_store = Make();
        const bool closed = global_store->Close().ok();
        std::exit(closed && !HasFailure() ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST_F(ExitTest, StoreThatIsNeverDestroyed) {
  EXPECT_EXIT(
      {
        leaked_store = Make().release();
        std::exit(HasFailure() ? 1 : 0);
      },
      ExitedWithCode(0), "");
}

TEST_F(ExitTest, GlobalStoreWithAReader) {
  EXPECT_EXIT(
      {
        global_store = Make();
        global_step = *global_store->OpenStep(1);
        std::exit(HasFailure() ? 1 : 0);
      },
      ExitedWithCode(0), "");
}

TEST_F(ExitTest, GlobalReader) {
  EXPECT_EXIT(
      {
        Make().reset();
        global_reader = *Reader::Open(folder_);
        global_step = *global_reader->OpenStep(1);
        std::exit(HasFailure() ? 1 : 0);
      },
      ExitedWithCode(0), "");
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
  EXPECT_EXIT(
      {
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
        std::exit(HasFailure() ? 1 : 0);
      },
      ExitedWithCode(0), "");
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(folder_));
  for (const StepRecord& record : reader->Steps()) {
    ASSERT_OK_AND_ASSIGN(const auto step,
                         reader->OpenStep(record.version.step));
    ExpectHolds(*step, {BulkContent(record.version.step == 1 ? 1 : 2)});
  }
  EXPECT_OK(reader->FindStep(3));
}

}  // namespace
}  // namespace ckptdb::testing
