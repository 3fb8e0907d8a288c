// SPDX-License-Identifier: Apache-2.0
#include "db/rocks/outside_tables.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "db/disk/rocks_status.h"
#include "db/rocks/rocks_options.h"
#include "schema/bytes/keys.h"

namespace ckptdb::internal {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// FromRocks returns the same code for it.
IOStatus IoStatusOf(const absl::Status& status) {
  const std::string text(status.message());
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return IOStatus::OK();
    case absl::StatusCode::kNotFound:
      return IOStatus::PathNotFound(text);
    case absl::StatusCode::kDataLoss:
      return IOStatus::Corruption(text);
    case absl::StatusCode::kPermissionDenied:
      return IOStatus::IOError(text, std::strerror(EACCES));
    default:
      return IOStatus::IOError(text);
  }
}

class OutsideFile : public rocksdb::FSRandomAccessFile {
 public:
  OutsideFile(std::shared_ptr<OutsideFiles> files, const OutsideTable* table)
      : files_(std::move(files)), table_(table) {}

  IOStatus Read(uint64_t offset, size_t bytes, const IOOptions& /*options*/,
                rocksdb::Slice* result, char* scratch,
                IODebugContext* /*debug*/) const override {
    const uint64_t left = table_->bytes - std::min(offset, table_->bytes);
    bytes = static_cast<size_t>(std::min<uint64_t>(bytes, left));
    *result = rocksdb::Slice(scratch, bytes);
    return IoStatusOf(
        files_->Read(*table_, offset, absl::MakeSpan(scratch, bytes)));
  }
  // OutsideFiles knows what to read together. Otherwise RocksDB would read
  // 512 KiB of each table that it opens.
  IOStatus Prefetch(uint64_t /*offset*/, size_t /*bytes*/,
                    const IOOptions& /*options*/,
                    IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }

 private:
  const std::shared_ptr<OutsideFiles> files_;
  const OutsideTable* const table_;
};

// Has the tables alone.
class OutsideFileSystem : public rocksdb::FileSystemWrapper {
 public:
  OutsideFileSystem(std::shared_ptr<OutsideFiles> files,
                    const std::vector<OutsideTable>* tables)
      : FileSystemWrapper(rocksdb::FileSystem::Default()),
        files_(std::move(files)),
        tables_(tables) {}

  const char* Name() const override { return "ckptdb.OutsideFileSystem"; }
  IOStatus NewRandomAccessFile(
      const std::string& path, const rocksdb::FileOptions& /*options*/,
      std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
      IODebugContext* /*debug*/) override {
    const OutsideTable* const table = Find(path);
    if (table == nullptr) return IOStatus::PathNotFound(path);
    *result = std::make_unique<OutsideFile>(files_, table);
    return IOStatus::OK();
  }
  IOStatus GetFileSize(const std::string& path, const IOOptions& /*options*/,
                       uint64_t* bytes, IODebugContext* /*debug*/) override {
    const OutsideTable* const table = Find(path);
    if (table == nullptr) return IOStatus::PathNotFound(path);
    *bytes = table->bytes;
    return IOStatus::OK();
  }

 private:
  const OutsideTable* Find(const std::string& path) const {
    const auto found = std::find_if(
        tables_->begin(), tables_->end(),
        [&](const OutsideTable& table) { return table.name == path; });
    return found == tables_->end() ? nullptr : &*found;
  }

  const std::shared_ptr<OutsideFiles> files_;
  const std::vector<OutsideTable>* const tables_;
};

// Merges the tables of a scan. A table is opened when the scan reaches its
// first key, or seeks beyond it.
class OutsideIterator : public rocksdb::Iterator {
 public:
  OutsideIterator(const OutsideTables& tables,
                  const rocksdb::ReadOptions& options)
      : tables_(tables),
        options_(options),
        lower_(FromSlice(*options.iterate_lower_bound)) {
    for (const size_t index :
         tables.Overlapping(lower_, FromSlice(*options.iterate_upper_bound))) {
      children_.push_back({index, nullptr, false});
    }
  }

  bool Valid() const override { return current_ != nullptr && status_.ok(); }
  rocksdb::Slice key() const override { return current_->entries->key(); }
  rocksdb::Slice value() const override { return current_->entries->value(); }
  rocksdb::Status status() const override { return status_; }

  void SeekToFirst() override { Seek(ToSlice(lower_)); }
  void Seek(const rocksdb::Slice& target) override {
    const absl::string_view key = std::max(FromSlice(target), lower_);
    status_ = rocksdb::Status::OK();
    for (Child& child : children_) {
      const OutsideTable& table = tables_.table(child.index);
      child.waits = key <= table.first_key;
      child.ended = key > table.last_key;
      if (child.waits || child.ended || !Open(&child)) continue;
      child.entries->Seek(ToSlice(key));
      Note(child);
    }
    FindCurrent();
  }
  void SeekForPrev(const rocksdb::Slice& target) override {
    status_ = rocksdb::Status::OK();
    current_ = nullptr;
    std::string last;
    for (Child& child : children_) {
      if (FromSlice(target) < tables_.table(child.index).first_key) continue;
      if (!Open(&child)) return;
      child.entries->SeekForPrev(target);
      Note(child);
      if (!status_.ok()) return;
      if (!child.entries->Valid()) continue;
      last = std::max(last, child.entries->key().ToString());
    }
    if (!last.empty()) Seek(last);
  }
  void Next() override {
    current_->entries->Next();
    Note(*current_);
    FindCurrent();
  }
  void SeekToLast() override { OnlyForward(); }
  void Prev() override { OnlyForward(); }

