// SPDX-License-Identifier: Apache-2.0
// A table file of one step is damaged, truncated, missing, or replaced by that
// of another step: the store opens, reading the step fails, and the other steps
// are unaffected. Deleting the step removes the damage.

#include "db/quirks/lazy_tables.h"
#include "db/rocks/database.h"
#include "schema/types.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::Ge;
using ::testing::Le;

TEST(AddCorruptTables, TakesTheNamesInErrorsOfDamage) {
  internal::CorruptTables bad;
  const absl::Status two = absl::DataLossError(
      "opening \"/a/1.sst/db\": Can't access /000012.sst: No such file\n"
      "Sst file size mismatch: /a/1.sst/db/345.sst. of x.sst");
  EXPECT_TRUE(internal::AddCorruptTables(two, &bad));
  EXPECT_THAT(bad, ElementsAre("000012.sst", "1.sst", "345.sst"));
  EXPECT_FALSE(internal::AddCorruptTables(two, &bad));
  EXPECT_FALSE(internal::AddCorruptTables(absl::OkStatus(), &bad));
  EXPECT_FALSE(internal::AddCorruptTables(
      absl::UnavailableError("7.sst is busy"), &bad));
  EXPECT_EQ(bad.size(), 3U);
}

struct CorruptTable {
  std::string name;
  std::function<void(const std::filesystem::path&)> apply;
};

void PrintTo(const CorruptTable& bad, std::ostream* out) { *out << bad.name; }

void FlipFromEnd(const std::filesystem::path& path, size_t from_end) {
  std::string bytes = ReadFile(path);
  bytes.at(bytes.size() - from_end) ^= 1;
  WriteFile(path, bytes);
}

CorruptTable FlippedFromEnd(const std::string& name, size_t from_end) {
  return {name, [=](const auto& path) { FlipFromEnd(path, from_end); }};
}

void Cut(const std::filesystem::path& path, double part) {
  const auto size = static_cast<double>(std::filesystem::file_size(path));
  std::filesystem::resize_file(path, static_cast<uintmax_t>(size * part));
}

// Whole, but another one's: that of the nearest size.
void PutAnotherInPlace(const std::filesystem::path& path) {
  const auto apart = [&](const std::filesystem::path& other) {
    return std::abs(static_cast<int64_t>(std::filesystem::file_size(other)) -
                    static_cast<int64_t>(std::filesystem::file_size(path)));
  };
  auto others = FilesIn(path.parent_path(), ".sst");
  std::erase(others, path);
  const auto nearest = *std::min_element(
      others.begin(), others.end(), [&](const auto& one, const auto& other) {
        return apart(one) < apart(other);
      });
  std::filesystem::copy_file(nearest, path,
                             std::filesystem::copy_options::overwrite_existing);
}

class CorruptTableTest : public SweptFixture {
 protected:
  static constexpr int64_t kSteps = 3;
  std::set<std::filesystem::path> Tables() const {
    const auto files = TableFiles();
    return {files.begin(), files.end()};
  }
  // The largest file that was written for it.
  std::filesystem::path SaveAndFindTable(int64_t step,
                                         const RankContent& content) {
    const std::set<std::filesystem::path> before = Tables();
    EXPECT_OK(Save(step, content));
    std::filesystem::path largest;
    uintmax_t most = 0;
    for (const auto& table : Tables()) {
      std::error_code gone;  // by a compaction of small files
      const uintmax_t bytes = std::filesystem::file_size(table, gone);
      if (gone || bytes <= most || before.count(table) != 0) continue;
      most = bytes;
      largest = table;
    }
    EXPECT_GT(most, 0U);
    return largest;
  }
  template <typename From>
  void ExpectOnlyTheseAreBad(From* from, const std::set<int64_t>& bad,
                             const std::string& file) {
    EXPECT_THAT(from->BadFiles(),
                ::testing::SizeIs(AllOf(Ge(1U), Le(bad.size()))));
    ASSERT_THAT(from->Steps(), ::testing::SizeIs(kSteps));
    for (int64_t step = 0; step < kSteps; ++step) {
      SCOPED_TRACE(absl::StrCat("step ", step));
      ASSERT_OK_AND_ASSIGN(const auto read, from->OpenStep(step));
      if (bad.count(step) == 0) {
        EXPECT_OK(read->Verify());
        ExpectHolds(*read, {BulkContent(step)});
      } else {
        EXPECT_THAT(read->Verify(), DataLoss(file));
      }
    }
  }
};

