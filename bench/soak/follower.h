// SPDX-License-Identifier: Apache-2.0
// A serving process beside the writer: holds the newest step, applies the
// changes of each next one, and compares its copy each time.
#ifndef CKPTDB_BENCH_SOAK_FOLLOWER_H_
#define CKPTDB_BENCH_SOAK_FOLLOWER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "bench/soak/content.h"
#include "bench/soak/held_rows.h"
#include "db/reader.h"

namespace ckptdb::soak {

class Follower {
 public:
  // Starts a thread, which begins as soon as there is a store at `path`.
  Follower(std::string path, const Content& content);
  // Stops it.
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // Returns the error that ended it, or OK while it runs.
  absl::Status status() const;
  uint64_t by_changes() const { return by_changes_; }
  uint64_t whole() const { return whole_; }
  // Returns how often the step was deleted before it was read, or the writer
  // changed the store each time it was opened.
  uint64_t overtaken() const { return overtaken_; }

 private:
  void Follow();
  // Returns false if it is stopped.
  bool Pause();
  absl::Status CatchUp();
  absl::Status GoTo(const Version& latest);
  absl::Status GoByChanges(const Version& latest);
  absl::Status ReadWhole(const Version& latest);
  // Compares the rows held, and these tensors.
  absl::Status Check(const StepReader& step) const;

  const std::string path_;
  const Content content_;
  std::unique_ptr<Reader> reader_;
  HeldRows rows_;
  std::optional<Version> held_;
  std::atomic<uint64_t> by_changes_ = 0;
  std::atomic<uint64_t> whole_ = 0;
  std::atomic<uint64_t> overtaken_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable stops_;
  bool stopped_ = false;  // under mutex_, and so is status_
  absl::Status status_;
  std::thread thread_;
};

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_FOLLOWER_H_
