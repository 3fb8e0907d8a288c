// SPDX-License-Identifier: Apache-2.0
#include "db/quirks/read_window.h"

#include <cstring>
#include <functional>
#include <unordered_map>
#include <utility>

#include "db/base/mutex.h"

namespace ckptdb::internal {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// RocksDB cannot pass a window to the file that it reads from, so this is
// thread-local.
thread_local ReadWindow* window_in_use = nullptr;

// The pages of lent blocks, by block.
class LentBlocks {
 public:
  // Returns false if the block is already lent.
  bool Lend(const void* block, const std::shared_ptr<HugePage>& page) {
    const MutexLock lock(&mutex_);
    // The page lives as long as any block of it is lent, even after the window
    // has moved on.
    return pages_.try_emplace(block, page).second;
  }
  bool Return(const void* block) {
    std::shared_ptr<HugePage> page;  // freed after the lock is released
    const MutexLock lock(&mutex_);
    const auto found = pages_.find(block);
    if (found == pages_.end()) return false;
    page = std::move(found->second);
    pages_.erase(found);
    return true;
  }

 private:
  Mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<HugePage>> pages_
      ABSL_GUARDED_BY(mutex_);
};

// Never destroyed, because other immortal objects may return blocks.
LentBlocks& Lent() {
  static LentBlocks* const kLent = new LentBlocks();
  return *kLent;
}

class WindowedFile : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  WindowedFile(std::unique_ptr<rocksdb::FSRandomAccessFile> buffered,
               DirectOpener direct)
      : FSRandomAccessFileOwnerWrapper(std::move(buffered)),
        open_direct_(std::move(direct)) {}

  IOStatus Read(uint64_t offset, size_t bytes, const IOOptions& options,
                Slice* result, char* scratch,
                IODebugContext* debug) const override {
    ReadWindow* const window = ReadWindow::InUse();
    if (window == nullptr || !window->reads_ahead()) {
      return target()->Read(offset, bytes, options, result, scratch, debug);
    }
    const char* found = window->Find(this, offset, bytes);
    if (found != scratch && window->Has(scratch)) {
      // The memory was lent for another block, and is about to be overwritten.
      window->Forget();
      found = nullptr;
    }
    if (found == nullptr) {
      rocksdb::FSRandomAccessFile* const direct = Direct();
      const auto read = [&](uint64_t at, size_t count, char* out) {
        return ReadAligned(direct, at, count, options, out, debug);
      };
      found = window->Move(this, offset, bytes,
                           target()->GetRequiredBufferAlignment(), read);
    }
    // This is the end of the file, or an error.
    if (found == nullptr) {
      return target()->Read(offset, bytes, options, result, scratch, debug);
    }
    // RocksDB may keep a block when the window moves, so the block must be in
    // lent memory or in RocksDB's.
    if (found != scratch) std::memcpy(scratch, found, bytes);
    // RocksDB changes the first byte before it reads, so that memory that a
    // read leaves untouched does not pass for an earlier block.
    if (found == scratch) scratch[0] = window->first_byte_lent();
    window->Release(offset, bytes);
    *result = Slice(scratch, bytes);
    return IOStatus::OK();
  }

 private:
  // Returns null if the file cannot be read directly.
  rocksdb::FSRandomAccessFile* Direct() const {
    const MutexLock lock(&mutex_);
    // A second attempt would have the same result.
    const DirectOpener open = std::exchange(open_direct_, nullptr);
    if (open) direct_ = open();
    return direct_.get();
  }

  size_t ReadAligned(rocksdb::FSRandomAccessFile* direct, uint64_t offset,
                     size_t bytes, const IOOptions& options, char* out,
                     IODebugContext* debug) const {
    Slice read;
    IOStatus status = IOStatus::NotSupported();
    if (direct != nullptr) {
      status = direct->Read(offset, bytes, options, &read, out, debug);
    }
    // Tries the buffered file next; if that fails as well, its error is
    // returned.
    if (!status.ok()) {
      status = target()->Read(offset, bytes, options, &read, out, debug);
    }
    return status.ok() && read.data() == out ? read.size() : 0;
  }

