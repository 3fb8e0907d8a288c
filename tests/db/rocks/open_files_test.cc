// SPDX-License-Identifier: Apache-2.0
// Stores with more files than the process may have open: 256, as of
// `ulimit -n 256`.
#include <fcntl.h>
#include <sys/resource.h>

#include "db/disk/open_files.h"
#include "tests/db/delta_fixture.h"
#include "tests/support/long_run.h"
#include "tests/support/row_files.h"

namespace ckptdb::testing {
namespace {

constexpr rlim_t kLimit = 256;

// Hundreds of files are synced, which takes long on a disk.
const int kInMemory = ::setenv("TMPDIR", "/dev/shm", /*overwrite=*/0);

rlim_t SoftLimit() {
  rlimit limit{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  return limit.rlim_cur;
}

uint64_t CountOpenFiles() {
  return static_cast<uint64_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                    std::filesystem::directory_iterator()));
}

class OpenFilesTest : public DeltaFixture {
 protected:
  void SetUp() override {
    const rlimit limit{kLimit / 2, kLimit};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    DeltaFixture::SetUp();
  }
  static constexpr int kRanks = 40;
  static constexpr int64_t kLast = 7;
  // A row that is too large for the batch of a commit.
  static RankContent OneRow(int rank, int64_t step) {
    constexpr uint64_t kRowBytes = uint64_t{16} << 10;
    RankContent content;
    TableContent& table = content.tables["user"];
    table.slots = {{"embedding", DType::kU8, kRowBytes}};
    table.rows[rank] = RowOf(rank, step, kRowBytes);
    return content;
  }
  static std::vector<RankContent> AllRanks(int ranks, int64_t step) {
    std::vector<RankContent> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(OneRow(rank, step));
    return all;
  }
  // Saves the steps up to `last` that are missing, with a data file of each
  // rank for each step. All rows change each time.
  void SaveSteps(int ranks, int64_t last, bool deltas) {
    const auto first = static_cast<int64_t>(store_->Steps().size());
    for (int64_t step = first; step <= last; ++step) {
      const auto content = AllRanks(ranks, step);
      std::vector<Deltas> changes;
      SaveSpec spec{.step = step, .world_size = static_cast<uint32_t>(ranks)};
      if (deltas && step > 0) {
        spec.parent = parent_;
        for (const auto& each : content)
          changes.push_back(ChangesBetween({}, each));
      }
      ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                           SaveRanks(spec, content, changes));
      parent_ = saved.version;
    }
  }
  static bool AreGone(const std::set<std::filesystem::path>& files) {
    return std::ranges::none_of(
        files, [](const auto& file) { return std::filesystem::exists(file); });
  }
  uint64_t CountTables() const { return TableFiles().size(); }
};

TEST_F(OpenFilesTest, StoreWithMoreFilesIsSavedToOpenedAndSwept) {
  ASSERT_NO_FATAL_FAILURE(SaveSteps(kRanks, kLast, /*deltas=*/false));
  EXPECT_GT(CountTables(), kLimit);
  EXPECT_LT(CountOpenFiles(), kLimit / 2);
  Reopen();
  for (const int64_t step : {int64_t{0}, kLast})
    ExpectStep(step, AllRanks(kRanks, step));
  EXPECT_LT(CountOpenFiles(), kLimit / 2);
  for (int64_t step = 0; step < kLast; ++step) ASSERT_OK(store_->Delete(step));
  ASSERT_OK(store_->Sweep());
  EXPECT_LT(CountTables(), 2 * kRanks);
  ExpectStep(kLast, AllRanks(kRanks, kLast));
}

