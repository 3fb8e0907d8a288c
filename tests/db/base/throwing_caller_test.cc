// SPDX-License-Identifier: Apache-2.0
// Code of the caller's that throws, and memory that runs out: errors, on
// whatever thread they happen.

#include <rocksdb/file_system.h>

#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <stdexcept>

#include "db/base/call_guard.h"
#include "db/base/parallel.h"
#include "db/reader.h"
#include "tests/db/delta_fixture.h"
#include "tests/support/long_run.h"

namespace ckptdb::testing {
namespace {

[[noreturn]] void Throw() { throw std::runtime_error("the caller is broken"); }

auto Threw(const char* where) {
  return Internal(where, "threw: the caller is broken");
}

TEST(CallGuardTest, SaysWhatWasThrown) {
  using internal::CallGuarded;
  EXPECT_OK(CallGuarded("f", [] {}));
  EXPECT_EQ(*CallGuarded("f", [] { return 7; }), 7);
  EXPECT_EQ(*CallGuarded("f", []() -> absl::StatusOr<int> { return 7; }), 7);
  EXPECT_THAT(CallGuarded("f", [] { throw std::length_error("too long"); }),
              StatusIs(absl::StatusCode::kInternal, "f threw: too long"));
  EXPECT_THAT(CallGuarded("f", [] { throw 7; }),
              StatusIs(absl::StatusCode::kInternal,
                       "f threw something that is not a std::exception"));
  EXPECT_THAT(
      CallGuarded("f", [] { throw std::bad_alloc(); }),
      StatusIs(absl::StatusCode::kResourceExhausted, "f: out of memory"));
  // There may be no memory for the message either; here no string is as long.
  const absl::string_view endless("f", std::numeric_limits<ptrdiff_t>::max());
  EXPECT_THAT(CallGuarded(endless, [] { throw std::bad_alloc(); }),
              StatusIs(absl::StatusCode::kResourceExhausted, ""));
}

TEST(CallGuardTest, AWorkerThatThrowsEndsTheWork) {
  EXPECT_THAT(internal::ParallelFor(8, 1000,
                                    [](int, uint64_t i) -> absl::Status {
                                      if (i == 500) Throw();
                                      return absl::OkStatus();
                                    }),
              Threw("a worker thread"));
}

class ThrowingCallerTest : public DeltaFixture {
 protected:
  void SaveTwo() {
    RankContent base;
    base.tables["user"] = BulkTable(1);
    RankContent next = base;
    next.tables["user"].rows[31] = std::string(8192, 'x');
    next.tables["user"].rows.erase(62);
    ASSERT_OK_AND_ASSIGN(first_, Save(1, base));
    ASSERT_OK(SaveOver({.step = 2, .parent = first_.version}, base, next));
  }
  void ExpectUnchanged(const std::vector<int64_t>& steps) {
    EXPECT_EQ(ListSteps(), steps);
    EXPECT_OK(Save(100, SmallContent(100)));
  }
  SaveResult first_;
};

class ThrowingSource : public RowSource {
 public:
  explicit ThrowingSource(bool at_count) : at_count_(at_count) {}
  uint64_t block_count() const override {
    if (at_count_) Throw();
    return 1;
  }
  absl::StatusOr<RowBlock> Block(uint64_t) const override { Throw(); }

 private:
  const bool at_count_;
};

TEST_F(ThrowingCallerTest, ARowSource) {
  for (const bool at_count : {false, true}) {
    const ThrowingSource rows(at_count);
    RankState state;
    state.AddTable("user", {{"embedding", DType::kF32, 1}}, &rows);
    EXPECT_THAT(
        store_->Save({.step = 1}, state),
        Threw(at_count ? "RowSource::block_count" : "RowSource::Block"));
  }
  ExpectUnchanged({});
}

// The points of a save by their part: before the commit it fails as any does,
// after it the store is out of use until it is opened again, and has the step.
TEST_F(ThrowingCallerTest, AHookAtAPointOfASave) {
  std::string at;
  options_.on_point = [&](absl::string_view point) {
    if (point == at) Throw();
  };
  Reopen();
  int64_t step = 0;
  for (const char* point : {"begin:recorded", "stage:writing", "stage:done",
                            "publish:checked", "publish:ingested"}) {
    SCOPED_TRACE(point);
    at = point;
    EXPECT_THAT(Save(++step, BulkContent(1)), Threw("on_point"));
    EXPECT_THAT(ListSteps(), SizeIs(0));
  }
  for (const char* point : {"publish:committed", "publish:flushed"}) {
    SCOPED_TRACE(point);
    at = point;
    EXPECT_THAT(Save(++step, SmallContent(1)), Threw("on_point"));
    at.clear();
    EXPECT_THAT(Save(step + 1, SmallContent(1)),
                FailedPrecondition("the caller is broken"));
    Reopen();
    ExpectStep(step, {SmallContent(1)});
  }
}

TEST_F(ThrowingCallerTest, AHookInTheBackgroundSweep) {
  options_.background_sweep = true;
  options_.on_point = [](absl::string_view point) {
    if (point == "sweep:marked") Throw();
  };
  Reopen();
  ASSERT_OK(Save(1, SmallContent(1)));
  EXPECT_THAT(store_->Sweep(), Threw("on_point"));
  EXPECT_THAT(store_->sweep_status(), Threw("on_point"));
}

class ThrowingTable : public LiveTable {
 public:
  std::string at;
  absl::Status Clear() override { return Check("clear"); }
  absl::Status Consume(int, const RowSink::Batch&) override {
    return Check("consume");
  }
  absl::Status Erase(int, absl::Span<const int64_t>) override {
    return Check("erase");
  }

