// Reads ahead for one pass over a table at a time; internal to db/.
//
// RocksDB can read ahead by itself, but copies what it has read once more for
// each block, and reads into memory that is not fit for direct I/O: see
// db/base/huge_page.h. A window takes the place of that. It holds some of a
// file. RocksDB asks for the memory of a block just before it reads the block,
// so it is lent the very bytes of the window that the block will be found in,
// and nothing is copied. db/rocks/ahead_iterator.h has a window.
#ifndef CKPTDB_DB_QUIRKS_READ_WINDOW_H_
#define CKPTDB_DB_QUIRKS_READ_WINDOW_H_

#include <rocksdb/file_system.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include "ckptdb/db/base/huge_page.h"

namespace ckptdb::internal {

// Consecutive bytes of one file. Not thread-safe.
class ReadWindow {
 public:
  // Reads at most `ahead_bytes` at a time, and at most kHugePageBytes. In a
  // pass of about `pass_bytes` no more than that is read ahead in all.
  ReadWindow(uint64_t ahead_bytes, uint64_t pass_bytes)
      : ahead_bytes_(static_cast<size_t>(
            std::min<uint64_t>(ahead_bytes, kHugePageBytes))),
        left_bytes_(pass_bytes),
        page_(std::make_shared<HugePage>()) {}
  ReadWindow(const ReadWindow&) = delete;
  ReadWindow& operator=(const ReadWindow&) = delete;

  // The window of reads that this thread makes while a Use lives.
  class Use {
   public:
    // If `ahead` is false it holds what is asked for and no more.
    Use(ReadWindow* window, bool ahead);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    ReadWindow* const before_;
  };
  static ReadWindow* InUse();

  // Returns where `bytes` bytes at `offset` of the file lie in the window; null
  // when they are not all in it, or were lent and read before.
  const char* Find(const void* file, uint64_t offset, size_t bytes) const;

  // Moves to `offset`, with as many pieces of `bytes` as may be read ahead, at
  // least one. `read` reads so many bytes at an aligned offset, and returns how
  // many there were. Returns as Find; null for a window of 0 bytes, for more
  // than a huge page, and when there is no memory.
  using ReadAligned =
      std::function<size_t(uint64_t offset, size_t bytes, char* out)>;
  const char* Move(const void* file, uint64_t offset, size_t bytes,
                   size_t alignment, const ReadAligned& read);

  // The bytes that Find or Move gave have been handed on. When they were the
  // last ones, their memory goes back: many windows, as a merge of many runs
  // has, take little more than what is read at the time.
  void HandedOn(uint64_t offset, size_t bytes);

  // Returns where a block of so many bytes will be found if it is the next one,
  // as memory that stays until ReturnBlock; null when that is not in the
  // window, or is lent already.
  char* LendNext(size_t bytes);
  // The first byte of the last block that was lent, as it was then.
  char first_byte_lent() const { return first_byte_lent_; }
  // Returns whether the memory is part of the window's, lent or not.
  bool Has(const char* memory) const;
  // Starts anew with the next Move; what is lent stays.
  void Forget();

  // A window that does not read ahead is never moved.
  bool reads_ahead() const { return ahead_bytes_ > 0; }

 private:
  const char* memory() const;
  char* Memory(size_t bytes);

  const size_t ahead_bytes_;
  bool ahead_ = true;
  uint64_t left_bytes_;
  std::shared_ptr<HugePage> page_;  // never null; shared with what is lent
  // The memory of windows that are not worth a part of a huge page.
  AlignedMemory small_;
  size_t small_bytes_ = 0;
  const void* file_ = nullptr;
  uint64_t begin_ = 0;
  size_t bytes_ = 0;
  size_t piece_ = 0;
  uint64_t pieces_end_ = 0;
  const char* lent_ = nullptr;  // a block that is lent, and not yet read
  uint64_t lent_end_ = 0;       // of all that were lent
  char first_byte_lent_ = 0;
  uint64_t next_ = 0;  // where the piece after the last handed on begins
};

// Gives back what LendNext lent, and returns false for other memory. It may be
// called from any thread.
bool ReturnBlock(void* memory);

// A table file whose reads go through the window in use, if there is one.
// `direct` opens it for direct reads, and may be null; it is called once,
// before the first such read, and should bound how many files stay open so.
// What cannot be read directly is read from `buffered`, whose error is the one
// that counts.
using DirectOpener =
    std::function<std::unique_ptr<rocksdb::FSRandomAccessFile>()>;
std::unique_ptr<rocksdb::FSRandomAccessFile> NewWindowedFile(
    std::unique_ptr<rocksdb::FSRandomAccessFile> buffered, DirectOpener direct);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_READ_WINDOW_H_
