// SPDX-License-Identifier: Apache-2.0
#include "db/quirks/start_threads.h"

#include <rocksdb/env.h>

#include <future>
#include <vector>

#include "db/base/call_guard.h"

namespace ckptdb::internal {
namespace {

constexpr char kDoing[] = "starting the database's threads";

// Starts `count` threads, and ends them again.
absl::Status TryThreads(int count) {
  std::vector<std::future<void>> tried;
  std::promise<void> all_started;  // or no more could be started
  const std::shared_future<void> end = all_started.get_future().share();
  absl::Status status = CallGuarded(kDoing, [&] {
    for (int i = 0; i < count; ++i) {
      tried.push_back(std::async(std::launch::async, [end] { end.wait(); }));
    }
  });
  all_started.set_value();
  return status;
}

}  // namespace

absl::Status StartRocksDbThreads(const rocksdb::DBOptions& options) {
  return CallGuarded(kDoing, [&] {
    // RocksDB throws if it cannot start a thread, and leaves the folder locked
    // (line 34 of docs/rocksdb.md). The threads of its pools are started here
    // and stay. Those that open tables are only tried, because each open starts
    // new ones.
    rocksdb::Env* const env = rocksdb::Env::Default();
    env->IncBackgroundThreadsIfNeeded(options.max_background_flushes,
                                      rocksdb::Env::HIGH);
    env->IncBackgroundThreadsIfNeeded(options.max_background_compactions,
                                      rocksdb::Env::LOW);
    return TryThreads(options.max_file_opening_threads);
  });
}

}  // namespace ckptdb::internal
