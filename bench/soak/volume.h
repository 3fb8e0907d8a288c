// SPDX-License-Identifier: Apache-2.0
// The disk of a soak: a separate tmpfs where this process may mount one, which
// the driver fills now and then.
#ifndef CKPTDB_BENCH_SOAK_VOLUME_H_
#define CKPTDB_BENCH_SOAK_VOLUME_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ckptdb::soak {

class Volume {
 public:
  // Mounts a tmpfs of so many bytes at `folder`, which this process and those
  // that it starts see alone. Before any thread is started. Where it may not
  // mount, why_not_mounted() returns the reason, and the folder is unchanged.
  Volume(std::string folder, uint64_t bytes);

  // Unmounts the tmpfs; everything on it is lost.
  ~Volume();
  Volume(const Volume&) = delete;
  Volume& operator=(const Volume&) = delete;

  bool mounted() const { return why_not_mounted_.ok(); }
  const absl::Status& why_not_mounted() const { return why_not_mounted_; }
  std::string store() const { return folder_ + "/store"; }

  // Takes all space but `room` bytes. Only of a volume that is mounted.
  absl::Status Fill(uint64_t room);
  absl::Status Free();
  // Returns whether it was full at any time since then, by SteadyMicros.
  // Thread-safe.
  bool WasFull(int64_t since_micros) const;
  // Returns the free space now, and how the filler stands, for an error.
  std::string Describe() const;

 private:
  std::string filler() const { return folder_ + "/filler"; }

  const std::string folder_;
  absl::Status why_not_mounted_;
  std::atomic<bool> full_ = false;
  std::atomic<int64_t> freed_at_micros_ = 0;
};

// The size of the files below a folder that stay while it is looked at.
struct FolderSize {
  uint64_t disk_bytes = 0;  // as allocated, of names of one file once
  uint64_t files = 0;
  uint64_t manifest_bytes = 0;  // of the largest MANIFEST
};
FolderSize MeasureFolder(const std::string& folder);

// Returns the VmRSS of a process, or 0 if the process does not exist.
uint64_t ResidentBytes(int64_t pid);

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_VOLUME_H_
