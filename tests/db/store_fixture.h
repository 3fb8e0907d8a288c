// SPDX-License-Identifier: Apache-2.0
// A fixture with a store in a temporary folder, and the headers that most tests
// of stores include.
#ifndef CKPTDB_TESTS_DB_STORE_FIXTURE_H_
#define CKPTDB_TESTS_DB_STORE_FIXTURE_H_

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/disk/environment.h"
#include "db/store.h"
#include "schema/bytes/limits.h"
#include "schema/status.h"
#include "tests/db/content.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {

// The regular files in `folder` whose names end with `extension`, by name.
inline std::vector<std::filesystem::path> FilesIn(
    const std::filesystem::path& folder, const std::string& extension = "") {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file() &&
        (extension.empty() || entry.path().extension() == extension)) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void WriteFile(const std::filesystem::path& path,
                      const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The machine, with a wrapper around its files or another clock.
template <typename Files>
std::shared_ptr<Files> OnDisk() {
  return std::make_shared<Files>(
      internal::Environment::Default()->file_system());
}
inline std::shared_ptr<internal::Environment> EnvironmentOf(
    std::shared_ptr<rocksdb::FileSystem> files,
    std::function<int64_t()> now_micros = [] {
      return internal::Environment::Default()->NowMicros();
    }) {
  return std::make_shared<internal::Environment>(
      std::move(files), std::move(now_micros), /*on_disk=*/true);
}

// Counts how often a store passes a point. The store is closed before it.
class PointCount {
 public:
  explicit PointCount(absl::string_view point) : point_(point) {}
  std::function<void(absl::string_view)> hook() {
    return [this](absl::string_view passed) {
      if (passed != point_) return;
      const std::lock_guard<std::mutex> lock(mutex_);
      ++count_;
      grew_.notify_all();
    };
  }
  // Whether it comes to `count` in a minute.
  bool WaitFor(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    return grew_.wait_for(lock, std::chrono::seconds(60),
                          [&] { return count_ >= count; });
  }

 private:
  const absl::string_view point_;
  std::mutex mutex_;
  std::condition_variable grew_;
  int count_ = 0;
};

class StoreFixture : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  std::string path() const { return dir_.path() + "/store"; }
  std::string In(const std::string& name) const { return path() + "/" + name; }
  // Closes the store and opens it with `options_`.
  void Reopen() {
    store_.reset();
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(path(), options_));
  }
  absl::StatusOr<SaveResult> Save(int64_t step, const RankContent& content,
                                  SaveSpec spec = {}) {
    spec.step = step;
    return store_->Save(spec, HeldState(content).state());
  }
  absl::StatusOr<SaveResult> Overwrite(int64_t step, const RankContent& content,
                                       SaveSpec spec = {}) {
    spec.overwrite = true;
    return Save(step, content, std::move(spec));
  }
  // Steps with SmallContent of their numbers.
  void SaveSmall(const std::vector<int64_t>& steps) {
    for (const int64_t step : steps) ASSERT_OK(Save(step, SmallContent(step)));
  }
  // Saves of several ranks.
  Store::Attempt Begin(const SaveSpec& spec) {
    auto save = store_->Begin(spec);
    EXPECT_OK(save);
    return save.ok() ? *std::move(save) : Store::Attempt();
  }
  absl::StatusOr<StagedRank> StageRank(const Ticket& ticket,
                                       const RankContent& content) {
    return Stage(path(), ticket,
                 HeldState(content, 100, AnyRank(ticket)).state());
  }
  // All ranks, one after the other.
  std::vector<StagedRank> StageAll(const Store::Attempt& save,
                                   const std::vector<RankContent>& ranks) {
    std::vector<StagedRank> all;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      auto staged = StageRank(save.tickets.at(rank), ranks[rank]);
      EXPECT_OK(staged);
      all.push_back(staged.ok() ? *std::move(staged) : StagedRank());
    }
    return all;
  }
  void ExpectStep(int64_t step, const std::vector<RankContent>& ranks) {
    SCOPED_TRACE("step " + std::to_string(step));
    ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(step));
    EXPECT_EQ(reader->record().version.step, step);
    ExpectHolds(*reader, ranks);
    EXPECT_OK(reader->Verify());
  }
  void ExpectSmall(const std::vector<int64_t>& steps) {
    for (const int64_t step : steps) ExpectStep(step, {SmallContent(step)});
  }
  std::vector<int64_t> ListSteps() const { return StepsOf(*store_); }
  template <typename From>
  static std::vector<int64_t> StepsOf(const From& from) {
    std::vector<int64_t> steps;
    for (const StepRecord& record : from.Steps())
      steps.push_back(record.version.step);
    return steps;
  }
  StepRecord Record(int64_t step) const {
    const absl::StatusOr<StepRecord> found = store_->FindStep(step);
    EXPECT_OK(found);
    return found.value_or(StepRecord());
  }
  int64_t LatestStep() const {
    const auto latest = store_->Latest();
    return latest.ok() ? latest->version.step : -1;
  }
  Usage UsageNow() const {
    const auto usage = store_->GetUsage();
    EXPECT_OK(usage);
    return usage.value_or(Usage());
  }
  // Sweeps, and returns what that removed.
  std::vector<Version> Swept() {
    const auto swept = store_->Sweep();
    EXPECT_OK(swept);
    return swept.ok() ? swept->swept_versions : std::vector<Version>();
  }
  void DeleteSteps(const std::vector<int64_t>& steps) {
    for (const int64_t step : steps) ASSERT_OK(store_->Delete(step));
  }
  Item FindItem(int64_t step, const std::string& name, uint32_t rank = 0) {
    const auto reader = store_->OpenStep(step);
    EXPECT_OK(reader);
    if (!reader.ok()) return {};
    for (const Item& item : (*reader)->ranks().at(rank).items) {
      if (item.name == name) return item;
    }
    ADD_FAILURE() << "no item " << name;
    return {};
  }
  std::vector<std::filesystem::path> TableFiles() const {
    return FilesIn(In("db"), ".sst");
  }
  size_t LeaseFiles() const { return FilesIn(In("leases")).size(); }
  TempDir dir_;
  StoreOptions options_;
  std::unique_ptr<Store> store_;
};

// Without sweeps but the test's own.
class SweptFixture : public StoreFixture {
 protected:
  SweptFixture() { options_.background_sweep = false; }
};

// Rows whose ids are modulo `ranks` the rank, and a blob.
inline RankContent SmallRank(uint32_t rank, uint32_t ranks) {
  RankContent content;
  TableContent& table = content.tables["user"];
  table.slots = {{"v", DType::kU8, 3}};
  for (uint32_t i = 0; i < 50; ++i)
    table.rows[int64_t{i} * ranks + rank] = "v" + std::to_string(10 + i);
  content.blobs["reader"] = "rank " + std::to_string(rank);
  return content;
}

// What another process stages: both sides know it.
inline RankContent ChildContent(uint32_t rank) {
  std::mt19937_64 random(rank);
  RankContent content;
  content.tensors["part." + std::to_string(rank)] = BulkTensor(rank);
  TableContent table;
  table.slots = {{"embedding", DType::kF32, 2}};
  for (int64_t i = 0; i < 1000; ++i)
    table.rows[i * 8 + rank] = RandomBytes(&random, table.row_bytes());
  content.tables["user"] = table;
  content.blobs["reader"] = "rank " + std::to_string(rank);
  return content;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_STORE_FIXTURE_H_
