#include "ckptdb/db/read_window.h"

#include <cstring>
#include <mutex>

namespace ckptdb::internal {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

thread_local ReadWindow* window_in_use = nullptr;

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
    if (window == nullptr) {
      return target()->Read(offset, bytes, options, result, scratch, debug);
    }
    const char* found = window->Find(this, offset, bytes);
    if (found == nullptr) {
      const std::shared_ptr<rocksdb::FSRandomAccessFile> direct = Direct();
      window->Hold(direct);
      const auto read = [&](uint64_t at, size_t count, char* out) {
        return ReadAligned(direct.get(), at, count, options, out, debug);
      };
      found = window->Move(this, offset, bytes,
                           target()->GetRequiredBufferAlignment(), read);
    }
    // The end of the file, or what is wrong with it.
    if (found == nullptr) {
      return target()->Read(offset, bytes, options, result, scratch, debug);
    }
    // Copied: RocksDB may hold on to a block when the window moves.
    std::memcpy(scratch, found, bytes);
    *result = Slice(scratch, bytes);
    return IOStatus::OK();
  }

 private:
  // Null where the file cannot be read so.
  std::shared_ptr<rocksdb::FSRandomAccessFile> Direct() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<rocksdb::FSRandomAccessFile> direct = direct_.lock();
    if (direct != nullptr || !open_direct_) return direct;
    direct = open_direct_();
    direct_ = direct;
    // Asked once more it would say the same.
    if (direct == nullptr) open_direct_ = nullptr;
    return direct;
  }

  size_t ReadAligned(rocksdb::FSRandomAccessFile* direct, uint64_t offset,
                     size_t bytes, const IOOptions& options, char* out,
                     IODebugContext* debug) const {
    Slice read;
    IOStatus status = IOStatus::NotSupported();
    if (direct != nullptr) {
      status = direct->Read(offset, bytes, options, &read, out, debug);
    }
    if (!status.ok()) {
      status = target()->Read(offset, bytes, options, &read, out, debug);
    }
    return status.ok() && read.data() == out ? read.size() : 0;
  }

  mutable std::mutex mutex_;
  mutable DirectOpener open_direct_;
  mutable std::weak_ptr<rocksdb::FSRandomAccessFile> direct_;
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
  const bool inside = file == file_ && offset >= begin_ &&
                      offset - begin_ <= bytes_ &&
                      bytes <= bytes_ - (offset - begin_);
  if (!inside) return nullptr;
  const char* const memory =
      page_.data() != nullptr ? page_.data() : small_.get();
  return memory + (offset - begin_);
}

// A huge page where at least half of it is used.
char* ReadWindow::Memory(size_t bytes) {
  if (page_.data() != nullptr) return page_.data();
  if (bytes >= kHugePageBytes / 2) {
    page_ = HugePage::Take();
    small_.reset();
    return page_.data();
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
  return Find(file, offset, bytes);
}

std::unique_ptr<rocksdb::FSRandomAccessFile> NewWindowedFile(
    std::unique_ptr<rocksdb::FSRandomAccessFile> buffered,
    DirectOpener direct) {
  return std::make_unique<WindowedFile>(std::move(buffered), std::move(direct));
}

}  // namespace ckptdb::internal
