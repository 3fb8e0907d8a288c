// SPDX-License-Identifier: Apache-2.0
// Fetches of some tables, slots, slices and items: the store has these, equal
// to those of the remote's step, and refuses reads of all others.
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/backup.h"
#include "db/reader.h"
#include "db/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/remote_store.h"
#include "schema/status.h"
#include "tests/remote/memory_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/sample_store.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

// The values of rows by id, of the slots of a scan.
using FetchedRows = std::map<int64_t, std::string>;

class RowCollector : public RowSink {
 public:
  explicit RowCollector(std::vector<uint64_t> bytes)
      : bytes_(std::move(bytes)) {}
  absl::Status Consume(int /*worker*/, const Batch& batch) override {
    for (size_t row = 0; row < batch.ids.size(); ++row) {
      std::string& values = rows_[batch.ids[row]];
      for (size_t slot = 0; slot < bytes_.size(); ++slot) {
        values.append(batch.slots[slot] + row * bytes_[slot], bytes_[slot]);
      }
    }
    return absl::OkStatus();
  }
  const FetchedRows& rows() const { return rows_; }

 private:
  const std::vector<uint64_t> bytes_;
  FetchedRows rows_;
};

class FetchPartsTest : public ::testing::Test {
 protected:
  std::string path() const { return dir_.path() + "/store"; }
  std::string fetched() const { return dir_.path() + "/fetched"; }

  void Make(
      absl::StatusOr<std::unique_ptr<Store>> (*make)(const std::string&)) {
    ASSERT_OK_AND_ASSIGN(store_, make(path()));
    ASSERT_OK(PushStore(path(), &remote_));
  }
  void Fetch(const FetchOptions& options) {
    remote_.calls().clear();
    ASSERT_OK(FetchStore(&remote_, fetched(), options));
    EXPECT_FALSE(fs::exists(fetched() + ".unfinished"));
    ASSERT_OK_AND_ASSIGN(reader_, Reader::Open(fetched()));
  }
  static absl::StatusOr<FetchedRows> Scan(const StepReader& step,
                                          const std::string& table,
                                          const ScanOptions& options) {
    CKPTDB_ASSIGN_OR_RETURN(const auto spec, step.FindTable(table));
    std::vector<uint64_t> bytes;
    for (const Slot& slot : spec.slots) {
      if (options.slots.empty() || options.slots[0] == slot.name) {
        bytes.push_back(slot.row_bytes());
      }
    }
    RowCollector rows(std::move(bytes));
    ScanOptions one = options;
    one.read.threads = 1;
    CKPTDB_RETURN_IF_ERROR(step.ScanTable(table, one, &rows));
    return rows.rows();
  }
  // Compares a scan of the fetched step with one of the store.
  void ExpectSameRows(int64_t step, const std::string& table,
                      const ScanOptions& options) const {
    ASSERT_OK_AND_ASSIGN(const auto got, reader_->OpenStep(step));
    ASSERT_OK_AND_ASSIGN(const auto want, store_->OpenStep(step));
    ASSERT_OK_AND_ASSIGN(const FetchedRows rows, Scan(*got, table, options));
    EXPECT_FALSE(rows.empty());
    ASSERT_OK_AND_ASSIGN(const FetchedRows expected,
                         Scan(*want, table, options));
    EXPECT_EQ(rows, expected);
  }
  static auto NotFetched(const std::string& what) {
    return StatusIs(absl::StatusCode::kFailedPrecondition,
                    AllOf(HasSubstr(what), HasSubstr("fetched")));
  }
  uint64_t BytesOf(const std::string& folder) const {
    uint64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file() && entry.path().extension() == ".sst") {
        bytes += entry.file_size();
      }
    }
    return bytes;
  }

  TempDir dir_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Reader> reader_;
  MemoryStore remote_;
};

TEST_F(FetchPartsTest, HasATableAndNothingElse) {
  Make(MakeSampleStore);
  Fetch({.step = 200, .tables = {"user"}});
  ExpectSameRows(200, "user", {});
  EXPECT_LT(BytesOf(fetched()), 1 << 20);  // without "big"
  ASSERT_OK_AND_ASSIGN(const auto step, reader_->OpenStep(200));
  float values[12];
  EXPECT_THAT(step->ReadTensor("mlp.weight", values, sizeof(values)),
              NotFetched("tensor \"mlp.weight\""));
  EXPECT_THAT(step->ReadBlob(0, "reader"), NotFetched("blob \"reader\""));
  EXPECT_THAT(step->Verify(), NotFetched("tables \"user\""));
}

TEST_F(FetchPartsTest, HasItemsByPattern) {
  Make(MakeSampleStore);
  Fetch({.step = 200, .items = {"b*", "step"}});
  ASSERT_OK_AND_ASSIGN(const auto step, reader_->OpenStep(200));
  ASSERT_OK_AND_ASSIGN(const auto own, store_->OpenStep(200));
  std::vector<float> got(kBigElements);
  std::vector<float> want(kBigElements);
  ASSERT_OK(step->ReadTensor("big", got.data(), got.size() * 4));
  ASSERT_OK(own->ReadTensor("big", want.data(), want.size() * 4));
  EXPECT_EQ(got, want);
  int64_t number = 0;
  EXPECT_OK(step->ReadTensor("step", &number, sizeof(number)));
  EXPECT_THAT(Scan(*step, "user", {}), NotFetched("table \"user\""));
  EXPECT_THAT(step->LookupRow("user", 7), NotFetched("table \"user\""));
  EXPECT_THAT(step->ReadBlob(0, "reader"), NotFetched("blob \"reader\""));
}