TEST_F(OpenFilesTest, FoldOfTableWithMoreSlotsIsWrittenInRounds) {
  TableContent& table = content_.tables["user"];
  uint64_t row_bytes = 0;
  constexpr uint64_t kSlotBytes = 512;
  for (int i = 0; i < 250; ++i) {
    table.slots.push_back({"s" + std::to_string(i), DType::kU8, kSlotBytes});
    row_bytes += kSlotBytes;
  }
  // More than tables that share a file have.
  for (int64_t id = 0; id < 140; ++id) table.rows[id] = RowOf(id, 0, row_bytes);
  ASSERT_NO_FATAL_FAILURE(SaveNext(0));
  table.rows[7] = RowOf(7, 1, row_bytes);
  table.rows.erase(8);
  ASSERT_NO_FATAL_FAILURE(SaveNext(1));
  ASSERT_OK(store_->Fold(1));
  EXPECT_GT(CountTables(), table.slots.size());
  ExpectStep(1, {content_});
}

TEST_F(OpenFilesTest, ChainWithMoreFilesIsReadFollowedAndFolded) {
  ASSERT_NO_FATAL_FAILURE(SaveSteps(kRanks, kLast, /*deltas=*/true));
  EXPECT_GT(CountTables(), kLimit);
  ExpectStep(kLast, AllRanks(kRanks, kLast));
  {
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
    ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(kLast));
    ASSERT_NO_FATAL_FAILURE(SaveSteps(kRanks, kLast + 1, /*deltas=*/false));
    ASSERT_OK(reader->Refresh());
    ASSERT_OK_AND_ASSIGN(const auto newer, reader->OpenStep(kLast + 1));
    ExpectHolds(*step, AllRanks(kRanks, kLast));
    ExpectHolds(*newer, AllRanks(kRanks, kLast + 1));
    EXPECT_LT(CountOpenFiles(), kLimit);
  }
  ASSERT_OK(store_->Fold(kLast));
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(kLast));
  EXPECT_EQ(Scan(*step, "user").value().size(), size_t{kRanks});
  EXPECT_LT(CountOpenFiles(), kLimit);
}

// The owner rewrites records and small saves, and removes the files that the
// reader was opened from.
TEST_F(OpenFilesTest, ReaderKeepsSmallSavesThatOwnerCompacted) {
  ASSERT_NO_FATAL_FAILURE(SaveSteps(kRanks, kLast, /*deltas=*/true));
  constexpr int64_t kSmall = kLast + 7;
  for (int64_t step = kLast + 1; step < kSmall; ++step) SaveSmall({step});
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
  std::map<int64_t, std::unique_ptr<StepReader>> open;
  for (int64_t step = kLast + 1; step < kSmall; ++step)
    open[step] = reader->OpenStep(step).value();
  for (int64_t step = kSmall; step < kLast + 30; ++step) SaveSmall({step});
  ASSERT_OK(store_->Sweep());
  // Their files are closed while those of the large step are read.
  ExpectHolds(*reader->OpenStep(kLast).value(), AllRanks(kRanks, kLast));
  for (const auto& [step, reads] : open)
    ExpectHolds(*reads, {SmallContent(step)});
}

// RocksDB opens 16 files with the database and never closes them. Damage holds
// compactions, so that the reader is opened from more files of small saves.
TEST_F(OpenFilesTest, ReaderKeepsManySmallSavesThatOwnerCompacted) {
  constexpr int64_t kSmall = kLast + 14;
  ASSERT_NO_FATAL_FAILURE(SaveSteps(kRanks, kLast, /*deltas=*/true));
  SaveSmall({kLast + 1});
  const auto first = RowFiles(path());
  ASSERT_EQ(first.size(), 1U);
  store_.reset();
  DamageFile(*first.begin());
  Reopen();
  for (int64_t step = kLast + 2; step <= kSmall; ++step)
    ASSERT_NO_FATAL_FAILURE(SaveSmall({step}));
  DamageFile(*first.begin());  // repairs it
  const auto before = RowFiles(path());
  ASSERT_GT(before.size(), 10U);
  // A refresh, which an owner's sweep causes, has half as many files.
  store_.reset();
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path(), {}));
  std::map<int64_t, std::unique_ptr<StepReader>> open;
  for (int64_t step = kLast; step <= kSmall; ++step) {
    ASSERT_OK_AND_ASSIGN(open[step], reader->OpenStep(step));
  }
  Reopen();
  for (int64_t step = kSmall + 1; !AreGone(before); ++step) {
    ASSERT_LT(step, kSmall + 500);
    ASSERT_NO_FATAL_FAILURE(SaveSmall({step}));
    ASSERT_OK(store_->Sweep());
  }
  ExpectHolds(*open[kLast], AllRanks(kRanks, kLast));
  for (int64_t step = kLast + 1; step <= kSmall; ++step) {
    SCOPED_TRACE(step);
    ExpectHolds(*open[step], {SmallContent(step)});
  }
}

