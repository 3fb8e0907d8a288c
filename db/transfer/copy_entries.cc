// SPDX-License-Identifier: Apache-2.0
#include "db/transfer/copy_entries.h"

#include <rocksdb/env.h>
#include <rocksdb/sst_file_writer.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "db/base/cancelled.h"
#include "db/disk/environment.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/rocks/guarded_file_system.h"
#include "db/rocks/outside_tables.h"
#include "db/rocks/rocks_options.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

class EntryCopier {
 public:
  EntryCopier(const OutsideTables& table, std::string path,
              const std::function<bool()>& cancelled)
      : table_(table),
        path_(std::move(path)),
        cancelled_(cancelled),
        files_(std::make_shared<GuardedFileSystem>(
            Environment::Default()->file_system(), FileModes())),
        env_(rocksdb::NewCompositeEnv(files_)),
        options_(FileWriterOptions(env_.get(), /*small_entries=*/false)),
        writer_(rocksdb::EnvOptions(), options_) {}

  absl::Status Copy(const KeyRange& range);
  absl::StatusOr<CopiedEntries> Finish();

 private:
  absl::Status Add(const rocksdb::Slice& key, const rocksdb::Slice& value);

  const OutsideTables& table_;
  const std::string path_;
  const std::function<bool()>& cancelled_;
  const std::shared_ptr<GuardedFileSystem> files_;
  const std::unique_ptr<rocksdb::Env> env_;
  const rocksdb::Options options_;
  rocksdb::SstFileWriter writer_;
  CopiedEntries copied_;
};

absl::Status EntryCopier::Add(const rocksdb::Slice& key,
                              const rocksdb::Slice& value) {
  CKPTDB_RETURN_IF_ERROR(CheckCancelled(cancelled_));
  const std::string writing = absl::StrCat("writing \"", path_, "\"");
  if (copied_.entries == 0) {
    CKPTDB_RETURN_IF_ERROR(FromRocks(writer_.Open(path_), writing));
  }
  ++copied_.entries;
  copied_.bytes += key.size() + value.size();
  return FromRocks(writer_.Put(key, value), writing);
}

absl::Status EntryCopier::Copy(const KeyRange& range) {
  const rocksdb::Slice lower = ToSlice(range.begin);
  const rocksdb::Slice upper = ToSlice(range.end);
  const std::unique_ptr<rocksdb::Iterator> entries =
      table_.NewIterator(PassOptions(&lower, &upper));
  entries->SeekForPrev(ToSlice(range.from));
  if (!entries->Valid() && entries->status().ok()) entries->SeekToFirst();
  for (; entries->Valid(); entries->Next()) {
    CKPTDB_RETURN_IF_ERROR(Add(entries->key(), entries->value()));
  }
  return FromRocks(entries->status(), "copying entries");
}

absl::StatusOr<CopiedEntries> EntryCopier::Finish() {
  if (copied_.entries == 0) return copied_;
  CKPTDB_RETURN_IF_ERROR(
      FromRocks(writer_.Finish(), absl::StrCat("writing \"", path_, "\"")));
  return copied_;
}

}  // namespace

absl::StatusOr<CopiedEntries> CopyEntries(
    const std::shared_ptr<OutsideFiles>& files, const OutsideTable& table,
    const std::vector<KeyRange>& ranges, const std::string& path,
    const std::function<bool()>& cancelled) {
  CKPTDB_RETURN_IF_ERROR(
      RemoveFile(Environment::Default()->file_system().get(), path));
  const OutsideTables tables(files, {table});
  EntryCopier copier(tables, path, cancelled);
  for (const KeyRange& range : ranges) {
    CKPTDB_RETURN_IF_ERROR(copier.Copy(range));
  }
  return copier.Finish();
}

}  // namespace ckptdb::internal
