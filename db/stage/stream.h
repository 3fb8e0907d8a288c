// The entries that an item comes to, in key order; internal to db/.
//
// An item is one or more streams: the chunks of a tensor or blob, or the pages
// of a table's ids and of each slot. Entries of a stream are made in any
// order, by any thread.
#ifndef CKPTDB_DB_STAGE_STREAM_H_
#define CKPTDB_DB_STAGE_STREAM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/stage/row_order.h"
#include "ckptdb/schema/codec.h"
#include "ckptdb/schema/page.h"

namespace ckptdb::internal {

class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  uint64_t entries() const { return hashes_.size(); }
  uint64_t raw_bytes() const { return raw_bytes_; }
  // At most, of all entries with their headers and keys.
  uint64_t batch_bytes() const {
    return raw_bytes_ + entries() * (key_bytes() + kPageHeaderBytes);
  }
  // Raw bytes of the entries from `begin` up to `end`.
  uint64_t BytesOf(uint64_t begin, uint64_t end) const {
    return (end == entries() ? raw_bytes_ : end * entry_bytes_) -
           begin * entry_bytes_;
  }
  // Raw bytes of each entry but the last.
  uint64_t entry_bytes() const { return entry_bytes_; }
  Codec codec() const { return codec_; }
  // Of all entries made so far, with their headers.
  uint64_t stored_bytes() const { return stored_bytes_; }
  // Of the entries' raw bytes, when all are made.
  const std::vector<uint64_t>& hashes() const { return hashes_; }

  // Settles kAuto by a look at the first entry.
  absl::Status ChooseCodec();

  // Whether entries are made of memory of the caller's.
  virtual bool reads_caller() const { return true; }
  // Raw bytes of the entries from `first` on.
  uint64_t BytesFrom(uint64_t first) const {
    return raw_bytes_ - first * entry_bytes_;
  }
  // The entries from `first` on are copied to `memory`, where there is room for
  // BytesFrom(first), by a CopyHeld for each; Make then takes them from there.
  void HoldFrom(uint64_t first, char* memory);
  bool IsHeld(uint64_t entry) const { return entry >= first_held_; }
  // On any thread, before Make of that entry.
  absl::Status CopyHeld(uint64_t entry);

  // Sets *key, and leaves header and bytes of the entry in *page.
  absl::Status Make(uint64_t entry, std::string* key, PageBuilder* page);

 protected:
  // Of each entry.
  virtual uint64_t key_bytes() const = 0;
  Stream(uint64_t raw_bytes, uint64_t entry_bytes, uint32_t element_bytes,
         uint32_t count_bytes, Codec codec);

  uint64_t BytesOf(uint64_t entry) const;

  // Appends the key of an entry after clearing *key, and fills `raw`.
  virtual absl::Status Fill(uint64_t entry, std::string* key, char* raw) = 0;

 private:
  const uint64_t raw_bytes_;
  const uint64_t entry_bytes_;
  const uint32_t element_bytes_;
  const uint32_t count_bytes_;  // raw bytes of what a header counts
  Codec codec_;
  std::vector<uint64_t> hashes_;
  uint64_t first_held_ = UINT64_MAX;
  char* held_ = nullptr;
  std::vector<std::string> held_keys_;
  std::atomic<uint64_t> stored_bytes_ = 0;
};

// The chunks of a tensor or a blob. `prefix` is its ItemPrefix.
std::unique_ptr<Stream> MakeChunkStream(std::string prefix,
                                        absl::string_view bytes,
                                        uint32_t element_bytes, Codec codec);

// The pages of a table's ids and of one slot. `order` outlives them.
// `prefix` is that of the stream.
std::unique_ptr<Stream> MakeIdStream(std::string prefix, RowOrder* order,
                                     uint32_t rows_per_page);
std::unique_ptr<Stream> MakeSlotStream(std::string prefix, RowOrder* order,
                                       uint32_t rows_per_page, size_t slot,
                                       const Slot& spec);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STAGE_STREAM_H_
