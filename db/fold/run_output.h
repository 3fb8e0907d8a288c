// SPDX-License-Identifier: Apache-2.0
// Writes the pages of folded runs; internal to db/.
#ifndef CKPTDB_DB_FOLD_RUN_OUTPUT_H_
#define CKPTDB_DB_FOLD_RUN_OUTPUT_H_

#include <rocksdb/sst_file_writer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/stage/segments.h"
#include "schema/records/staged.h"

namespace ckptdb::internal {

// A data file that is created with its first entry. Not thread-safe.
class DataFile {
 public:
  DataFile(const SegmentWriterOptions& options, std::string path)
      : options_(options), path_(std::move(path)) {}

  absl::Status Put(absl::string_view key, absl::string_view entry);
  // Finishes and syncs the file, if it was created, and adds it to `files`.
  absl::Status Finish(std::vector<StagedFile>* files);

 private:
  const SegmentWriterOptions options_;
  const std::string path_;
  std::unique_ptr<rocksdb::SstFileWriter> file_;
};

// Receives the pages of runs. The keys of each stream ascend; the calls for
// several streams alternate.
class RunOutput {
 public:
  virtual ~RunOutput() = default;
  virtual absl::Status Put(size_t stream, absl::string_view key,
                           absl::string_view entry) = 0;
};

// Writes each stream to a separate file, `path`-<stream>.sst: the ranges of a
// table that several workers write are adjacent in every stream, so a file
// cannot hold more than one stream. All files are open until Finish.
class StreamFiles : public RunOutput {
 public:
  StreamFiles(const SegmentWriterOptions& options, std::string path)
      : options_(options), path_(std::move(path)) {}

  absl::Status Put(size_t stream, absl::string_view key,
                   absl::string_view entry) override;
  absl::Status Finish(std::vector<StagedFile>* files);

 private:
  const SegmentWriterOptions options_;
  const std::string path_;
  std::vector<std::unique_ptr<DataFile>> files_;  // by stream
};

// Writes whole runs to one file, in key order. Each run is held in memory until
// EndRun.
class SharedFile : public RunOutput {
 public:
  SharedFile(const SegmentWriterOptions& options, const std::string& path)
      : file_(options, path + ".sst") {}

  absl::Status Put(size_t stream, absl::string_view key,
                   absl::string_view entry) override;
  absl::Status EndRun();
  absl::Status Finish(std::vector<StagedFile>* files) {
    return file_.Finish(files);
  }

 private:
  struct Entry {
    std::string key;
    std::string bytes;
  };
  DataFile file_;
  std::vector<std::vector<Entry>> streams_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_FOLD_RUN_OUTPUT_H_