class CorruptTablesTest : public CorruptTableTest,
                          public ::testing::WithParamInterface<CorruptTable> {};

TEST_P(CorruptTablesTest, DamageOfALargeSaveAffectsOnlyItsStep) {
  constexpr int64_t kBad = 1;
  constexpr int64_t kAlsoBad = kSteps - 1;
  std::filesystem::path bad;
  std::filesystem::path also_bad;
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto table = SaveAndFindTable(step, BulkContent(step));
    if (step == kBad) bad = table;
    if (step == kAlsoBad) also_bad = table;
  }
  store_.reset();
  GetParam().apply(bad);
  const std::string name = bad.filename();
  const auto expect = [&](const std::set<int64_t>& steps,
                          const std::string& file) {
    ExpectOnlyTheseAreBad(Reader::Open(path()).value().get(), steps, file);
    ASSERT_NO_FATAL_FAILURE(Reopen());
    ExpectOnlyTheseAreBad(store_.get(), steps, file);
  };
  expect({kBad}, name);
  store_.reset();
  GetParam().apply(also_bad);  // as there may be more
  expect({kBad, kAlsoBad}, ".sst");
  ASSERT_OK(Save(kSteps, BulkContent(kSteps)));
  ASSERT_OK(store_->Delete(kBad));
  ASSERT_OK(Overwrite(kAlsoBad, BulkContent(kAlsoBad)));
  ASSERT_OK(store_->Sweep());
  EXPECT_EQ(Tables().count(bad), 0U);
  EXPECT_EQ(Tables().count(also_bad), 0U);
  for (int again = 0; again < 2; ++again) {
    for (const int64_t step : ListSteps())
      ExpectStep(step, {BulkContent(step)});
    EXPECT_THAT(ListSteps(), ::testing::SizeIs(kSteps));
    ASSERT_NO_FATAL_FAILURE(Reopen());
    EXPECT_THAT(store_->BadFiles(), ::testing::IsEmpty());
  }
}

TEST_F(CorruptTableTest, TwoExchangedFilesOfOneSizeAreBothCorrupt) {
  std::vector<std::filesystem::path> tables;
  std::vector<RankContent> contents(3);
  for (size_t step = 0; step < contents.size(); ++step) {
    contents[step].tensors["bulk"] = BulkTensor(step);
    tables.push_back(
        SaveAndFindTable(static_cast<int64_t>(step), contents[step]));
  }
  store_.reset();
  ASSERT_EQ(std::filesystem::file_size(tables[0]),
            std::filesystem::file_size(tables[1]));
  const auto exchange = [&] {
    std::filesystem::rename(tables[0], path() + "/other");
    std::filesystem::rename(tables[1], tables[0]);
    std::filesystem::rename(path() + "/other", tables[1]);
  };
  exchange();
  ASSERT_NO_FATAL_FAILURE(Reopen());
  EXPECT_THAT(store_->BadFiles(), ::testing::Not(::testing::IsEmpty()));
  for (size_t step = 0; step < 2; ++step) {
    EXPECT_THAT(store_->OpenStep(static_cast<int64_t>(step)).value()->Verify(),
                DataLoss(tables[step].filename().string()));
  }
  ExpectStep(2, {contents[2]});
  store_.reset();
  exchange();
  ASSERT_NO_FATAL_FAILURE(Reopen());
  EXPECT_THAT(store_->BadFiles(), ::testing::IsEmpty());
  for (size_t step = 0; step < contents.size(); ++step)
    ExpectStep(static_cast<int64_t>(step), {contents[step]});
}

// A byte copy, with the same block in use in the store that it was made of.
TEST_F(CorruptTableTest, DamageOfACopyIsFoundBesideTheOriginal) {
  ASSERT_OK(Save(0, SmallContent(0)));
  store_.reset();
  const std::string copy = dir_.path() + "/copy";
  std::filesystem::copy(path(), copy, std::filesystem::copy_options::recursive);
  ASSERT_OK_AND_ASSIGN(const auto whole,
                       internal::Database::OpenFollower(
                           path(), *internal::Environment::Default(),
                           /*direct_reads=*/false));
  rocksdb::ColumnFamilyHandle* const stamps =
      whole->family(internal::Family::kDefault);
  const std::unique_ptr<rocksdb::Iterator> in_use(
      whole->rocks()->NewIterator(rocksdb::ReadOptions(), stamps));
  in_use->SeekToFirst();
  ASSERT_TRUE(in_use->Valid());
  rocksdb::ColumnFamilyMetaData metadata;
  whole->rocks()->GetColumnFamilyMetaData(stamps, &metadata);
  ASSERT_EQ(metadata.file_count, 1U);
  const std::string name = metadata.levels[0].files.at(0).name;
  const std::string bad = copy + "/db" + name;
  FlipFromEnd(bad, std::filesystem::file_size(bad) - 20);
  EXPECT_THAT(Reader::Open(copy).status(), DataLoss(bad));
}

