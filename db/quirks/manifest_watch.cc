// SPDX-License-Identifier: Apache-2.0
#include "db/quirks/manifest_watch.h"

#include <utility>

namespace ckptdb::internal {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// Passes on all calls, and reports appends and syncs to the watch.
class WatchedFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  WatchedFile(std::unique_ptr<rocksdb::FSWritableFile> file, uint64_t number,
              std::shared_ptr<ManifestWatch> watch)
      : FSWritableFileOwnerWrapper(std::move(file)),
        number_(number),
        watch_(std::move(watch)) {
    // Only the newest MANIFEST is watched: RocksDB writes to one at a time.
    watch_->Start(number_);
  }

  IOStatus Append(const rocksdb::Slice& bytes, const IOOptions& options,
                  IODebugContext* debug) override {
    return Appended(bytes, target()->Append(bytes, options, debug));
  }
  IOStatus Append(const rocksdb::Slice& bytes, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& verification,
                  IODebugContext* debug) override {
    return Appended(bytes,
                    target()->Append(bytes, options, verification, debug));
  }
  IOStatus Flush(const IOOptions& options, IODebugContext* debug) override {
    return Watch(target()->Flush(options, debug));
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return Synced(target()->Sync(options, debug));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Synced(target()->Fsync(options, debug));
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    return Watch(target()->Close(options, debug));
  }

 private:
  IOStatus Appended(const rocksdb::Slice& bytes, IOStatus status) {
    if (status.ok()) watch_->Append(number_, {bytes.data(), bytes.size()});
    return Watch(std::move(status));
  }
  IOStatus Synced(IOStatus status) {
    if (status.ok()) watch_->Sync(number_);
    return Watch(std::move(status));
  }
  // A failed append or sync may or may not have reached the disk. From then on
  // no file may be removed that either outcome needs.
  IOStatus Watch(IOStatus status) {
    if (!status.ok()) watch_->Fail();
    return status;
  }

  const uint64_t number_;
  const std::shared_ptr<ManifestWatch> watch_;
};

}  // namespace

ManifestWatch::ManifestWatch() : hash_(XXH3_createState()) {}

void ManifestWatch::Start(uint64_t number) {
  const MutexLock lock(&mutex_);
  XXH3_64bits_reset(hash_.get());
  written_ = {};
  written_.number = number;
}

void ManifestWatch::Append(uint64_t number, absl::string_view bytes) {
  const MutexLock lock(&mutex_);
  // Data of a replaced MANIFEST does not belong to the watched one.
  if (number != written_.number) return;
  XXH3_64bits_update(hash_.get(), bytes.data(), bytes.size());
  written_.bytes += bytes.size();
}

void ManifestWatch::Sync(uint64_t number) {
  const MutexLock lock(&mutex_);
  if (number != written_.number) return;
  // The first sync of a MANIFEST precedes the moment at which CURRENT durably
  // names it, and the second one follows it (line 37 of docs/rocksdb.md). So a
  // state is returned from the second sync on.
  const bool again = number == first_synced_.number;
  ManifestState& state = again ? synced_ : first_synced_;
  state = written_;
  state.hash = XXH3_64bits_digest(hash_.get());
}

void ManifestWatch::Named() {
  const MutexLock lock(&mutex_);
  // The caller knows that CURRENT names the MANIFEST, so its first sync counts.
  if (synced_.number != first_synced_.number) synced_ = first_synced_;
}

void ManifestWatch::Fail() {
  const MutexLock lock(&mutex_);
  failed_ = true;
}

bool ManifestWatch::failed() const {
  const MutexLock lock(&mutex_);
  return failed_;
}

ManifestState ManifestWatch::Synced() const {
  const MutexLock lock(&mutex_);
  return synced_;
}

std::unique_ptr<rocksdb::FSWritableFile> WatchManifest(
    std::unique_ptr<rocksdb::FSWritableFile> file, uint64_t number,
    std::shared_ptr<ManifestWatch> watch) {
  return std::make_unique<WatchedFile>(std::move(file), number,
                                       std::move(watch));
}

}  // namespace ckptdb::internal
