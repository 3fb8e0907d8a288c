// SPDX-License-Identifier: Apache-2.0
// A batch of changes that allocates memory before RocksDB adds to it; internal
// to db/.
//
//   ChangeBatch batch;
//   rocksdb::Status status = batch.Put(meta, RootKey(), root);
#ifndef CKPTDB_DB_ROCKS_CHANGE_BATCH_H_
#define CKPTDB_DB_ROCKS_CHANGE_BATCH_H_

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace ckptdb::internal {

// RocksDB ends the process with an assertion if a std::bad_alloc leaves a
// method that adds to a batch (line 39 of docs/rocksdb.md). This class throws
// it earlier, and leaves the batch unchanged.
class ChangeBatch {
 public:
  // `bytes` is an estimate of the total size of the keys and values.
  explicit ChangeBatch(size_t bytes = size_t{4} << 10)
      : room_(bytes), batch_(bytes) {}

  rocksdb::Status Put(rocksdb::ColumnFamilyHandle* family,
                      const rocksdb::Slice& key, const rocksdb::Slice& value) {
    MakeRoom(key.size() + value.size());
    return batch_.Put(family, key, value);
  }
  rocksdb::Status Delete(rocksdb::ColumnFamilyHandle* family,
                         const rocksdb::Slice& key) {
    MakeRoom(key.size());
    return batch_.Delete(family, key);
  }
  rocksdb::Status DeleteRange(rocksdb::ColumnFamilyHandle* family,
                              const rocksdb::Slice& begin,
                              const rocksdb::Slice& end) {
    MakeRoom(begin.size() + end.size());
    return batch_.DeleteRange(family, begin, end);
  }

  uint64_t bytes() const { return batch_.GetDataSize(); }
  uint32_t count() const { return batch_.Count(); }
  rocksdb::WriteBatch* rocks() { return &batch_; }

 private:
  // Each entry also has a tag, a family and two lengths.
  static constexpr size_t kEntryOverhead = 32;

  void MakeRoom(size_t bytes) {
    const size_t needed = batch_.GetDataSize() + bytes + kEntryOverhead;
    if (needed <= room_) return;
    const size_t room = std::max(needed, 2 * room_);
    std::string larger;
    larger.reserve(room);
    larger = batch_.Data();
    batch_ = rocksdb::WriteBatch(std::move(larger));
    room_ = room;
  }

  size_t room_;  // bytes that the batch has memory for
  rocksdb::WriteBatch batch_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_CHANGE_BATCH_H_
