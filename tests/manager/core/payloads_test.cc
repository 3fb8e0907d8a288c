// SPDX-License-Identifier: Apache-2.0
// Payloads of the errors of the trainer's code reach the caller, on all ranks.
#include "db/base/status_exception.h"
#include "manager/ranks/message_codec.h"
#include "schema/bytes/annotate.h"
#include "tests/manager/manager_fixture.h"
#include "tests/manager/run_ranks.h"

namespace ckptdb::testing {
namespace {

constexpr char kUrl[] = "test/cause";

std::string Cause() { return std::string("\0a \xff cause", 10); }

absl::Status Broken(absl::StatusCode code = absl::StatusCode::kUnavailable) {
  absl::Status status(code, "the trainer is broken");
  status.SetPayload(kUrl, absl::Cord(Cause()));
  status.SetPayload("test/other", absl::Cord("other"));
  return status;
}

MATCHER(HasCause, "has the cause") {
  const absl::Status& status = StatusOf(arg);
  *result_listener << "which is " << status.ToString();
  const auto cause = status.GetPayload(kUrl);
  const auto other = status.GetPayload("test/other");
  return !status.ok() && cause.has_value() && std::string(*cause) == Cause() &&
         other.has_value() && std::string(*other) == "other";
}

TEST(Payloads, SurviveContextAndOtherCodes) {
  EXPECT_THAT(internal::Annotate(Broken(), "rank 1"), HasCause());
  EXPECT_THAT(internal::Annotate(absl::StatusOr<int>(Broken()), "rank 1"),
              HasCause());
  EXPECT_THAT(
      internal::Reword(Broken(), absl::StatusCode::kInternal, "reworded"),
      AllOf(HasCause(), Internal("reworded")));
  EXPECT_EQ(internal::Annotate(absl::OkStatus(), "rank 1"), absl::OkStatus());
}

TEST(Payloads, SurviveTheWayToAnotherRank) {
  for (const absl::Status& sent :
       {absl::OkStatus(), Broken(), absl::NotFoundError(""),
        absl::Status(absl::StatusCode::kAborted,
                     absl::string_view("a \0 byte", 8))}) {
    EXPECT_EQ(internal::DecodeStatus(internal::EncodeStatus(sent)), sent);
  }
  const std::string bytes = internal::EncodeStatus(Broken());
  for (size_t length = 1; length < bytes.size(); ++length) {
    EXPECT_THAT(
        internal::DecodeStatus(absl::string_view(bytes).substr(0, length)),
        Internal("cannot decode the status of another rank"));
  }
  EXPECT_THAT(internal::DecodeStatus(bytes + "x"), Internal("cannot decode"));
}

class BrokenSource : public RowSource {
 public:
  uint64_t block_count() const override { return 1; }
  absl::StatusOr<RowBlock> Block(uint64_t) const override { return Broken(); }
};

// Fails in the chosen call.
class BrokenTable : public TestTable {
 public:
  explicit BrokenTable(const std::string* at) : at_(*at) {}

  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override {
    if (at_ == "AllRows") return Broken();
    if (at_ == "Block") return std::make_unique<BrokenSource>();
    return TestTable::AllRows();
  }
  absl::StatusOr<std::unique_ptr<Captured>> Capture(
      const absl::Span<const int64_t>* ids) const override {
    if (at_ == "Capture") return Broken();
    return TestTable::Capture(ids);
  }
  absl::Status CheckId(int64_t id) const override {
    return at_ == "CheckId" ? Broken() : TestTable::CheckId(id);
  }
  std::optional<uint64_t> capacity() const override { return 1000; }
  absl::Status Clear() override {
    return at_ == "Clear" ? Broken() : TestTable::Clear();
  }
  absl::Status Consume(int worker, const RowSink::Batch& batch) override {
    if (at_ == "Consume") return Broken();
    return TestTable::Consume(worker, batch);
  }

 private:
  const std::string& at_;
};

class BrokenBlob : public BlobState {
 public:
  explicit BrokenBlob(const std::string* at) : at_(*at) {}

  absl::StatusOr<std::string> Dump() override {
    if (at_ == "Dump") return Broken();
    // Callers must not take it for "no such step".
    if (at_ == "Dump without a file") {
      return Broken(absl::StatusCode::kNotFound);
    }
    return "";
  }
  absl::Status Load(absl::string_view) override {
    if (at_ == "Load") return Broken();
    if (at_ == "Load without a file") {
      return Broken(absl::StatusCode::kNotFound);
    }
    return absl::OkStatus();
  }

 private:
  const std::string& at_;
};

class PayloadsTest : public ManagerTest {
 protected:
  void StartBroken() {
    manager_.reset();
    at_.clear();
    model_ = std::make_unique<TestModel>();
    table_ = std::make_unique<BrokenTable>(&at_);
    ASSERT_OK(model_->state.AddTable("item", table_.get()));
    ASSERT_OK(model_->state.AddIoState("io", &blob_));
    ASSERT_OK(model_->state.AddObject("object", &blob_));
    ASSERT_OK_AND_ASSIGN(manager_,
                         CheckpointManager::Open(options_, &model_->state));
    table_->Set(1, 1.5f);
  }
  void TearDown() override {
    manager_.reset();
    ManagerTest::TearDown();
  }