 private:
  absl::Status Check(const char* call) const {
    if (at == call) Throw();
    return absl::OkStatus();
  }
};

TEST_F(ThrowingCallerTest, ATableThatIsRestored) {
  SaveTwo();
  ThrowingTable table;
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  table.at = "clear";
  EXPECT_THAT(
      step->RestoreTable("user", LiveTable::RestoreMode::kClear, {}, &table),
      Threw("LiveTable::Clear"));
  table.at = "consume";
  EXPECT_THAT(
      step->RestoreTable("user", LiveTable::RestoreMode::kClear, {}, &table),
      Threw("RowSink::Consume"));
  EXPECT_THAT(step->ScanTable("user", {}, &table), Threw("RowSink::Consume"));
  ASSERT_OK_AND_ASSIGN(const auto changes,
                       store_->OpenChanges(first_.version, 2));
  EXPECT_THAT(changes->ScanTable("user", {}, &table),
              Threw("RowSink::Consume"));
  table.at = "erase";
  EXPECT_THAT(changes->ScanTable("user", {}, &table),
              Threw("LiveTable::Erase"));
  table.at = "nothing";
  ScanOptions scan{.wanted = [](int64_t id) -> bool {
    if (id == 31 * 1000) Throw();
    return true;
  }};
  EXPECT_THAT(step->ScanTable("user", scan, &table),
              Threw("ScanOptions::wanted"));
  scan = {.wanted_of_page = [](absl::Span<const int64_t>, absl::Span<uint8_t>) {
    Throw();
  }};
  EXPECT_THAT(step->ScanTable("user", scan, &table),
              Threw("ScanOptions::wanted_of_page"));
  EXPECT_OK(step->ScanTable("user", {}, &table));
}

TEST_F(ThrowingCallerTest, HooksOfVerifyAndFold) {
  SaveTwo();
  {
    ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(2));
    EXPECT_THAT(step->Verify({.progress = [](uint64_t, uint64_t) { Throw(); }}),
                Threw("ReadOptions::progress"));
  }
  ReadOptions fold{.cancelled = []() -> bool { Throw(); }};
  EXPECT_THAT(store_->Fold(2, fold), Threw("ReadOptions::cancelled"));
  fold.cancelled = nullptr;
  fold.progress = [](uint64_t, uint64_t) { Throw(); };
  EXPECT_THAT(store_->Fold(2, fold), Threw("ReadOptions::progress"));
  EXPECT_TRUE(store_->Fold(2).value().folded);
}

// Runs out of memory in the first renewal of a lease.
class FailsFirstRenewal : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "FailsFirstRenewal"; }
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    const int written = to.find("/leases/") == std::string::npos ? 0 : ++leases;
    if (written == 2) throw std::bad_alloc();
    rocksdb::IOStatus status =
        FileSystemWrapper::RenameFile(from, to, options, debug);
    if (written == 3) renewed.set_value();
    return status;
  }
  std::atomic<int> leases = 0;
  std::promise<void> renewed;
};

TEST_F(ThrowingCallerTest, LeaseIsRenewed_AfterARenewalRanOutOfMemory) {
  SaveTwo();
  const auto files = OnDisk<FailsFirstRenewal>();
  StoreOptions options{.lease_ms = 30};
  options.environment = EnvironmentOf(files);
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path(), options));
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(2));
  EXPECT_EQ(files->renewed.get_future().wait_for(std::chrono::minutes(1)),
            std::future_status::ready);
}

// A shape with a mistake in it, of few bytes in truth.
TEST_F(ThrowingCallerTest, ATensorThatNoMachineHas) {
  const float value = 1;
  for (const int64_t elements : {int64_t{1} << 48, int64_t{1} << 60}) {
    RankState state;
    state.AddTensor("w", TensorView::Of(&value, {elements}));
    EXPECT_THAT(store_->Save({.step = 1}, state),
                ResourceExhausted("tensor \"w\"", std::to_string(elements * 4),
                                  "are free"));
  }
  ExpectUnchanged({});
}

class EndlessSource : public RowSource {
 public:
  uint64_t block_count() const override { return kMaxBlocks; }
  absl::StatusOr<RowBlock> Block(uint64_t) const override {
    return absl::InvalidArgumentError("there are not so many");
  }
};

TEST_F(ThrowingCallerTest, MoreBlocksThanMemory) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer ends the process instead";
  const EndlessSource rows;
  RankState state;
  state.AddTable("user", {{"embedding", DType::kF32, 1}}, &rows);
  const absl::Status status = store_->Save({.step = 1}, state).status();
  // A machine with so much memory asks for the first of them.
  if (absl::IsInvalidArgument(status)) GTEST_SKIP() << status.ToString();
  EXPECT_THAT(status,
              ResourceExhausted(
                  "table \"user\"", std::to_string(kMaxBlocks) + " blocks",
                  std::to_string(kMaxBlocks * sizeof(RowBlock)) + " bytes"));
  ExpectUnchanged({});
}

}  // namespace
}  // namespace ckptdb::testing
