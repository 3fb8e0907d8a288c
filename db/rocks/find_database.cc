// SPDX-License-Identifier: Apache-2.0
#include "db/rocks/find_database.h"

#include <rocksdb/db.h>

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/base/paths.h"
#include "db/disk/files.h"
#include "db/quirks/file_names.h"
#include "db/quirks/start_threads.h"
#include "db/rocks/rocks_options.h"
#include "schema/bytes/limits.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr absl::string_view kStampBegin = "ckptdb ";

// Returns the error of a database that no store has created. Opening it for
// writing would add families to it, so that its own program could no longer
// open it.
absl::Status ForeignError(const std::string& path, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("\"", path, "\" is the database of another program: ", why,
                   "; pass the path of a store"));
}

// Returns whether the default family has entries that no store creates. A store
// has its stamp there, and nothing during its creation.
absl::StatusOr<bool> HasForeignEntry(const rocksdb::DBOptions& options,
                                     const std::string& path) {
  CKPTDB_RETURN_IF_ERROR(StartRocksDbThreads(options));
  rocksdb::DB* opened = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(
      options, path, {FamilyDescriptors()[0]}, &handles, &opened);
  // The subsequent open reports the error.
  if (!status.ok()) return false;
  const std::unique_ptr<rocksdb::DB> database(opened);
  bool foreign = false;
  {
    const std::unique_ptr<rocksdb::Iterator> first(
        database->NewIterator(rocksdb::ReadOptions(), handles[0]));
    first->SeekToFirst();
    foreign = first->Valid() &&
              !absl::StartsWith({first->value().data(), first->value().size()},
                                kStampBegin);
  }
  database->DestroyColumnFamilyHandle(handles[0]);
  return foreign;
}

// Checks a database without a WATERMARK: it may be a new store, or another
// program's database. Checks its families, then its tables, then its first
// entry.
absl::Status CheckFamilies(const std::shared_ptr<rocksdb::FileSystem>& files,
                           const std::string& path) {
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(files);
  rocksdb::DBOptions options = DatabaseOptions(env.get());
  options.create_if_missing = false;
  options.create_missing_column_families = false;
  // The tables are listed before the families: a store has all families before
  // its first table, even while another process is creating it.
  CKPTDB_ASSIGN_OR_RETURN(const auto children, ListFolder(files.get(), path));
  std::vector<std::string> names;
  if (!rocksdb::DB::ListColumnFamilies(options, path, &names).ok()) {
    return absl::OkStatus();  // as above
  }
  const std::vector<rocksdb::ColumnFamilyDescriptor> own = FamilyDescriptors();
  for (const std::string& name : names) {
    if (std::none_of(own.begin(), own.end(),
                     [&](const auto& one) { return one.name == name; })) {
      return ForeignError(path, absl::StrCat("it has a family \"", name, "\""));
    }
  }
  // RocksDB creates the families of a store one after the other, so some may be
  // missing if its creator died.
  if (names.size() == own.size()) return absl::OkStatus();
  if (std::any_of(children.begin(), children.end(), IsTable)) {
    return ForeignError(path, "it has tables, but lacks families of a store");
  }
  CKPTDB_ASSIGN_OR_RETURN(const bool foreign, HasForeignEntry(options, path));
  if (!foreign) return absl::OkStatus();
  return ForeignError(path, "it has entries, but lacks families of a store");
}

}  // namespace

std::string WatermarkPath(absl::string_view store) {
  return absl::StrCat(store, "/WATERMARK");
}

std::string StampValue() { return absl::StrCat(kStampBegin, kFormatVersion); }

namespace {

// Returns whether files exist that only a fully created store has.
absl::StatusOr<bool> HasBeenStore(rocksdb::FileSystem* files,
                                  absl::string_view store) {
  // Each owner writes a WATERMARK after opening, so a folder with one has held
  // a store.
  CKPTDB_ASSIGN_OR_RETURN(const bool watermark,
                          Exists(files, WatermarkPath(store)));
  if (watermark) return true;
  CKPTDB_ASSIGN_OR_RETURN(const auto names,
                          ListFolder(files, DatabasePath(store)));
  return std::any_of(names.begin(), names.end(), IsTable);
}

}  // namespace

// A folder that held a database must not be taken for a new one because its
// CURRENT is missing.
absl::StatusOr<bool> FindDatabase(
    const std::shared_ptr<rocksdb::FileSystem>& files,
    absl::string_view store) {
  const std::string path = DatabasePath(store);
  const std::string current_path = path + "/CURRENT";
  CKPTDB_ASSIGN_OR_RETURN(bool current, Exists(files.get(), current_path));
  if (!current) {
    CKPTDB_ASSIGN_OR_RETURN(const bool used, HasBeenStore(files.get(), store));
    if (!used) return false;
    // Another process may have created the store between the two checks. From
    // then on CURRENT always exists.
    CKPTDB_ASSIGN_OR_RETURN(current, Exists(files.get(), current_path));
  }
  if (!current) {
    return absl::DataLossError(
        absl::StrCat("\"", current_path, "\" is missing"));
  }
  CKPTDB_ASSIGN_OR_RETURN(const bool watermark,
                          Exists(files.get(), WatermarkPath(store)));
  if (!watermark) CKPTDB_RETURN_IF_ERROR(CheckFamilies(files, path));
  return true;
}

}  // namespace ckptdb::internal