  mutable Mutex mutex_;
  mutable DirectOpener open_direct_ ABSL_GUARDED_BY(mutex_);
  mutable std::unique_ptr<rocksdb::FSRandomAccessFile> direct_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace

ReadWindow::Use::Use(ReadWindow* window, bool ahead) : before_(window_in_use) {
  window->ahead_ = ahead;
  window_in_use = window;
}
ReadWindow::Use::~Use() { window_in_use = before_; }

ReadWindow* ReadWindow::InUse() { return window_in_use; }

const char* ReadWindow::Find(const void* file, uint64_t offset,
                             size_t bytes) const {
  // These comparisons cannot overflow for any offset from a damaged index.
  const bool inside = file == file_ && offset >= begin_ &&
                      offset - begin_ <= bytes_ &&
                      bytes <= bytes_ - (offset - begin_);
  if (!inside) return nullptr;
  const char* const found = memory() + (offset - begin_);
  // RocksDB may have changed memory that was lent before.
  return offset >= lent_end_ || found == lent_ ? found : nullptr;
}

const char* ReadWindow::memory() const {
  return page_->data() != nullptr ? page_->data() : small_.get();
}

bool ReadWindow::Has(const char* memory) const {
  const std::less<const char*> before;
  const char* const page = page_->data();
  return page != nullptr && !before(memory, page) &&
         before(memory, page + page_->bytes());
}

// Lends only what the next read is expected to request: a block of the previous
// one's size, right after it. A wrong guess costs a copy, because WindowedFile
// compares the address.
char* ReadWindow::LendNext(size_t bytes) {
  if (bytes != piece_ || page_->data() == nullptr) return nullptr;
  if (next_ < begin_ || next_ + bytes > pieces_end_) return nullptr;
  char* const block = page_->data() + (next_ - begin_);
  if (!Lent().Lend(block, page_)) return nullptr;
  lent_ = block;
  lent_end_ = next_ + bytes;
  first_byte_lent_ = block[0];
  return block;
}

// The page is replaced rather than reused, because blocks of it may be lent.
void ReadWindow::Forget() {
  file_ = nullptr;
  piece_ = 0;
  lent_ = nullptr;
  lent_end_ = 0;
  page_ = std::make_shared<HugePage>();
}

void ReadWindow::Release(uint64_t offset, size_t bytes) {
  lent_ = nullptr;
  next_ = offset + bytes;
  if (next_ >= pieces_end_) Forget();
}

bool ReturnBlock(void* memory) { return Lent().Return(memory); }

// A window far smaller than a part of a huge page does not get one.
char* ReadWindow::Memory(size_t bytes) {
  constexpr size_t kSmall = size_t{32} << 10;
  // The page is reused only if no part of it was ever lent.
  if (bytes <= page_->bytes() && lent_end_ == 0) return page_->data();
  Forget();
  if (bytes > kSmall) {
    *page_ = HugePage::Take(bytes);
    return page_->data();
  }
  if (bytes > small_bytes_) {
    small_ = AllocateAligned(bytes);
    small_bytes_ = small_ == nullptr ? 0 : bytes;
  }
  return small_.get();
}

const char* ReadWindow::Move(const void* file, uint64_t offset, size_t bytes,
                             size_t alignment, const ReadAligned& read) {
  const size_t piece = std::max<size_t>(bytes, 1);
  const size_t loss = 2 * alignment;  // at both ends
  if (ahead_bytes_ == 0 || piece + loss > kHugePageBytes) return nullptr;
  const uint64_t room =
      std::max<uint64_t>((std::max(ahead_bytes_, loss) - loss) / piece, 1);
  // A scan reads as many blocks as fit and remain; a block outside of a scan is
  // read alone.
  const auto pieces = ahead_ ? static_cast<size_t>(std::clamp<uint64_t>(
                                   (left_bytes_ + piece - 1) / piece, 1, room))
                             : 1;
  if (ahead_) left_bytes_ -= std::min<uint64_t>(left_bytes_, pieces * piece);
  const size_t skipped = offset % alignment;
  const size_t count =
      (skipped + pieces * piece + alignment - 1) / alignment * alignment;
  file_ = nullptr;
  char* const memory = Memory(count);
  if (memory == nullptr) return nullptr;
  file_ = file;
  begin_ = offset - skipped;
  bytes_ = read(begin_, count, memory);
  piece_ = piece;
  pieces_end_ = std::min<uint64_t>(offset + pieces * piece, begin_ + bytes_);
  return Find(file, offset, bytes);
}

std::unique_ptr<rocksdb::FSRandomAccessFile> NewWindowedFile(
    std::unique_ptr<rocksdb::FSRandomAccessFile> buffered,
    DirectOpener direct) {
  return std::make_unique<WindowedFile>(std::move(buffered), std::move(direct));
}

}  // namespace ckptdb::internal
