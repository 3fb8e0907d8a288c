// SPDX-License-Identifier: Apache-2.0
#include "db/disk/open_files.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {
namespace {

struct Limit {
  uint64_t soft = 0;
  uint64_t hard = 0;
};

// Raises the soft limit to `enough` if the hard one permits it.
Limit RaiseLimit(uint64_t enough) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {enough, enough};
  const rlim_t wanted = std::min<rlim_t>(enough, limit.rlim_max);
  if (limit.rlim_cur < wanted) {
    const rlimit raised{wanted, limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return {limit.rlim_cur, limit.rlim_max};
}

// Returns 0 if /proc is missing.
uint64_t CountOpenFiles() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"),
                                                   ::closedir);
  if (folder == nullptr) return 0;
  uint64_t entries = 0;
  while (::readdir(folder.get()) != nullptr) ++entries;
  constexpr uint64_t kNotFiles = 3;  // ".", ".." and the folder itself
  return entries - std::min(entries, kNotFiles);
}

// The sum of all shares. Never destroyed, because databases may be closed at
// exit().
struct Shares {
  Mutex mutex;
  uint64_t taken ABSL_GUARDED_BY(mutex) = 0;
};
Shares& AllShares() {
  static auto* const kShares = new Shares();
  return *kShares;
}

}  // namespace

// A share's files may or may not be open already, so both counts are lower
// bounds of the files in use. The larger one is used.
absl::StatusOr<OpenFileShare> OpenFileShare::Take() {
  const Limit limit = RaiseLimit(kEnough);
  const uint64_t open = CountOpenFiles();
  if (open + kFewest > limit.soft) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the process has ", open, " files open and may open ", limit.soft,
        " (hard limit ", limit.hard, "); a store needs ", kFewest,
        " more: close files, or raise the limit with `ulimit -n`"));
  }
  Shares& all = AllShares();
  const MutexLock lock(&all.mutex);
  const uint64_t used = std::min(limit.soft, std::max(open, all.taken));
  const uint64_t files =
      std::clamp((limit.soft - used) / 2, kFewest / 2, kMost);
  all.taken += files;
  return OpenFileShare(files);
}

OpenFileShare::~OpenFileShare() {
  if (files_ == 0) return;
  Shares& all = AllShares();
  const MutexLock lock(&all.mutex);
  all.taken -= files_;
}

OpenFileShare::OpenFileShare(OpenFileShare&& from) noexcept
    : files_(std::exchange(from.files_, 0)) {}

OpenFileShare& OpenFileShare::operator=(OpenFileShare&& from) noexcept {
  std::swap(files_, from.files_);
  return *this;
}

}  // namespace ckptdb::internal
