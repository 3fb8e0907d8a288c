// SPDX-License-Identifier: Apache-2.0
#include "db/disk/direct_write_file.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <utility>

#include "db/base/huge_page.h"
#include "db/disk/io_threads.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// Gathers one page while the previous one is written.
class DirectWriteFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  DirectWriteFile(std::unique_ptr<rocksdb::FSWritableFile> direct,
                  HugePage page, HugePage other)
      : FSWritableFileOwnerWrapper(std::move(direct)),
        page_(std::move(page)),
        writing_(std::move(other)) {}
  ~DirectWriteFile() override { AwaitWrite().PermitUncheckedError(); }

  // RocksDB would align and pad its buffers for a direct file. This class
  // accepts any bytes.
  bool use_direct_io() const override { return false; }

  IOStatus Append(const Slice& bytes, const IOOptions&,
                  IODebugContext*) override {
    for (size_t done = 0; done < bytes.size();) {
      const size_t count =
          std::min(bytes.size() - done, kHugePageBytes - gathered_);
      BulkCopy(page_.data() + gathered_, bytes.data() + done, count);
      gathered_ += count;
      done += count;
      dirty_ = true;
      if (gathered_ < kHugePageBytes) continue;
      IOStatus status = StartWrite();
      if (!status.ok()) return status;
    }
    return IOStatus::OK();
  }
  IOStatus Append(const Slice& bytes, const IOOptions& options,
                  const rocksdb::DataVerificationInfo&,
                  IODebugContext* debug) override {
    return Append(bytes, options, debug);
  }
  // Does nothing, because nothing need be on disk before a sync.
  IOStatus Flush(const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&,
                     IODebugContext*) override {
    return IOStatus::OK();
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = WriteTail(options, debug);
    return status.ok() ? target()->Sync(options, debug) : status;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = WriteTail(options, debug);
    return status.ok() ? target()->Fsync(options, debug) : status;
  }
  // Closes the file even if writing the tail fails; that error is returned.
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = WriteTail(options, debug);
    IOStatus closed = target()->Close(options, debug);
    return status.ok() ? closed : status;
  }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override {
    return begin_ + gathered_;
  }

 private:
  // Returns the outcome of writing the previous page. After an error, all later
  // calls fail with it.
  IOStatus AwaitWrite() {
    if (pending_.valid()) failed_ = pending_.get();
    return failed_;
  }

  // Starts writing the whole page, and switches to the other one.
  IOStatus StartWrite() {
    IOStatus status = AwaitWrite();
    if (!status.ok()) return status;
    std::swap(page_, writing_);
    pending_ = RunAsync([this, at = begin_] {
      return target()->PositionedAppend(Slice(writing_.data(), kHugePageBytes),
                                        at, IOOptions(), nullptr);
    });
    begin_ += kHugePageBytes;
    gathered_ = 0;
    dirty_ = false;
    return status;
  }

  // Writes the gathered bytes, padded to a whole block, and truncates the file
  // to its size. Keeps them, because more may follow.
  IOStatus WriteTail(const IOOptions& options, IODebugContext* debug) {
    IOStatus status = AwaitWrite();
    if (!status.ok() || !dirty_) return status;
    const size_t alignment = target()->GetRequiredBufferAlignment();
    const size_t padded = (gathered_ + alignment - 1) / alignment * alignment;
    // A direct write takes only whole blocks. The zeros after the end are cut
    // off below.
    std::memset(page_.data() + gathered_, 0, padded - gathered_);
    status = target()->PositionedAppend(Slice(page_.data(), padded), begin_,
                                        options, debug);
    if (!status.ok()) return status;
    status = target()->Truncate(begin_ + gathered_, options, debug);
    if (status.ok()) dirty_ = false;
    return status;
  }

  HugePage page_;
  uint64_t begin_ = 0;   // of the page in the file
  size_t gathered_ = 0;  // bytes of the page
  bool dirty_ = false;   // some of these bytes are not written
  HugePage writing_;
  std::future<IOStatus> pending_;
  IOStatus failed_;
};

}  // namespace

std::unique_ptr<rocksdb::FSWritableFile> NewDirectWriteFile(
    std::unique_ptr<rocksdb::FSWritableFile>* direct) {
  HugePage page = HugePage::Take();
  HugePage other = HugePage::Take();
  // Without huge pages, RocksDB's own file is used.
  if (page.data() == nullptr || other.data() == nullptr) return nullptr;
  return std::make_unique<DirectWriteFile>(std::move(*direct), std::move(page),
                                           std::move(other));
}

}  // namespace ckptdb::internal
