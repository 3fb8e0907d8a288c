// SPDX-License-Identifier: Apache-2.0
// RocksDB on SimFileSystem: all features that the store uses, and recovery
// after a power loss at every operation.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/sst_file_writer.h"
#include "tests/support/sim_file_system.h"
#include "tests/support/sim_test_calls.h"

namespace ckptdb::testing {
namespace {

using rocksdb::Status;

constexpr char kDb[] = "/db";

#define ASSERT_DB_OK(expression)                         \
  do {                                                   \
    const Status db_status = (expression);               \
    ASSERT_TRUE(db_status.ok()) << db_status.ToString(); \
  } while (false)

// A database with two column families on one disk image.
class Database {
 public:
  explicit Database(std::shared_ptr<SimFileSystem> fs)
      : fs_(std::move(fs)), env_(rocksdb::NewCompositeEnv(fs_)) {
    options_.env = env_.get();
    options_.create_if_missing = true;
    options_.create_missing_column_families = true;
    options_.max_open_files = -1;
    options_.compression = rocksdb::kNoCompression;
    options_.disable_auto_compactions = true;
  }
  ~Database() { Close(); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Status Open(bool secondary = false) {
    const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
        {"default", options_}, {"bulk", options_}};
    rocksdb::DB* db = nullptr;
    Status status =
        secondary ? rocksdb::DB::OpenAsSecondary(options_, kDb, "/secondary",
                                                 families, &handles_, &db)
                  : rocksdb::DB::Open(options_, kDb, families, &handles_, &db);
    db_.reset(db);
    return status;
  }
  void Close() {
    for (auto* handle : handles_) delete handle;
    handles_.clear();
    db_.reset();
  }

  Status Put(const std::string& key, const std::string& value) {
    rocksdb::WriteOptions write;
    write.sync = true;
    return db_->Put(write, handles_[0], key, value);
  }
  std::string Get(int family, const std::string& key) {
    std::string value;
    const Status status =
        db_->Get(rocksdb::ReadOptions(), handles_[family], key, &value);
    return status.ok() ? value : status.ToString();
  }
  Status Flush() {
    return db_->Flush(rocksdb::FlushOptions(), {handles_[0], handles_[1]});
  }
  // Stages rows "<prefix>00" to "<prefix>99" of 1,000 bytes with direct writes
  // and ingests them into `bulk` by hard link.
  Status Ingest(const std::string& prefix) {
    const std::string path = "/staging/" + prefix + ".sst";
    rocksdb::EnvOptions env_options;
    env_options.use_direct_writes = true;
    rocksdb::SstFileWriter writer(env_options, options_, handles_[1]);
    Status status = writer.Open(path);
    for (int i = 0; i < 100 && status.ok(); ++i) {
      status = writer.Put(Row(prefix, i), std::string(1000, prefix[0]));
    }
    if (status.ok()) status = writer.Finish();
    rocksdb::IngestExternalFileOptions ingest;
    ingest.move_files = true;
    ingest.write_global_seqno = false;
    ingest.allow_blocking_flush = false;
    if (!status.ok()) return status;
    return db_->IngestExternalFile(handles_[1], {path}, ingest);
  }
  Status DeleteFiles(const std::string& from, const std::string& to) {
    const rocksdb::Slice begin(from);
    const rocksdb::Slice end(to);
    const rocksdb::RangePtr range(&begin, &end);
    return rocksdb::DeleteFilesInRanges(db_.get(), handles_[1], &range, 1);
  }
  // Returns the number of rows of `bulk` from an iterator, or -1 after an
  // error.
  int BulkRows() {
    std::unique_ptr<rocksdb::Iterator> rows(
        db_->NewIterator(rocksdb::ReadOptions(), handles_[1]));
    int count = 0;
    for (rows->SeekToFirst(); rows->Valid(); rows->Next()) ++count;
    return rows->status().ok() ? count : -1;
  }
  static std::string Row(const std::string& prefix, int i) {
    return prefix + static_cast<char>('0' + i / 10) +
           static_cast<char>('0' + i % 10);
  }
  rocksdb::DB* operator->() { return db_.get(); }
  rocksdb::ColumnFamilyHandle* bulk() { return handles_[1]; }

