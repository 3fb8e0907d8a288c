// SPDX-License-Identifier: Apache-2.0
#include "db/rocks/rocks_options.h"

#include <rocksdb/table.h>

#include "db/quirks/block_pool.h"
#include "db/quirks/file_bounds.h"
#include "db/quirks/table_tail.h"
#include "db/rocks/info_log.h"
#include "db/rocks/version_blocks.h"
#include "schema/bytes/limits.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

constexpr char kInlineName[] = "inline";
constexpr char kBulkName[] = "bulk";
constexpr uint64_t kWriteBufferBytes = uint64_t{4} << 20;
// A scan holds one block of each stream.
constexpr size_t kBlockBytes = size_t{64} << 10;
// The block size of files with small entries: reading an entry reads and checks
// its whole block.
constexpr size_t kSmallBlockBytes = size_t{16} << 10;
// Bulk blocks have room for the largest entry with its header and key: a block
// that grows is allocated twice more, larger each time.
constexpr size_t kBulkBlockBytes = kPageBytes + (size_t{4} << 10);
// Each small save has a log and memtables, which take 1 MiB each by default
// regardless of their content. Larger entries bypass these buffers.
constexpr size_t kSmallBufferBytes = size_t{64} << 10;

rocksdb::BlockBasedTableOptions TableOptions(size_t block_bytes) {
  rocksdb::BlockBasedTableOptions table;
  table.block_size = block_bytes;
  table.format_version = kTableFormatVersion;
  // The XXH3 of Debian's RocksDB keeps its sums in memory, and so is half as
  // fast as its XXH64.
  table.checksum = kTableChecksum;
  // Reads seek existing keys, or scan everything, so a filter would save no
  // read.
  table.filter_policy = nullptr;
  table.block_cache = PooledBlocks();
  // AheadIterator reads ahead.
  table.max_auto_readahead_size = 0;
  table.index_type = rocksdb::BlockBasedTableOptions::kBinarySearch;
  return table;
}

rocksdb::ColumnFamilyOptions FamilyOptions(size_t block_bytes) {
  rocksdb::ColumnFamilyOptions options;
  // Entries are already encoded with the store's codecs.
  options.compression = rocksdb::kNoCompression;
  options.arena_block_size = kSmallBufferBytes;
  options.table_factory.reset(
      rocksdb::NewBlockBasedTableFactory(TableOptions(block_bytes)));
  options.ttl = 0;
  options.periodic_compaction_seconds = 0;
  // A save never waits for a compaction, because one that finds damage never
  // finishes.
  constexpr int kNever = 1 << 30;
  options.level0_slowdown_writes_trigger = kNever;
  options.level0_stop_writes_trigger = kNever;
  options.soft_pending_compaction_bytes_limit = 0;
  options.hard_pending_compaction_bytes_limit = 0;
  return options;
}

// Small saves have adjacent keys. Leveled compaction would only move their
// files, and keep one per save forever.
rocksdb::ColumnFamilyOptions InlineOptions() {
  rocksdb::ColumnFamilyOptions options = FamilyOptions(kBlockBytes);
  rocksdb::BlockBasedTableOptions table = TableOptions(kBlockBytes);
  SeparateVersions(&table);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compaction_style = rocksdb::kCompactionStyleUniversal;
  options.table_properties_collector_factories.push_back(
      NewBoundsCollectorFactory());
  return options;
}

// Files arrive by ingestion and are deleted whole; a compaction would only
// rewrite them.
rocksdb::ColumnFamilyOptions BulkOptions() {
  rocksdb::ColumnFamilyOptions options = FamilyOptions(kBulkBlockBytes);
  options.disable_auto_compactions = true;
  return options;
}

}  // namespace

rocksdb::DBOptions DatabaseOptions(rocksdb::Env* env) {
  rocksdb::DBOptions options;
  options.env = env;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.paranoid_checks = true;
  options.advise_random_on_open = false;
  options.skip_stats_update_on_db_open = true;
  // Otherwise a log preallocates more than 70 MB.
  options.allow_fallocate = false;
  options.writable_file_max_buffer_size = kSmallBufferBytes;
  options.bytes_per_sync = kWriteBufferBytes;
  // A commit flushes two families at once, with one sync of the MANIFEST.
  options.atomic_flush = true;
  // There is little background work: a commit flushes two families, and only
  // records and small saves are compacted.
  options.max_background_flushes = 2;
  options.max_background_compactions = 1;
  options.max_file_opening_threads = 4;
  options.track_and_verify_wals_in_manifest = false;
  // Everything acknowledged is flushed or in a synced log, so closing writes
  // nothing and cannot fail.
  options.avoid_flush_during_shutdown = true;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  // RocksDB's own info log aborts the process when the disk is full.
  options.info_log = NoInfoLog();
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> FamilyDescriptors() {
  return {{rocksdb::kDefaultColumnFamilyName, FamilyOptions(kBlockBytes)},
          {"meta", FamilyOptions(kBlockBytes)},
          {kInlineName, InlineOptions()},
          {kBulkName, BulkOptions()}};
}

bool HoldsData(const std::string& family) {
  return family == kInlineName || family == kBulkName;
}

rocksdb::Options FileWriterOptions(rocksdb::Env* env, bool small_entries) {
  rocksdb::Options options(DatabaseOptions(env), BulkOptions());
  if (small_entries) {
    options.table_factory.reset(
        rocksdb::NewBlockBasedTableFactory(TableOptions(kSmallBlockBytes)));
  }
  options.writable_file_max_buffer_size = kWriteBufferBytes;
  return options;
}

rocksdb::ReadOptions PassOptions(const rocksdb::Slice* begin,
                                 const rocksdb::Slice* end) {
  rocksdb::ReadOptions read;
  read.verify_checksums = true;
  read.fill_cache = false;
  read.total_order_seek = true;
  SetPassBounds(begin, end, &read);
  return read;
}

}  // namespace ckptdb::internal
