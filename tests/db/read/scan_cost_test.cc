// SPDX-License-Identifier: Apache-2.0
// What a scan costs: the bytes that it reads, the memory that it takes.
#include <malloc.h>
#include <rocksdb/file_system.h>

#include "tests/db/delta_fixture.h"
#include "tests/support/long_run.h"

namespace ckptdb::testing {
namespace {

constexpr int64_t kRows = 40'000;
constexpr uint64_t kSlotBytes = 256;
constexpr uint64_t kMiB = uint64_t{1} << 20;

// The number after `word` in a file of lines such as "rchar: 123".
uint64_t NumberIn(const std::string& path, const std::string& word) {
  std::ifstream file(path);
  std::string each;
  uint64_t number = 0;
  while (file >> each) {
    if (each == word && file >> number) return number;
  }
  ADD_FAILURE() << "no " << word << " in " << path;
  return 0;
}

uint64_t BytesRead() { return NumberIn("/proc/self/io", "rchar:"); }

uint64_t PeakBytes() { return NumberIn("/proc/self/status", "VmHWM:") << 10; }

// What this process has now is the peak from here on.
uint64_t ResetPeak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
  return PeakBytes();
}

struct Counter : public RowSink {
  absl::Status Consume(int /*worker*/, const RowSink::Batch& batch) override {
    rows += batch.ids.size();
    return absl::OkStatus();
  }
  std::atomic<uint64_t> rows = 0;
};

// Rows of weights and optimizer state, in data files.
class ScanCostTest : public DeltaFixture {
 protected:
  void SetUp() override {
    DeltaFixture::SetUp();
    TableContent& table = content_.tables["user"];
    table.slots = {{"embedding", DType::kU8, kSlotBytes},
                   {"adagrad", DType::kU8, kSlotBytes}};
    for (int64_t id = 0; id < kRows; ++id)
      table.rows[id] = RowOf(id, 0, 2 * kSlotBytes);
    ASSERT_NO_FATAL_FAILURE(SaveNext(0));
    EXPECT_EQ(FindItem(0, "user").placement, Item::Placement::kBulk);
  }
  uint64_t BytesOfScan(const ScanOptions& options) {
    const auto step = store_->OpenStep(0).value();
    Counter counter;
    const uint64_t before = BytesRead();
    EXPECT_OK(step->ScanTable("user", options, &counter));
    EXPECT_EQ(counter.rows, kRows);
    return BytesRead() - before;
  }
  uint64_t MemoryOfScan(int64_t step) {
    const auto reader = Reader::Open(path()).value();
    const auto opened = reader->OpenStep(step).value();
    Counter counter;
    const uint64_t before = ResetPeak();
    EXPECT_OK(opened->ScanTable("user", {}, &counter));
    EXPECT_EQ(counter.rows, content_.tables["user"].rows.size());
    return PeakBytes() - before;
  }
  // A delta of a hundred rows for each step after the last.
  void SaveDeltasUpTo(int64_t step) {
    TableContent& table = content_.tables["user"];
    for (int64_t next = parent_->step + 1; next <= step; ++next) {
      Rows before;
      Rows after;
      for (int64_t i = 0; i < 100; ++i) {
        const int64_t id = (next * 7919 + i * 397) % kRows;
        before[id] = table.rows[id];
        after[id] = RowOf(id, next, 2 * kSlotBytes);
        table.rows[id] = after[id];
      }
      ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                           SaveDelta(next, *parent_, content_,
                                     {{"user", DeltaBetween(before, after)}}));
      parent_ = saved.version;
    }
  }
};

TEST_F(ScanCostTest, ReadsTheBytesOfTheSlotsAskedForAlone) {
  constexpr uint64_t kAll = kRows * (8 + 2 * kSlotBytes);
  constexpr uint64_t kOne = kRows * (8 + kSlotBytes);
  // A worker may read on to the end of its window.
  const ReadOptions read = {.threads = 1};
  const uint64_t all = BytesOfScan({.read = read});
  const uint64_t one = BytesOfScan({.slots = {"embedding"}, .read = read});
  const uint64_t ids = BytesOfScan({.ids_only = true, .read = read});
  std::cout << all << " bytes of all, " << one << " of one slot, " << ids
            << " of the ids" << std::endl;
  EXPECT_GE(all, kAll);
  EXPECT_GE(one, kOne);
  EXPECT_LE(one, kOne + kMiB);
  EXPECT_LE(ids, kRows * 8 + kMiB);
}

TEST_F(ScanCostTest, TakesLittleMemoryHoweverLongTheChain) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has memory of its own";
  constexpr uint64_t kMaxBytes = 96 * kMiB;
  for (const int64_t steps : {0, 20, 100}) {
    ASSERT_NO_FATAL_FAILURE(SaveDeltasUpTo(steps));
    const uint64_t bytes = MemoryOfScan(steps);
    std::cout << steps << " deltas: " << bytes << " bytes" << std::endl;
    EXPECT_LE(bytes, kMaxBytes);
  }
}

class CountedOpens : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "CountedOpens"; }
  rocksdb::IOStatus NewRandomAccessFile(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
      rocksdb::IODebugContext* debug) override {
    ++opened;
    return FileSystemWrapper::NewRandomAccessFile(path, options, file, debug);
  }
  std::atomic<int> opened = 0;
};

class ManyTablesTest : public DeltaFixture {};

TEST_F(ManyTablesTest, RestoreOpensNoFilePerTable) {
  const auto files = std::make_shared<CountedOpens>(
      internal::Environment::Default()->file_system());
  options_.environment = std::make_shared<internal::Environment>(
      files, [] { return int64_t{1}; }, /*on_disk=*/true);
  Reopen();
  constexpr int kTables = 200;
  for (int i = 0; i < kTables; ++i) {
    TableContent& table = content_.tables["t" + std::to_string(i)];
    table.slots = {{"embedding", DType::kU8, kSlotBytes}};
    for (int64_t id = 0; id < 20; ++id)
      table.rows[id] = RowOf(id, 0, kSlotBytes);
  }
  ASSERT_NO_FATAL_FAILURE(SaveNext(0));
  EXPECT_EQ(FindItem(0, "t0").placement, Item::Placement::kBulk);
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(0));
  files->opened = 0;
  const uint64_t before = BytesRead();
  for (const auto& [name, table] : content_.tables)
    EXPECT_TRUE(Scan(*step, name).value() == table.rows);
  EXPECT_LE(files->opened, 8);
  // A block has entries of few tables.
  EXPECT_LE(BytesRead() - before, 10 * kTables * 20 * kSlotBytes);
}

}  // namespace
}  // namespace ckptdb::testing
