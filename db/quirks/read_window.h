// SPDX-License-Identifier: Apache-2.0
// Reads ahead for one scan of a table at a time; internal to db/.
//
// RocksDB's readahead copies each block once more, and reads into memory that
// is unfit for direct I/O: see db/base/huge_page.h. A window replaces it. It
// holds a part of a file. RocksDB requests the memory of a block just before it
// reads the block, so the window lends it the very bytes that hold the block,
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

#include "db/base/huge_page.h"

namespace ckptdb::internal {

// Consecutive bytes of one file. Not thread-safe.
class ReadWindow {
 public:
  // Reads at most `ahead_bytes` at a time, and at most kHugePageBytes. In a
  // scan of about `pass_bytes`, reads no more than that ahead in total.
  ReadWindow(uint64_t ahead_bytes, uint64_t pass_bytes)
      : ahead_bytes_(static_cast<size_t>(
            std::min<uint64_t>(ahead_bytes, kHugePageBytes))),
        left_bytes_(pass_bytes),
        page_(std::make_shared<HugePage>()) {}
  ReadWindow(const ReadWindow&) = delete;
  ReadWindow& operator=(const ReadWindow&) = delete;

  // Sets the window for this thread's reads while the Use exists.
  class Use {
   public:
    // If `ahead` is false, the window reads only the requested bytes.
    Use(ReadWindow* window, bool ahead);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    ReadWindow* const before_;
  };
  static ReadWindow* InUse();

  // Returns the address of `bytes` bytes at `offset` of the file; null if they
  // are not all in the window, or were already lent and read.
  const char* Find(const void* file, uint64_t offset, size_t bytes) const;

  // Moves to `offset`, and reads at least one piece of `bytes`, and as many as
  // may be read ahead. `read` reads this many bytes at an aligned offset, and
  // returns the number read. Returns like Find; null for a window of 0 bytes,
  // for more than a huge page, and if there is no memory.
  using ReadAligned =
      std::function<size_t(uint64_t offset, size_t bytes, char* out)>;
  const char* Move(const void* file, uint64_t offset, size_t bytes,
                   size_t alignment, const ReadAligned& read);

  // Releases bytes from Find or Move that were passed on. If they were the
  // last ones, frees their memory: many windows, as in a merge of many runs,
  // then take little more than the data being read.
  void Release(uint64_t offset, size_t bytes);

  // Returns the address at which a block of this size will be found if it is
  // the next one, as memory that stays until ReturnBlock; null if that is not
  // in the window, or already lent.
  char* LendNext(size_t bytes);
  // The first byte of the last lent block, as of that time.
  char first_byte_lent() const { return first_byte_lent_; }
  // Returns whether the memory belongs to the window, lent or not.
  bool Has(const char* memory) const;
  // Empties the window until the next Move; lent blocks stay.
  void Forget();

  // A window that does not read ahead never moves.
  bool reads_ahead() const { return ahead_bytes_ > 0; }

 private:
  const char* memory() const;
  char* Memory(size_t bytes);

  const size_t ahead_bytes_;
  bool ahead_ = true;
  uint64_t left_bytes_;
  std::shared_ptr<HugePage> page_;  // never null; shared with what is lent
  // The memory of windows too small for a part of a huge page.
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
  uint64_t next_ = 0;  // where the piece after the last released one begins
};

// Returns what LendNext lent, or returns false for other memory. May be called
// from any thread.
bool ReturnBlock(void* memory);

// Wraps a table file, whose reads go through the window in use, if any.
// `direct` opens it for direct reads, and may be null; it is called once,
// before the first such read, and should limit how many files stay open for
// them. Data that cannot be read directly is read from `buffered`, whose error
// is returned.
using DirectOpener =
    std::function<std::unique_ptr<rocksdb::FSRandomAccessFile>()>;
std::unique_ptr<rocksdb::FSRandomAccessFile> NewWindowedFile(
    std::unique_ptr<rocksdb::FSRandomAccessFile> buffered, DirectOpener direct);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_READ_WINDOW_H_