  std::string at_;
  std::unique_ptr<BrokenTable> table_;
  BrokenBlob blob_{&at_};
};

TEST_F(PayloadsTest, ErrorsOfSavesHaveTheCause) {
  const std::vector<std::string> places = {"AllRows", "Capture", "Block",
                                           "Dump", "Dump without a file"};
  // Each receives the error of a save in the background first.
  const std::vector<std::function<absl::Status()>> calls = {
      [&] { return TrainStep().status(); },
      [&] { return manager_->Save().status(); },
      [&] { return manager_->Restore().status(); },
      [&] { return manager_->Load({}).status(); },
      [&] { return manager_->FinishTraining(); },
      [&] { return manager_->CheckForErrors(); },
      [&] { return manager_->WaitUntilFinished(); },
      [&] { return manager_->Close(); },
  };
  options_.save.deltas = false;
  int store = 0;
  for (const std::string& at : places) {
    SCOPED_TRACE(at);
    for (const auto& call : calls) {
      options_.path = absl::StrCat(dir_.path(), "/store", ++store);
      ASSERT_NO_FATAL_FAILURE(StartBroken());
      TrainTo(1);
      at_ = at;
      ASSERT_OK_AND_ASSIGN(const PendingSave save, manager_->Save());
      while (manager_->IsSavingInProgress()) std::this_thread::yield();
      EXPECT_THAT(call(), HasCause());
      EXPECT_THAT(save.WaitCommitted(), HasCause());
      EXPECT_THAT(reports_.back().status, HasCause());
    }
    options_.save.async = false;
    ASSERT_NO_FATAL_FAILURE(StartBroken());
    at_ = at;
    EXPECT_THAT(manager_->Save(), HasCause());
    options_.save.async = true;
  }
}

TEST_F(PayloadsTest, ErrorsOfRestoresAndLoadsHaveTheCause) {
  StartBroken();
  TrainAndWait(2);
  for (const std::string at :
       {"CheckId", "Clear", "Consume", "Load", "Load without a file"}) {
    SCOPED_TRACE(at);
    at_ = at;
    EXPECT_THAT(manager_->Restore(), HasCause());
    EXPECT_THAT(manager_->RestoreOrStart(), HasCause());
    EXPECT_THAT(manager_->Load({LoadRule()}), HasCause());
  }
  at_.clear();
  EXPECT_OK(manager_->Restore());
}

// A policy or an observer cannot return an error, but may throw one.
TEST_F(PayloadsTest, ErrorsOfPoliciesAndObserversHaveTheCause) {
  using internal::StatusException;
  bool breaks = false;
  options_.schedule.permanent = SaveIf("mine", [&](const SavePolicy::Context&) {
    if (breaks) throw StatusException(Broken());
    return true;
  });
  options_.retention.keep = KeepIf("mine", [&](const StepInfo&) -> bool {
    if (breaks) throw StatusException(Broken());
    return true;
  });
  Start();
  TrainAndWait(2);
  breaks = true;
  EXPECT_THAT(TrainStep(), HasCause());
  EXPECT_THAT(manager_->ShouldSave(9), HasCause());
  ASSERT_OK_AND_ASSIGN(const PendingSave save, manager_->Save());
  EXPECT_THAT(save.WaitCommitted(), HasCause());
  breaks = false;
  options_.observers.on_saved = [](const SaveReport&) {
    throw StatusException(Broken());
  };
  options_.observers.on_restored = [](const RestoreReport&) {
    throw StatusException(Broken());
  };
  Reopen();
  EXPECT_OK(manager_->Restore());
  EXPECT_THAT(manager_->WaitUntilFinished(), HasCause());
  TrainTo(3);
  EXPECT_THAT(manager_->Close(), HasCause());
}

// The error of one rank is that of all.
TEST_F(PayloadsTest, ErrorsOfAnotherRankHaveTheCause) {
  options_.observers.on_saved = nullptr;
  for (const uint32_t broken : {0U, 1U}) {
    SCOPED_TRACE(broken);
    options_.path = absl::StrCat(dir_.path(), "/store", broken);
    RunModels(2, options_,
              [&](uint32_t rank, CheckpointManager* manager, TestModel* model) {
                const auto from_rank =
                    AllOf(HasCause(),
                          Unavailable(absl::StrCat("rank ", broken, ": ")));
                for (int64_t step = 1; step <= 2; ++step) {
                  model->Train(step);
                  ASSERT_OK(manager->Step());
                }
                ASSERT_OK(manager->WaitUntilFinished());
                if (rank == broken) model->reader.refuses = Broken();
                EXPECT_THAT(manager->Restore(), from_rank);
                EXPECT_THAT(manager->Load({LoadRule()}), from_rank);
                model->reader.refuses = absl::OkStatus();
                ASSERT_OK(manager->Restore());
                model->Train(3);
                ASSERT_OK(manager->Step());
                if (rank == broken) model->users.FailWith(Broken());
                ASSERT_OK_AND_ASSIGN(const PendingSave save, manager->Save());
                EXPECT_THAT(save.WaitCommitted(), from_rank);
                model->users.FailWith(absl::OkStatus());
                EXPECT_OK(manager->Close());
              });
  }
}

// The calls of EvaluationState return payloads, too.
TEST_F(PayloadsTest, ErrorsOfEvaluationsHaveTheCause) {
  Start();
  TrainAndWait(2);
  std::string at = "Dump";
  BrokenBlob meters(&at);
  ASSERT_OK(manager_->evaluation()->AddGroup("group", &meters));
  const EvaluationState::Name name = {2, "test", "group"};
  TestIo loader;
  EXPECT_THAT(manager_->evaluation()->Save(name, &loader, 1), HasCause());
  at.clear();
  ASSERT_OK(manager_->evaluation()->Save(name, &loader, 1));
  at = "Load";
  EXPECT_THAT(manager_->evaluation()->Load(name, &loader), HasCause());
}

}  // namespace
}  // namespace ckptdb::testing