TEST_F(OpenFilesTest, OpenRaisesSoftLimit) { EXPECT_EQ(SoftLimit(), kLimit); }

TEST_F(OpenFilesTest, OpenFails_WhenProcessHasTooFewFilesLeft) {
  store_.reset();
  std::vector<int> open;
  while (CountOpenFiles() + internal::OpenFileShare::kFewest / 2 < kLimit)
    open.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto refused = Store::Open(path(), options_);
  for (const int each : open) ::close(each);
  EXPECT_THAT(refused,
              ResourceExhausted("files open and may open 256 (hard limit 256)",
                                "ulimit -n"));
  Reopen();
}

TEST_F(OpenFilesTest, ManyStoresShareTheLimit) {
  std::vector<std::unique_ptr<Store>> stores;
  for (int i = 0; i < 8; ++i) {
    ASSERT_OK_AND_ASSIGN(stores.emplace_back(),
                         Store::Open(path() + std::to_string(i), options_));
    ASSERT_OK(
        stores.back()->Save({.step = 1}, HeldState(OneRow(0, i)).state()));
  }
}

// The share of each leaves room for those after it.
TEST_F(OpenFilesTest, SharesAddUpToLessThanTheLimit) {
  ASSERT_OK_AND_ASSIGN(const auto first, internal::OpenFileShare::Take());
  ASSERT_OK_AND_ASSIGN(const auto second, internal::OpenFileShare::Take());
  ASSERT_OK_AND_ASSIGN(const auto third, internal::OpenFileShare::Take());
  EXPECT_LT(first.files() + second.files() + third.files(), kLimit);
  EXPECT_LE(second.files(), first.files());
  EXPECT_GE(third.files(), internal::OpenFileShare::kFewest / 2);
}

// CKPTDB_LONG=1 has 100,000 files, in folders of TMPDIR.
TEST_F(OpenFilesTest, HundredThousandFilesAreOpenedAndCleaned) {
  if (!IsLongRun()) GTEST_SKIP() << "CKPTDB_LONG is not set";
  constexpr int kMany = 1000;
  constexpr int64_t kEnd = 99;
  ASSERT_NO_FATAL_FAILURE(SaveSteps(kMany, kEnd, /*deltas=*/false));
  EXPECT_GE(CountTables(), 100'000U);
  const auto began = std::chrono::steady_clock::now();
  const auto passed = [&began] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         began)
        .count();
  };
  Reopen();
  std::cout << "opened after " << passed() << " s\n";
  ExpectStep(kEnd, AllRanks(kMany, kEnd));
  std::cout << "read after " << passed() << " s\n";
  for (int64_t step = 0; step < kEnd; ++step) ASSERT_OK(store_->Delete(step));
  std::cout << "deleted after " << passed() << " s\n";
  ASSERT_OK(store_->Sweep());
  std::cout << "swept after " << passed() << " s\n";
  EXPECT_LT(CountTables(), 2 * kMany);
  ExpectStep(kEnd, AllRanks(kMany, kEnd));
}

}  // namespace
}  // namespace ckptdb::testing
