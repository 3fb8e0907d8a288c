// SPDX-License-Identifier: Apache-2.0
#include "db/fold/run_output.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "db/disk/rocks_status.h"
#include "schema/status.h"

namespace ckptdb::internal {

absl::Status DataFile::Put(absl::string_view key, absl::string_view entry) {
  const std::string context = absl::StrCat("writing \"", path_, "\"");
  if (file_ == nullptr) {
    file_ = NewSegmentWriter(options_);
    CKPTDB_RETURN_IF_ERROR(FromRocks(file_->Open(path_), context));
  }
  return FromRocks(file_->Put(ToSlice(key), ToSlice(entry)), context);
}

absl::Status DataFile::Finish(std::vector<StagedFile>* files) {
  if (file_ == nullptr) return absl::OkStatus();
  rocksdb::ExternalSstFileInfo file;
  CKPTDB_RETURN_IF_ERROR(FromRocks(FinishSegment(&file_, &file),
                                   absl::StrCat("writing \"", path_, "\"")));
  files->push_back({path_, file.file_size, file.num_entries});
  file_.reset();
  return absl::OkStatus();
}

absl::Status StreamFiles::Put(size_t stream, absl::string_view key,
                              absl::string_view entry) {
  if (files_.size() <= stream) files_.resize(stream + 1);
  std::unique_ptr<DataFile>& file = files_[stream];
  if (file == nullptr) {
    file = std::make_unique<DataFile>(options_,
                                      absl::StrCat(path_, "-", stream, ".sst"));
  }
  return file->Put(key, entry);
}

absl::Status StreamFiles::Finish(std::vector<StagedFile>* files) {
  for (const auto& file : files_) {
    if (file != nullptr) CKPTDB_RETURN_IF_ERROR(file->Finish(files));
  }
  return absl::OkStatus();
}

absl::Status SharedFile::Put(size_t stream, absl::string_view key,
                             absl::string_view entry) {
  if (streams_.size() <= stream) streams_.resize(stream + 1);
  streams_[stream].push_back({std::string(key), std::string(entry)});
  return absl::OkStatus();
}

absl::Status SharedFile::EndRun() {
  for (const std::vector<Entry>& stream : streams_) {
    for (const Entry& entry : stream) {
      CKPTDB_RETURN_IF_ERROR(file_.Put(entry.key, entry.bytes));
    }
  }
  streams_.clear();
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
