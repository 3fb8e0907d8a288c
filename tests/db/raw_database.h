// SPDX-License-Identifier: Apache-2.0
// The database of a closed store, as RocksDB has it: for tests that change what
// the library would not.
#ifndef CKPTDB_TESTS_DB_RAW_DATABASE_H_
#define CKPTDB_TESTS_DB_RAW_DATABASE_H_

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <memory>
#include <string>
#include <vector>

#include "db/rocks/rocks_options.h"

namespace ckptdb::testing {

class RawDatabase {
 public:
  explicit RawDatabase(const std::string& store)
      : env_(rocksdb::NewCompositeEnv(rocksdb::FileSystem::Default())) {
    rocksdb::DB* rocks = nullptr;
    Check(rocksdb::DB::Open(internal::DatabaseOptions(env_.get()),
                            store + "/db", internal::FamilyDescriptors(),
                            &families_, &rocks));
    rocks_.reset(rocks);
  }
  ~RawDatabase() {
    for (auto* family : families_) rocks_->DestroyColumnFamilyHandle(family);
  }
  RawDatabase(const RawDatabase&) = delete;
  RawDatabase& operator=(const RawDatabase&) = delete;
  rocksdb::DB* rocks() { return rocks_.get(); }
  size_t families() const { return families_.size(); }
  rocksdb::ColumnFamilyHandle* family(size_t number) {
    return families_.at(number);
  }
  std::string Get(size_t family_number, const std::string& key) {
    std::string value;
    Check(rocks_->Get({}, family(family_number), key, &value));
    return value;
  }
  void Put(size_t family_number, const std::string& key,
           const std::string& value) {
    Check(rocks_->Put({}, family(family_number), key, value));
    Check(rocks_->Flush({}, family(family_number)));
  }
  void Delete(size_t family_number, const std::string& key) {
    Get(family_number, key);
    Check(rocks_->Delete({}, family(family_number), key));
    Check(rocks_->Flush({}, family(family_number)));
  }

 private:
  static void Check(const rocksdb::Status& status) {
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  const std::unique_ptr<rocksdb::Env> env_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  std::unique_ptr<rocksdb::DB> rocks_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_RAW_DATABASE_H_
