// SPDX-License-Identifier: Apache-2.0
#include "db/rocks/version_blocks.h"

#include <rocksdb/flush_block_policy.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "schema/bytes/keys.h"

namespace ckptdb::internal {
namespace {

class VersionBlockPolicy : public rocksdb::FlushBlockPolicy {
 public:
  explicit VersionBlockPolicy(std::unique_ptr<rocksdb::FlushBlockPolicy> size)
      : size_(std::move(size)) {}

  // Returns whether a new block begins before `key`. Called for each key.
  bool Update(const rocksdb::Slice& key, const rocksdb::Slice& value) override {
    const bool is_full = size_->Update(key, value);
    const rocksdb::Slice version(key.data(),
                                 std::min(key.size(), kVersionPrefixBytes));
    if (version == rocksdb::Slice(version_)) return is_full;
    const bool is_first = version_.empty();
    version_ = version.ToString();
    return !is_first;
  }

 private:
  std::unique_ptr<rocksdb::FlushBlockPolicy> size_;
  std::string version_;  // the encoded version of the last key
};

class VersionBlockPolicyFactory : public rocksdb::FlushBlockPolicyFactory {
 public:
  const char* Name() const override { return "ckptdb.VersionBlocks"; }

  rocksdb::FlushBlockPolicy* NewFlushBlockPolicy(
      const rocksdb::BlockBasedTableOptions& options,
      const rocksdb::BlockBuilder& builder) const override {
    std::unique_ptr<rocksdb::FlushBlockPolicy> size(
        rocksdb::FlushBlockBySizePolicyFactory::NewFlushBlockPolicy(
            options.block_size, options.block_size_deviation, builder));
    return std::make_unique<VersionBlockPolicy>(std::move(size)).release();
  }
};

}  // namespace

void SeparateVersions(rocksdb::BlockBasedTableOptions* table) {
  table->flush_block_policy_factory =
      std::make_shared<VersionBlockPolicyFactory>();
  table->index_type =
      rocksdb::BlockBasedTableOptions::kBinarySearchWithFirstKey;
  table->index_shortening =
      rocksdb::BlockBasedTableOptions::IndexShorteningMode::kNoShortening;
}

}  // namespace ckptdb::internal