 private:
  struct Child {
    size_t index;
    std::unique_ptr<rocksdb::Iterator> entries;  // null until it is opened
    bool waits;          // it is at its first key, and may not be open
    bool ended = false;  // it has no further key
  };

  void OnlyForward() {
    current_ = nullptr;
    status_ = rocksdb::Status::NotSupported("moving to an earlier entry");
  }
  void Note(const Child& child) {
    if (status_.ok()) status_ = child.entries->status();
  }
  bool Open(Child* child) {
    if (child->entries == nullptr && status_.ok()) {
      status_ = tables_.OpenTable(child->index, options_, &child->entries);
    }
    return status_.ok();
  }
  // Returns null if the child has no more entries.
  Child* Least() {
    Child* least = nullptr;
    absl::string_view least_key;
    for (Child& child : children_) {
      if (child.ended || (!child.waits && !child.entries->Valid())) continue;
      const absl::string_view key =
          child.waits ? absl::string_view(tables_.table(child.index).first_key)
                      : FromSlice(child.entries->key());
      if (least != nullptr && key >= least_key) continue;
      least = &child;
      least_key = key;
    }
    return least;
  }
  void FindCurrent() {
    while (status_.ok()) {
      current_ = Least();
      if (current_ == nullptr || !current_->waits) return;
      if (!Open(current_)) break;
      current_->waits = false;
      current_->entries->SeekToFirst();
      Note(*current_);
    }
    current_ = nullptr;
  }

  const OutsideTables& tables_;
  const rocksdb::ReadOptions options_;
  const absl::string_view lower_;
  std::vector<Child> children_;
  Child* current_ = nullptr;
  rocksdb::Status status_;
};

std::vector<OutsideTable> ByFirstKey(std::vector<OutsideTable> tables) {
  std::sort(tables.begin(), tables.end(),
            [](const OutsideTable& a, const OutsideTable& b) {
              return a.first_key < b.first_key;
            });
  return tables;
}

}  // namespace

OutsideTables::OutsideTables(std::shared_ptr<OutsideFiles> files,
                             std::vector<OutsideTable> tables)
    : tables_(ByFirstKey(std::move(tables))),
      env_(rocksdb::NewCompositeEnv(
          std::make_shared<OutsideFileSystem>(std::move(files), &tables_))),
      options_(FileWriterOptions(env_.get(), /*small_entries=*/false)),
      opened_(new Opened[tables_.size()]) {}

OutsideTables::~OutsideTables() = default;

std::unique_ptr<rocksdb::Iterator> OutsideTables::NewIterator(
    const rocksdb::ReadOptions& options) const {
  return std::make_unique<OutsideIterator>(*this, options);
}

std::vector<rocksdb::LiveFileMetaData> OutsideTables::Files() const {
  std::vector<rocksdb::LiveFileMetaData> files(tables_.size());
  for (size_t i = 0; i < tables_.size(); ++i) {
    files[i].relative_filename = files[i].name = tables_[i].name;
    files[i].size = tables_[i].bytes;
    files[i].smallestkey = tables_[i].first_key;
    files[i].largestkey = tables_[i].last_key;
  }
  return files;
}

uint64_t OutsideTables::ApproximateBytes(absl::string_view begin,
                                         absl::string_view end) const {
  uint64_t bytes = 0;
  for (const size_t i : Overlapping(begin, end)) bytes += tables_[i].bytes;
  return bytes;
}

// Tables of a version are adjacent, and begin with its prefix.
std::vector<size_t> OutsideTables::Overlapping(absl::string_view begin,
                                               absl::string_view end) const {
  const absl::string_view version = begin.substr(0, kVersionPrefixBytes);
  const auto first =
      std::lower_bound(tables_.begin(), tables_.end(), version,
                       [](const OutsideTable& table, absl::string_view key) {
                         return table.first_key < key;
                       });
  std::vector<size_t> found;
  for (auto it = first; it != tables_.end() && it->first_key < end; ++it) {
    if (it->last_key < begin) continue;
    found.push_back(static_cast<size_t>(it - tables_.begin()));
  }
  return found;
}

rocksdb::Status OutsideTables::OpenTable(
    size_t index, const rocksdb::ReadOptions& options,
    std::unique_ptr<rocksdb::Iterator>* entries) const {
  Opened& opened = opened_[index];
  rocksdb::SstFileReader* reader = nullptr;
  {
    const MutexLock lock(&opened.mutex);
    if (opened.reader == nullptr) {
      auto opening = std::make_unique<rocksdb::SstFileReader>(options_);
      const std::string& name = tables_[index].name;
      rocksdb::Status status = opening->Open(name);
      // RocksDB names no file for damage that it finds here.
      if (status.IsCorruption()) {
        return rocksdb::Status::Corruption(name, status.ToString());
      }
      if (!status.ok()) return status;
      opened.reader = std::move(opening);
    }
    reader = opened.reader.get();
  }
  entries->reset(reader->NewIterator(options));
  return rocksdb::Status::OK();
}

}  // namespace ckptdb::internal
