// SPDX-License-Identifier: Apache-2.0
// Downloads data objects to files; internal to remote/.
#ifndef CKPTDB_REMOTE_SYNC_DOWNLOADER_H_
#define CKPTDB_REMOTE_SYNC_DOWNLOADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "db/base/mutex.h"
#include "db/transfer/copy_entries.h"
#include "remote/object_store.h"
#include "remote/remote_store.h"
#include "schema/records/remote.h"

namespace ckptdb::internal {

// A data object, and the file for all of it or for some ranges.
struct Download {
  std::string key;
  std::string path;
  RemoteFile file;
  std::vector<KeyRange> ranges = {};  // empty: all of it
};

// Used by one thread.
class Downloader {
 public:
  Downloader(ObjectStore* remote, const FetchOptions* options)
      : remote_(remote), options_(options) {}

  // Returns the name, in `folder`, of the file of an object.
  static std::string PathOf(const std::string& folder, const std::string& key);

  // Downloads the files that do not exist with the right hash yet, and adds the
  // paths of those with entries to `tables`.
  absl::Status Run(std::vector<Download> downloads,
                   std::vector<std::string>* tables);

  // Expects these bytes, for FetchOptions::progress.
  void Expect(uint64_t bytes) { all_bytes_ += bytes; }
  uint64_t files() const { return files_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void LeaveOutComplete(std::vector<Download>* downloads);
  absl::Status ReadAll(const std::vector<Download>& downloads);
  absl::Status ReadRange(const Download& download, uint64_t offset);
  absl::Status FinishFile(const Download& download);
  absl::Status CopyRanges(const std::vector<Download>& downloads,
                          std::vector<std::string>* tables);
  void Report(uint64_t bytes);

  ObjectStore* const remote_;
  const FetchOptions* const options_;
  uint64_t all_bytes_ = 0;
  Mutex mutex_;
  uint64_t done_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Written under the mutex, and read after Run.
  uint64_t files_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_DOWNLOADER_H_
