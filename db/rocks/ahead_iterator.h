// SPDX-License-Identifier: Apache-2.0
// An iterator with a readahead window; internal to db/.
//
//   AheadIterator entries(std::move(rocksdb_iterator), kAhead, pass_bytes);
//   for (entries.Seek(first); entries.Valid(); entries.Next()) Take(entries);
#ifndef CKPTDB_DB_ROCKS_AHEAD_ITERATOR_H_
#define CKPTDB_DB_ROCKS_AHEAD_ITERATOR_H_

#include <rocksdb/iterator.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "db/quirks/read_window.h"

namespace ckptdb::internal {

// An entry is valid until the iterator moves.
class AheadIterator {
 public:
  // Reads at most `ahead_bytes` at a time, and no further than a scan of about
  // `pass_bytes`.
  AheadIterator(std::unique_ptr<rocksdb::Iterator> entries,
                uint64_t ahead_bytes, uint64_t pass_bytes)
      : window_(ahead_bytes, pass_bytes), entries_(std::move(entries)) {}

  void Seek(const rocksdb::Slice& key) {
    const ReadWindow::Use use(&window_, /*ahead=*/true);
    entries_->Seek(key);
  }
  // Visits blocks backwards, and so does not read ahead.
  void SeekForPrev(const rocksdb::Slice& key) {
    const ReadWindow::Use use(&window_, /*ahead=*/false);
    entries_->SeekForPrev(key);
  }
  void Next() {
    const ReadWindow::Use use(&window_, /*ahead=*/true);
    entries_->Next();
  }
  bool Valid() const { return entries_->Valid(); }
  rocksdb::Slice key() const { return entries_->key(); }
  rocksdb::Slice value() const { return entries_->value(); }
  rocksdb::Status status() const { return entries_->status(); }

 private:
  ReadWindow window_;
  const std::unique_ptr<rocksdb::Iterator> entries_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_AHEAD_ITERATOR_H_
