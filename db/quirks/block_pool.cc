// SPDX-License-Identifier: Apache-2.0
#include "db/quirks/block_pool.h"

#include <rocksdb/cache.h>
#include <rocksdb/memory_allocator.h>

#include <array>
#include <bit>
#include <cstddef>
#include <new>
#include <vector>

#include "db/base/mutex.h"
#include "db/quirks/read_window.h"

namespace ckptdb::internal {
namespace {

// Precedes each allocated block, and keeps blocks aligned.
struct alignas(std::max_align_t) Header {
  size_t bucket;  // the block's size class
};

// Keeps blocks by size class; there are four per power of two.
class BlockPool : public rocksdb::MemoryAllocator {
 public:
  ~BlockPool() override {
    for (const std::vector<void*>& bucket : free_) {
      for (void* block : bucket) ::operator delete(block);
    }
  }

  const char* Name() const override { return "ckptdb.BlockPool"; }

  void* Allocate(size_t size) override {
    // RocksDB requests the memory of a block just before it reads the block, on
    // the same thread (line 28 of docs/rocksdb.md), so the window can lend the
    // bytes that hold the block.
    ReadWindow* const window = ReadWindow::InUse();
    void* const lent = window == nullptr ? nullptr : window->LendNext(size);
    if (lent != nullptr) return lent;
    const size_t bucket = BucketOf(size);
    void* block = bucket < kBuckets ? Take(bucket) : nullptr;
    if (block == nullptr) {
      block = ::operator new(sizeof(Header) +
                             (bucket < kBuckets ? SizeOf(bucket) : size));
    }
    static_cast<Header*>(block)->bucket = bucket;
    return static_cast<Header*>(block) + 1;
  }

  void Deallocate(void* memory) override {
    // A window's memory has no header. Only its address distinguishes it from
    // the pool's memory.
    if (ReturnBlock(memory)) return;
    Header* const block = static_cast<Header*>(memory) - 1;
    if (block->bucket >= kBuckets || !Keep(block->bucket, block)) {
      ::operator delete(block);
    }
  }

 private:
  static constexpr size_t kSmallest = size_t{64} << 10;
  static constexpr size_t kSteps = 4;
  static constexpr size_t kBuckets = 28;  // to 8 MiB
  static constexpr size_t kKeptBytes = size_t{32} << 20;

  static size_t SizeOf(size_t bucket) {
    const size_t base = kSmallest << (bucket / kSteps);
    return base + base / kSteps * (bucket % kSteps + 1);
  }

  // Returns the smallest class that fits; kBuckets if none does, or if the
  // block is so small that the C library caches it.
  static size_t BucketOf(size_t size) {
    if (size <= kSmallest) return kBuckets;
    for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
      if (size <= SizeOf(bucket)) return bucket;
    }
    return kBuckets;
  }

  void* Take(size_t bucket) {
    const MutexLock lock(&mutex_);
    if (free_[bucket].empty()) return nullptr;
    void* const block = free_[bucket].back();
    free_[bucket].pop_back();
    kept_bytes_ -= SizeOf(bucket);
    return block;
  }

  bool Keep(size_t bucket, void* block) {
    const MutexLock lock(&mutex_);
    if (kept_bytes_ + SizeOf(bucket) > kKeptBytes) return false;
    free_[bucket].push_back(block);
    kept_bytes_ += SizeOf(bucket);
    return true;
  }

  Mutex mutex_;
  std::array<std::vector<void*>, kBuckets> free_ ABSL_GUARDED_BY(mutex_);
  size_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::shared_ptr<rocksdb::Cache> PooledBlocks() {
  static const auto* const kShared =
      new std::shared_ptr<rocksdb::MemoryAllocator>(
          std::make_shared<BlockPool>());
  rocksdb::LRUCacheOptions options;
  // A cache without capacity keeps no block, and a separate cache for each
  // family of each database separates a database from its copy (line 29 of
  // docs/rocksdb.md). All of them share the memory.
  options.capacity = 0;
  options.num_shard_bits = 0;
  options.memory_allocator = *kShared;
  return rocksdb::NewLRUCache(options);
}

}  // namespace ckptdb::internal