 private:
  std::shared_ptr<SimFileSystem> fs_;
  std::unique_ptr<rocksdb::Env> env_;
  rocksdb::Options options_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::unique_ptr<rocksdb::DB> db_;
};

int CountSst(const SimFileSystem& fs) {
  const std::vector<std::string> paths = Paths(fs);
  return std::count_if(paths.begin(), paths.end(), [](const auto& path) {
    return path.rfind("/db/", 0) == 0 && path.size() > 4 &&
           path.substr(path.size() - 4) == ".sst";
  });
}

TEST(SimFileSystemRocksDbTest, SupportsAllCallsOfTheStore) {
  auto fs = std::make_shared<SimFileSystem>();
  MakeFolder(*fs, "/staging");
  Database db(fs);
  ASSERT_DB_OK(db.Open());
  ASSERT_DB_OK(db.Put("stamp", "1"));
  ASSERT_DB_OK(db.Ingest("a"));
  ASSERT_DB_OK(db.Ingest("b"));
  ASSERT_DB_OK(db.Put("step", "2"));
  ASSERT_DB_OK(db.Flush());
  EXPECT_EQ(db.BulkRows(), 200);

  Database second(fs);
  EXPECT_THAT(second.Open().ToString(),
              ::testing::HasSubstr("lock hold by current process: /db/LOCK"));

  Database reader(fs);
  ASSERT_DB_OK(reader.Open(/*secondary=*/true));
  EXPECT_EQ(reader.BulkRows(), 200);
  ASSERT_DB_OK(db.Ingest("c"));
  ASSERT_DB_OK(db.DeleteFiles("a", "a~"));
  EXPECT_EQ(db.BulkRows(), 200);
  ASSERT_DB_OK(reader->TryCatchUpWithPrimary());
  EXPECT_EQ(reader.BulkRows(), 200);
  EXPECT_EQ(reader.Get(1, "c99"), std::string(1000, 'c'));
  EXPECT_EQ(reader.Get(0, "step"), "2");
  reader.Close();

  const int files = CountSst(*fs);
  rocksdb::CompactRangeOptions compact;
  compact.bottommost_level_compaction =
      rocksdb::BottommostLevelCompaction::kForceOptimized;
  ASSERT_DB_OK(db->CompactRange(compact, db.bulk(), nullptr, nullptr));
  EXPECT_EQ(db.BulkRows(), 200);
  db.Close();
  EXPECT_LE(CountSst(*fs), files);

  ASSERT_DB_OK(db.Open());
  EXPECT_EQ(db.BulkRows(), 200);
  EXPECT_EQ(db.Get(0, "step"), "2");
  ASSERT_DB_OK(db->VerifyChecksum());
}

TEST(SimFileSystemRocksDbTest, DirectReadsAndWritesWork) {
  auto fs = std::make_shared<SimFileSystem>();
  const auto env = rocksdb::NewCompositeEnv(fs);
  rocksdb::Options options;
  options.env = env.get();
  options.create_if_missing = true;
  options.use_direct_reads = true;
  options.use_direct_io_for_flush_and_compaction = true;
  options.recycle_log_file_num = 2;
  rocksdb::DB* opened = nullptr;
  for (int round = 0; round < 4; ++round) {
    ASSERT_DB_OK(rocksdb::DB::Open(options, kDb, &opened));
    const std::unique_ptr<rocksdb::DB> db(opened);
    for (int i = 0; i < 100; ++i) {
      ASSERT_DB_OK(db->Put({}, "key" + std::to_string(i),
                           std::string(500, 'a' + round)));
      if (i % 40 == 39) ASSERT_DB_OK(db->Flush({}));
    }
    std::string value;
    ASSERT_DB_OK(db->Get({}, "key3", &value));
    EXPECT_EQ(value, std::string(500, 'a' + round));
    ASSERT_DB_OK(db->CompactRange({}, nullptr, nullptr));
    ASSERT_DB_OK(db->VerifyChecksum());
  }
}

// The acknowledged writes when the journal had `operations` entries.
struct Acknowledged {
  size_t operations;
  int keys;
  int rows;
};

class Workload {
 public:
  explicit Workload(std::shared_ptr<SimFileSystem> fs) : fs_(std::move(fs)) {}

