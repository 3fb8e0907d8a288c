// SPDX-License-Identifier: Apache-2.0
#include "db/quirks/file_bounds.h"

#include <string>

namespace ckptdb::internal {
namespace {

constexpr char kLeastKey[] = "ckptdb.least_key";
constexpr char kGreatestKey[] = "ckptdb.greatest_key";

// Collects the first and the last key of a file while it is written.
class BoundsCollector : public rocksdb::TablePropertiesCollector {
 public:
  rocksdb::Status AddUserKey(const rocksdb::Slice& key,
                             const rocksdb::Slice& value,
                             rocksdb::EntryType type,
                             rocksdb::SequenceNumber /*sequence*/,
                             uint64_t /*file_bytes*/) override {
    Include(key);
    // The value of a range deletion is its end.
    if (type == rocksdb::kEntryRangeDeletion) Include(value);
    return rocksdb::Status::OK();
  }

  rocksdb::Status Finish(rocksdb::UserCollectedProperties* found) override {
    if (!any_) return rocksdb::Status::OK();
    (*found)[kLeastKey] = least_;
    (*found)[kGreatestKey] = greatest_;
    return rocksdb::Status::OK();
  }

  rocksdb::UserCollectedProperties GetReadableProperties() const override {
    return {};
  }

  const char* Name() const override { return "ckptdb.Bounds"; }

 private:
  void Include(const rocksdb::Slice& key) {
    if (!any_ || key.compare(least_) < 0) least_ = key.ToString();
    if (!any_ || key.compare(greatest_) > 0) greatest_ = key.ToString();
    any_ = true;
  }

  bool any_ = false;
  std::string least_;
  std::string greatest_;
};

class BoundsCollectorFactory : public rocksdb::TablePropertiesCollectorFactory {
 public:
  rocksdb::TablePropertiesCollector* CreateTablePropertiesCollector(
      Context /*context*/) override {
    return std::make_unique<BoundsCollector>().release();
  }
  const char* Name() const override { return "ckptdb.Bounds"; }
};

}  // namespace

std::shared_ptr<rocksdb::TablePropertiesCollectorFactory>
NewBoundsCollectorFactory() {
  return std::make_shared<BoundsCollectorFactory>();
}

void SetPassBounds(const rocksdb::Slice* begin, const rocksdb::Slice* end,
                   rocksdb::ReadOptions* read) {
  read->iterate_lower_bound = begin;
  read->iterate_upper_bound = end;
  // An iterator searches every file of level 0 that does not end before the
  // sought key (line 24 of docs/rocksdb.md). The filter skips files without
  // keys in the scan's range, so that a corrupt file only affects scans that
  // need it.
  read->table_filter = [begin, end](const rocksdb::TableProperties& file) {
    const auto& notes = file.user_collected_properties;
    const auto least = notes.find(kLeastKey);
    const auto greatest = notes.find(kGreatestKey);
    // A file without bounds may contain any key, so it is not skipped.
    if (least == notes.end() || greatest == notes.end()) return true;
    return begin->compare(greatest->second) <= 0 &&
           (end == nullptr || end->compare(least->second) > 0);
  };
}

}  // namespace ckptdb::internal