// Small saves were merged into several files, one of which is damaged.
TEST_F(CorruptTableTest, DamageOfOldSmallSavesAffectsOnlyTheirSteps) {
  constexpr int64_t kOld = 352;
  const auto content = [](int64_t step) {
    RankContent small;
    small.tensors["small"] = BulkTensor(step, kInlineBytes / 8 * 7);
    return small;
  };
  for (int64_t step = 0; step < kOld; ++step)
    ASSERT_OK(Save(step, content(step)));
  ASSERT_OK(store_->Delete(kOld - 1));
  ASSERT_OK(store_->Sweep());
  store_.reset();
  constexpr uintmax_t kMerged = kInlineBytes * 100;
  std::vector<std::filesystem::path> merged;
  for (const auto& table : Tables()) {
    if (std::filesystem::file_size(table) > kMerged) merged.push_back(table);
  }
  ASSERT_GE(merged.size(), 2U);
  std::filesystem::remove(merged[1]);
  const std::string lost = merged[1].filename();
  ASSERT_NO_FATAL_FAILURE(Reopen());
  EXPECT_THAT(store_->BadFiles(), ElementsAre(lost));
  constexpr int64_t kNew = 8;
  for (int64_t step = kOld; step < kOld + kNew; ++step)
    ASSERT_OK(Save(step, content(step)));
  ASSERT_OK(store_->Delete(kOld + kNew - 1));
  EXPECT_THAT(store_->Sweep().value().inline_retained_reason, HasSubstr(lost));
  ASSERT_OK(Save(kOld + kNew, content(kOld + kNew)));
  for (int again = 0; again < 2; ++again) {
    int64_t bad = 0;
    for (const int64_t step : ListSteps()) {
      ASSERT_OK_AND_ASSIGN(const auto read, store_->OpenStep(step));
      const absl::Status verified = read->Verify();
      if (verified.ok()) {
        ExpectHolds(*read, {content(step)});
        continue;
      }
      EXPECT_THAT(verified, DataLoss(lost));
      EXPECT_LT(step, kOld);
      ++bad;
    }
    EXPECT_THAT(bad, AllOf(Ge(1), Le(kOld / 2)));
    ASSERT_NO_FATAL_FAILURE(Reopen());
  }
}

// Small saves are read through all of their newest files: what is saved beside
// a bad one could not be read.
TEST_P(CorruptTablesTest, DamageOfNewSmallSavesIsAnErrorAtOpen) {
  ASSERT_OK(Save(0, SmallContent(0)));
  const std::filesystem::path bad = SaveAndFindTable(1, SmallContent(1));
  ASSERT_OK(Save(2, BulkContent(2)));
  store_.reset();
  const std::filesystem::path whole = dir_.path() + "/whole";
  std::filesystem::copy_file(bad, whole);
  GetParam().apply(bad);
  const auto names_it = DataLoss(bad.filename().string());
  EXPECT_THAT(Reader::Open(path()).status(), names_it);
  EXPECT_THAT(Store::Open(path(), options_).status(), names_it);
  std::filesystem::rename(whole, bad);
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ExpectStep(0, {SmallContent(0)});
  ExpectStep(1, {SmallContent(1)});
  ExpectStep(2, {BulkContent(2)});
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, CorruptTablesTest,
    ::testing::Values(
        CorruptTable{"removed",
                     [](const auto& path) { std::filesystem::remove(path); }},
        CorruptTable{"emptied", [](const auto& path) { Cut(path, 0); }},
        CorruptTable{"cut", [](const auto& path) { Cut(path, 0.5); }},
        FlippedFromEnd("footer", 4), FlippedFromEnd("footers_version", 9),
        FlippedFromEnd("footers_older_version", 12),
        FlippedFromEnd("footers_handles", 52),
        FlippedFromEnd("footers_checksum", 53),
        CorruptTable{"another_ones", PutAnotherInPlace},
        FlippedFromEnd("end_of_index", 70)),
    [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace ckptdb::testing