  void Run() {
    MakeFolder(*fs_, "/staging");
    Database db(fs_);
    ASSERT_DB_OK(db.Open());
    for (int i = 0; i < 6; ++i) {
      ASSERT_DB_OK(db.Put("key" + std::to_string(i), "value"));
      Acknowledge(i + 1, i / 2 * 100);
      if (i % 2 == 0) continue;
      ASSERT_DB_OK(db.Ingest(std::string(1, 'a' + i)));
      ASSERT_DB_OK(db.Flush());
      Acknowledge(i + 1, (i + 1) / 2 * 100);
    }
  }
  Acknowledged At(size_t operations) const {
    Acknowledged last = {0, 0, 0};
    for (const Acknowledged& entry : log_) {
      if (entry.operations <= operations) last = entry;
    }
    return last;
  }

 private:
  void Acknowledge(int keys, int rows) {
    log_.push_back({fs_->operations(), keys, rows});
  }

  std::shared_ptr<SimFileSystem> fs_;
  std::vector<Acknowledged> log_;
};

void CheckImage(const std::shared_ptr<SimFileSystem>& image,
                const Acknowledged& expected) {
  Database db(image);
  ASSERT_DB_OK(db.Open());
  for (int i = 0; i < expected.keys; ++i) {
    EXPECT_EQ(db.Get(0, "key" + std::to_string(i)), "value");
  }
  EXPECT_GE(db.BulkRows(), expected.rows);
  EXPECT_EQ(db.BulkRows() % 100, 0);
}

TEST(SimFileSystemRocksDbTest, RocksDbSurvivesPowerLossAtEveryOperation) {
  auto fs = std::make_shared<SimFileSystem>();
  Workload workload(fs);
  ASSERT_NO_FATAL_FAILURE(workload.Run());
  size_t images = 0;
  for (const PowerLoss variant : kAllPowerLosses) {
    std::unordered_set<uint64_t> seen;
    for (size_t k = 0; k <= fs->operations(); ++k) {
      auto image = fs->CrashAfter(k, variant);
      // An acknowledgement changes no bytes, so check again after each.
      const Acknowledged expected = workload.At(k);
      if (!seen.insert(image->ImageDigest() + expected.operations).second) {
        continue;
      }
      ++images;
      SCOPED_TRACE(std::string(PowerLossName(variant)) + " after operation " +
                   std::to_string(k) + ", next " + fs->OperationText(k));
      ASSERT_NO_FATAL_FAILURE(CheckImage(image, expected));
      if (HasFailure()) return;
    }
  }
  std::cout << fs->operations() << " operations, " << images << " images\n";
}

TEST(SimFileSystemRocksDbTest, UnsyncedPutIsLost) {
  auto fs = std::make_shared<SimFileSystem>();
  Database db(fs);
  ASSERT_DB_OK(db.Open());
  ASSERT_DB_OK(db.Put("synced", "1"));
  ASSERT_DB_OK(db->Put(rocksdb::WriteOptions(), "unsynced", "2"));
  Database after_kill(Crash(*fs, PowerLoss::kKeepAll));
  ASSERT_DB_OK(after_kill.Open());
  EXPECT_EQ(after_kill.Get(0, "unsynced"), "2");
  Database after_loss(Crash(*fs, PowerLoss::kDropUnsyncedBytes));
  ASSERT_DB_OK(after_loss.Open());
  EXPECT_EQ(after_loss.Get(0, "synced"), "1");
  EXPECT_EQ(after_loss.Get(0, "unsynced"), "NotFound: ");
}

TEST(SimFileSystemRocksDbTest, EveryFailingCallOfAnOpenIsReported) {
  auto fs = std::make_shared<SimFileSystem>();
  {
    Database db(fs);
    ASSERT_DB_OK(db.Open());
    ASSERT_DB_OK(db.Put("key", "value"));
  }
  uint64_t failed_opens = 0;
  for (uint64_t k = 0;; ++k) {
    auto image = Crash(*fs, PowerLoss::kKeepAll);
    image->FailOperation(k, rocksdb::IOStatus::IOError("injected"), true);
    Database db(image);
    const Status status = db.Open();
    if (image->failed_calls() == 0) break;
    failed_opens += status.ok() ? 0 : 1;
    db.Close();
    image->ClearFault();
    ASSERT_DB_OK(db.Open());
    EXPECT_EQ(db.Get(0, "key"), "value") << "call " << k;
  }
  EXPECT_GT(failed_opens, 10u);
}

}  // namespace
}  // namespace ckptdb::testing
