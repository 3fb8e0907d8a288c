// SPDX-License-Identifier: Apache-2.0
// Makes the entries of an item; internal to db/.
//
// An item has one or more streams: the chunks of a tensor or blob, or the pages
// of a table's ids and of each slot. A stream's entries are numbered in key
// order, and any thread may make them in any order.
#ifndef CKPTDB_DB_STAGE_STREAM_H_
#define CKPTDB_DB_STAGE_STREAM_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "db/base/mutex.h"
#include "db/stage/row_order.h"
#include "schema/bytes/codec.h"
#include "schema/bytes/page.h"
#include "schema/types.h"

namespace ckptdb::internal {

class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  uint64_t entries() const { return hashes_.size(); }
  uint64_t raw_bytes() const { return raw_bytes_; }
  // Returns an upper bound of the bytes of all entries with headers and keys.
  uint64_t batch_bytes() const {
    return raw_bytes_ + entries() * (key_bytes() + kPageHeaderBytes);
  }
  // Returns the raw bytes of the entries [begin, end).
  uint64_t BytesOf(uint64_t begin, uint64_t end) const {
    return (end == entries() ? raw_bytes_ : end * entry_bytes_) -
           begin * entry_bytes_;
  }
  // Returns the raw bytes of each entry but the last.
  uint64_t entry_bytes() const { return entry_bytes_; }
  Codec codec() const { return codec_; }
  // Returns the bytes of all entries made so far, with their headers.
  uint64_t stored_bytes() const { return stored_bytes_; }
  // Returns the hashes of the raw bytes of all entries, once they are made.
  const std::vector<uint64_t>& hashes() const { return hashes_; }
  // Returns the errors of a lossy codec, once all entries are made.
  Item::Error error() const;

  // Replaces kAuto by the codec that suits the first entry.
  absl::Status ChooseCodec();

  // Returns whether making entries reads the caller's memory.
  virtual bool reads_caller() const { return true; }
  // Returns the raw bytes of the entries from `first` on.
  uint64_t BytesFrom(uint64_t first) const {
    return raw_bytes_ - first * entry_bytes_;
  }
  // Sources the entries from `first` on from `memory`, which has room for
  // BytesFrom(first). CopyHeld copies each entry there, and Make reads it from
  // there.
  void HoldFrom(uint64_t first, char* memory);
  bool IsHeld(uint64_t entry) const { return entry >= first_held_; }
  // Returns entries() if none is held.
  uint64_t first_held() const { return std::min(first_held_, entries()); }
  // Called on any thread, before Make of that entry.
  absl::Status CopyHeld(uint64_t entry);

  // Sets *key, and writes the header and bytes of the entry to *page.
  absl::Status Make(uint64_t entry, std::string* key, PageBuilder* page);

 protected:
  // Returns the bytes of the key of each entry.
  virtual uint64_t key_bytes() const = 0;
  Stream(uint64_t raw_bytes, uint64_t entry_bytes, uint32_t element_bytes,
         uint32_t count_bytes, Codec codec);

  uint64_t BytesOf(uint64_t entry) const;

  // Sets *key to the key of an entry, and writes its raw bytes to `raw`; for an
  // encoded stream, its stored bytes, which are fewer.
  virtual absl::Status Fill(uint64_t entry, std::string* key, char* raw) = 0;
  // Returns whether the source is already encoded.
  virtual bool encoded() const { return false; }
  // Writes the header of an encoded entry, whose stored bytes are in `page` at
  // `stored`.
  virtual void FinishEncoded(uint32_t count, const char* stored,
                             PageBuilder* page) const;

 private:
  const uint64_t raw_bytes_;
  const uint64_t entry_bytes_;
  const uint32_t element_bytes_;
  // Raw bytes of a row or an element, the unit of a page header's count.
  const uint32_t count_bytes_;
  Codec codec_;
  std::vector<uint64_t> hashes_;
  uint64_t first_held_ = UINT64_MAX;
  char* held_ = nullptr;
  std::vector<std::string> held_keys_;
  std::atomic<uint64_t> stored_bytes_ = 0;
  mutable Mutex mutex_;
  Item::Error error_ ABSL_GUARDED_BY(mutex_);
};

// Returns the chunks of a tensor or a blob. `prefix` is its ItemPrefix.
std::unique_ptr<Stream> MakeChunkStream(std::string prefix,
                                        uint32_t first_chunk,
                                        absl::string_view bytes,
                                        uint32_t element_bytes, Codec codec);

// Return the pages of a table's ids, and of one slot. `order` must outlive
// them. `prefix` is the stream's.
std::unique_ptr<Stream> MakeIdStream(std::string prefix, RowOrder* order,
                                     uint32_t rows_per_page);
std::unique_ptr<Stream> MakeSlotStream(std::string prefix, RowOrder* order,
                                       uint32_t rows_per_page, size_t slot,
                                       const Slot& spec);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STAGE_STREAM_H_
