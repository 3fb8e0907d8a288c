// SPDX-License-Identifier: Apache-2.0
// Reads tables of bulk that lie outside of a database's folder; internal to
// db/.
#ifndef CKPTDB_DB_ROCKS_OUTSIDE_TABLES_H_
#define CKPTDB_DB_ROCKS_OUTSIDE_TABLES_H_

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/iterator.h>
#include <rocksdb/metadata.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "db/base/mutex.h"
#include "db/base/outside_files.h"

namespace ckptdb::internal {

// The tables in place of those that a MANIFEST names. Nothing is read before a
// scan reaches a table, so opening a database takes no time for any of them.
// Thread-safe.
class OutsideTables {
 public:
  // No table has data of two versions.
  OutsideTables(std::shared_ptr<OutsideFiles> files,
                std::vector<OutsideTable> tables);
  OutsideTables(const OutsideTables&) = delete;
  OutsideTables& operator=(const OutsideTables&) = delete;
  ~OutsideTables();

  // Returns an iterator that compares the checksums of all blocks, and cannot
  // move to an earlier entry other than by SeekForPrev. `options` has both
  // bounds, which are within one version and outlive the iterator, as must this
  // object.
  std::unique_ptr<rocksdb::Iterator> NewIterator(
      const rocksdb::ReadOptions& options) const;

  std::vector<rocksdb::LiveFileMetaData> Files() const;
  // Returns an upper bound.
  uint64_t ApproximateBytes(absl::string_view begin,
                            absl::string_view end) const;

  // Returns the tables with keys in [begin, end), which is within one version.
  std::vector<size_t> Overlapping(absl::string_view begin,
                                  absl::string_view end) const;
  const OutsideTable& table(size_t index) const { return tables_[index]; }
  // Sets `entries` to an iterator of one table, which is opened once.
  rocksdb::Status OpenTable(size_t index, const rocksdb::ReadOptions& options,
                            std::unique_ptr<rocksdb::Iterator>* entries) const;

 private:
  struct Opened {
    Mutex mutex;
    std::unique_ptr<rocksdb::SstFileReader> reader ABSL_GUARDED_BY(mutex);
  };

  const std::vector<OutsideTable> tables_;  // by first key
  const std::unique_ptr<rocksdb::Env> env_;
  rocksdb::Options options_;
  const std::unique_ptr<Opened[]> opened_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_OUTSIDE_TABLES_H_