TEST_F(FetchPartsTest, HasSlotsOfADeltaStep) {
  Make(MakeDeltaStore);
  Fetch({.step = 400, .tables = {"user"}, .slots = {"freq"}});
  ExpectSameRows(400, "user", {.slots = {"freq"}});
  ASSERT_OK_AND_ASSIGN(const auto step, reader_->OpenStep(400));
  EXPECT_THAT(Scan(*step, "user", {}),
              NotFetched("slot \"embedding\" was not fetched"));
  EXPECT_THAT(Scan(*step, "item", {}), NotFetched("table \"item\""));
  EXPECT_THAT(step->LookupRow("user", 1), NotFetched("slot \"embedding\""));
  const std::string slot = "freq";
  const int64_t id = 1;
  uint32_t value = 0;
  char* out = reinterpret_cast<char*>(&value);
  bool found = false;
  EXPECT_OK(step->LookupRows("user", {&id, 1}, {&slot, 1}, {&out, 1}, &found));
  EXPECT_TRUE(found);
}

// A few ranges of a data file, and not one of its other bytes.
TEST_F(FetchPartsTest, HasSlicesOfADataFile) {
  Make(MakeBigDeltaStore);
  const SliceRange slices = {9000, 9999};
  Fetch({.step = 200, .tables = {"t"}, .slices = slices});
  EXPECT_LT(BytesOf(fetched()), 2 << 20);  // of 10 MB
  ExpectSameRows(200, "t", {.slices = slices});
  ExpectSameRows(200, "t", {.slices = {9100, 9200}});
  ASSERT_OK_AND_ASSIGN(const auto step, reader_->OpenStep(200));
  ASSERT_OK_AND_ASSIGN(const auto own, store_->OpenStep(200));
  EXPECT_EQ(step->LookupRow("t", 9900).value(),
            own->LookupRow("t", 9900).value());
  EXPECT_THAT(step->LookupRow("t", 7), NotFetched("slices 7-7"));
  EXPECT_THAT(Scan(*step, "t", {}), NotFetched("slices 0-65535"));
  EXPECT_THAT(Scan(*step, "t", {.slices = {9000, 10'000}}),
              NotFetched("slices 9000-9999"));
}

TEST_F(FetchPartsTest, DownloadsAWantedFileWhole) {
  Make(MakeBigDeltaStore);
  Fetch({.step = 100, .tables = {"*"}});
  EXPECT_LE(remote_.calls()["get data"], 2);  // 10 MB
  ExpectSameRows(100, "t", {});
}

TEST_F(FetchPartsTest, CannotBeFetchedToAgainOrBackedUp) {
  Make(MakeBigDeltaStore);
  const FetchOptions options = {.tables = {"t"}};
  Fetch(options);
  EXPECT_THAT(FetchStore(&remote_, fetched(), options),
              AlreadyExists("only parts of steps"));
  EXPECT_THAT(MakeBackup(fetched(), fetched() + "-backups"),
              FailedPrecondition("was fetched with only", "fetch it again"));
}

// Only a whole store is taken for one.
TEST_F(FetchPartsTest, CannotBeWrittenShippedOrFollowed) {
  Make(MakeBigDeltaStore);
  Fetch({.all = true, .tables = {"t"}, .slices = {0, 1000}});
  EXPECT_THAT(Store::Open(fetched()), NotFetched("slices 0-999"));
  MemoryStore other;
  EXPECT_THAT(PushStore(fetched(), &other), NotFetched("slices 0-999"));
  EXPECT_THAT(other.objects(), ::testing::IsEmpty());
  ASSERT_OK_AND_ASSIGN(const StepRecord from, reader_->FindStep(100));
  EXPECT_THAT(reader_->OpenChanges(from.version, 200),
              NotFetched("slices 0-999"));
}

TEST_F(FetchPartsTest, RefusesPartsThatTheStepLacks) {
  Make(MakeSampleStore);
  const auto refused = [&](const FetchOptions& options,
                           const std::string& what) {
    EXPECT_THAT(FetchStore(&remote_, fetched(), options),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
    EXPECT_FALSE(fs::exists(fetched()));
  };
  refused({.tables = {"user", "usr"}}, "no table \"usr\"");
  refused({.tables = {"user"}, .slots = {"embeding"}}, "no slot \"embeding\"");
  refused({.items = {"mlp?"}}, "no tensor or blob \"mlp?\"");
  refused({.slots = {"embedding"}}, "FetchOptions::tables");
  refused({.tables = {"user"}, .slices = {9, 9}}, "9 to before 9");
  refused({.tables = {"user"}, .slices = {0, 65'537}}, "65537");
}

TEST_F(FetchPartsTest, FindsDamageOfABlock) {
  Make(MakeBigDeltaStore);
  for (auto& [key, object] : remote_.objects()) {
    if (!absl::StartsWith(key, "data/")) continue;
    for (size_t at = 1000; at < object.bytes.size(); at += 100'000) {
      object.bytes[at] ^= 0x40;
    }
  }
  EXPECT_THAT(
      FetchStore(&remote_, fetched(),
                 {.step = 200, .tables = {"t"}, .slices = {9000, 9999}}),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("data/")));
  EXPECT_FALSE(fs::exists(fetched()));
}

}  // namespace
}  // namespace ckptdb::testing
