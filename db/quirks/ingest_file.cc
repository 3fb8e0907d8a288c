// SPDX-License-Identifier: Apache-2.0
#include "db/quirks/ingest_file.h"

#include <rocksdb/env.h>
#include <rocksdb/sst_file_reader.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "db/base/mutex.h"

namespace ckptdb::internal {
namespace {

using rocksdb::FSRandomAccessFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// The parts of a file that were read, by offset. Thread-safe.
class KeptReads {
 public:
  void Keep(uint64_t offset, const rocksdb::Slice& bytes) {
    const MutexLock lock(&mutex_);
    std::string& kept = reads_[offset];
    if (kept.size() < bytes.size()) kept = bytes.ToString();
  }

  // Returns false unless all bytes were kept.
  bool Find(uint64_t offset, size_t n, rocksdb::Slice* result,
            char* scratch) const {
    const MutexLock lock(&mutex_);
    // Starts at the last read that begins at or before the offset. An earlier
    // one may be longer, so all of them are searched.
    for (auto it = reads_.upper_bound(offset); it != reads_.begin();) {
      --it;
      const std::string& kept = it->second;
      const uint64_t skipped = offset - it->first;
      if (kept.size() < skipped || kept.size() - skipped < n) continue;
      kept.copy(scratch, n, skipped);
      *result = rocksdb::Slice(scratch, n);
      return true;
    }
    return false;
  }

 private:
  mutable Mutex mutex_;
  std::map<uint64_t, std::string> reads_ ABSL_GUARDED_BY(mutex_);
};

// Keeps what it reads, and reads only what it has not kept.
class KeepingFile : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  KeepingFile(std::unique_ptr<FSRandomAccessFile> file,
              std::shared_ptr<KeptReads> reads)
      : FSRandomAccessFileOwnerWrapper(std::move(file)),
        reads_(std::move(reads)) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options,
                rocksdb::Slice* result, char* scratch,
                IODebugContext* debug) const override {
    if (reads_->Find(offset, n, result, scratch)) return IOStatus::OK();
    IOStatus status =
        target()->Read(offset, n, options, result, scratch, debug);
    if (status.ok()) reads_->Keep(offset, *result);
    return status;
  }
  // One by one, so that each uses the kept reads.
  IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count,
                     const IOOptions& options, IODebugContext* debug) override {
    for (size_t i = 0; i < count; ++i) {
      rocksdb::FSReadRequest& request = requests[i];
      request.status = Read(request.offset, request.len, options,
                            &request.result, request.scratch, debug);
    }
    return IOStatus::OK();
  }
  // RocksDB prefetches the last 512 KiB of a file that it opens, and would read
  // them itself. Properties and index take less except in the largest files;
  // the rest of their index is read on demand.
  IOStatus Prefetch(uint64_t offset, size_t n, const IOOptions& options,
                    IODebugContext* debug) override {
    constexpr size_t kTailBytes = size_t{64} << 10;
    const size_t bytes = std::min(n, kTailBytes);
    std::string tail(bytes, '\0');
    rocksdb::Slice read;
    return Read(offset + (n - bytes), bytes, options, &read, tail.data(),
                debug);
  }

 private:
  const std::shared_ptr<KeptReads> reads_;
};

class KeepingFileSystem : public rocksdb::FileSystemWrapper {
 public:
  KeepingFileSystem(const std::shared_ptr<rocksdb::FileSystem>& files,
                    std::shared_ptr<KeptReads> reads)
      : FileSystemWrapper(files), reads_(std::move(reads)) {}

  const char* Name() const override { return "ckptdb.KeepingFileSystem"; }
  IOStatus NewRandomAccessFile(const std::string& path,
                               const rocksdb::FileOptions& options,
                               std::unique_ptr<FSRandomAccessFile>* result,
                               IODebugContext* debug) override {
    IOStatus status =
        target()->NewRandomAccessFile(path, options, result, debug);
    if (status.ok()) {
      *result = std::make_unique<KeepingFile>(std::move(*result), reads_);
    }
    return status;
  }

 private:
  const std::shared_ptr<KeptReads> reads_;
};

// Opens the table and reads its first and its last entry, like an ingestion.
// `files` keeps everything that is read.
rocksdb::Status ReadEnds(const std::shared_ptr<rocksdb::FileSystem>& files,
                         const std::string& path, rocksdb::Options table) {
  const auto env = rocksdb::NewCompositeEnv(files);
  table.env = env.get();
  rocksdb::SstFileReader reader(table);
  rocksdb::Status status = reader.Open(path);
  if (!status.ok()) return status;
  const std::unique_ptr<rocksdb::Iterator> entries(
      reader.NewIterator(rocksdb::ReadOptions()));
  entries->SeekToFirst();
  if (entries->status().ok()) entries->SeekToLast();
  if (entries->status().ok() && !entries->Valid()) {
    return rocksdb::Status::Corruption(path, "has no entries");
  }
  return entries->status();
}

}  // namespace

IOStatus OpenIngestFile(const std::shared_ptr<rocksdb::FileSystem>& files,
                        const std::string& path, const rocksdb::Options& table,
                        const rocksdb::FileOptions& options,
                        std::unique_ptr<FSRandomAccessFile>* result,
                        IODebugContext* debug) {
  // The returned file shares these reads, so the ingestion finds the data in
  // memory, and none of its reads can fail (line 21 of docs/rocksdb.md).
  const auto reads = std::make_shared<KeptReads>();
  const auto keeping = std::make_shared<KeepingFileSystem>(files, reads);
  rocksdb::Status status = ReadEnds(keeping, path, table);
  if (!status.ok()) return rocksdb::status_to_io_status(std::move(status));
  return keeping->NewRandomAccessFile(path, options, result, debug);
}

}  // namespace ckptdb::internal
