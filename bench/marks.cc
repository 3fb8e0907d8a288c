// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/cases.h"
#include "bench/measure.h"
#include "db/row_tracker.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::bench {
namespace {

constexpr double kMaxNsPerRow = 5;
constexpr size_t kBatchRows = 4096;
constexpr double kNsPerSecond = 1e9;

using Ids = std::vector<int64_t>;
using Batch = absl::Span<const int64_t>;

// Threads that are awake when work arrives, like a trainer's: waking one takes
// as long as some of the cases.
class Workers {
 public:
  explicit Workers(int threads) : turn_(threads) {
    for (int i = 1; i < threads; ++i) {
      threads_.emplace_back([this, i] { Loop(i); });
    }
  }
  ~Workers() {
    // Threads that are awake spin, the others wait for their turn.
    end_ = true;
    if (!awake_) turn_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }

  int count() const { return static_cast<int>(threads_.size()) + 1; }

  // They spin from here to the end of the next Run.
  void Wake() {
    if (awake_) return;
    awake_ = true;
    begun_ = false;
    working_ = count() - 1;
    turn_.arrive_and_wait();
  }

  // Runs the work on each thread, of which the caller is the first.
  void Run(std::function<void(int)> work) {
    Wake();
    work_ = std::move(work);
    begun_ = true;
    work_(0);
    while (working_ > 0) {
    }
    awake_ = false;
  }

 private:
  void Loop(int thread) {
    for (;;) {
      turn_.arrive_and_wait();
      while (!begun_ && !end_) {
      }
      if (end_) return;
      work_(thread);
      --working_;
    }
  }

  std::barrier<> turn_;
  bool awake_ = false;
  std::atomic<bool> begun_ = false;
  std::atomic<bool> end_ = false;
  std::atomic<int> working_ = 0;
  std::function<void(int)> work_;
  std::vector<std::thread> threads_;
};

// A way to mark changed rows, by several threads.
struct Marked {
  std::function<absl::Status(int thread, Batch ids)> mark;
  // Ends the interval.
  std::function<absl::Status()> take;
};

template <typename Tracker>
absl::StatusOr<Marked> MarkedIn(std::shared_ptr<Tracker> tracker) {
  CKPTDB_ASSIGN_OR_RETURN(const ChangeTracker::Consumer consumer,
                          tracker->AddConsumer("bench"));
  CKPTDB_RETURN_IF_ERROR(tracker->Take(consumer).status());
  const auto mark = [tracker](int, Batch ids) {
    if constexpr (std::is_void_v<decltype(tracker->MarkUpserted(ids))>) {
      tracker->MarkUpserted(ids);
      return absl::OkStatus();
    } else {
      return tracker->MarkUpserted(ids);
    }
  };
  return Marked{
      mark, [tracker, consumer] { return tracker->Take(consumer).status(); }};
}

// The least that a log of ids can do.
Marked Copied(int threads, size_t rows) {
  struct alignas(64) Copy {
    Ids ids;
    size_t used = 0;
  };
  const auto copies = std::make_shared<std::vector<Copy>>();
  for (int i = 0; i < threads; ++i) copies->push_back({Ids(rows), 0});
  return {[copies](int thread, Batch ids) {
            Copy& copy = (*copies)[static_cast<size_t>(thread)];
            std::memcpy(copy.ids.data() + copy.used, ids.data(),
                        ids.size() * sizeof(int64_t));
            copy.used += ids.size();
            return absl::OkStatus();
          },
          [copies] {
            for (Copy& copy : *copies) copy.used = 0;
            return absl::OkStatus();
          }};
}

// Rows as they are marked in one interval.
struct Load {
  std::string name;
  Ids ids;
};

int64_t IdOf(uint64_t row) { return static_cast<int64_t>(MixId(row)); }

// Returns a Zipf load of exponent 1: row k is drawn as often as the integral of
// 1 / x from k to k + 1.
Load ZipfLoad(uint64_t rows, uint64_t seed) {
  constexpr uint64_t kRepetitions = 4;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(
      0, std::log(static_cast<double>(rows) + 1));
  Load load{"zipf", Ids(kRepetitions * rows)};
  for (int64_t& id : load.ids) {
    id = IdOf(static_cast<uint64_t>(std::exp(uniform(random))));
  }
  return load;
}

Load DistinctLoad(std::string name, uint64_t rows, uint64_t seed) {
  Load load{std::move(name), Ids(std::max<uint64_t>(rows, 1))};
  for (size_t i = 0; i < load.ids.size(); ++i) load.ids[i] = IdOf(i);
  std::shuffle(load.ids.begin(), load.ids.end(), std::mt19937_64(seed));
  return load;
}

Load BitmapLoad(uint64_t rows, uint64_t seed) {
  Load load{"bitmap", Ids(rows)};
  for (size_t i = 0; i < rows; ++i) load.ids[i] = static_cast<int64_t>(i);
  std::shuffle(load.ids.begin(), load.ids.end(), std::mt19937_64(seed));
  return load;
}

class MarkCase {
 public:
  MarkCase(const Load& load, int threads, const BenchOptions& options)
      : load_(load),
        name_(absl::StrCat("marks/", load.name, "/", threads)),
        options_(options),
        workers_(threads) {}

  absl::Status Run(const Marked& ours, Report* report) {
    // The first interval gets its memory from the system.
    CKPTDB_ASSIGN_OR_RETURN(const Sample first,
                            Measure([&] { return MarkAll(ours); }));
    CKPTDB_RETURN_IF_ERROR(ours.take());
    const Marked copied = Copied(workers_.count(), load_.ids.size());
    CKPTDB_ASSIGN_OR_RETURN(
        const std::vector<Outcome> outcomes,
        TakeTurns(name_, {Marking("ours", ours), Marking("memcpy", copied)},
                  options_.repetitions));
    CaseResult result =
        Compare(name_, load_.ids.size() * sizeof(int64_t), outcomes);
    CKPTDB_ASSIGN_OR_RETURN(const Sample take, MeasureTake(ours));
    result.figures = {
        {"rows", static_cast<double>(load_.ids.size())},
        {"ns_per_row", NsPerRow(result.seconds.median)},
        {"cpu_ns_per_row", NsPerRow(result.cpu_seconds.median) / count()},
        {"first_ns_per_row", NsPerRow(first.seconds)},
        {"raw_ns_per_row", NsPerRow(result.raw_seconds.median)},
        {"take_ns_per_row", NsPerRow(take.seconds) / count()}};
    result.goals = {
        {"ns_per_row", NsPerRow(result.seconds.median), kMaxNsPerRow}};
    report->Add(std::move(result));
    return absl::OkStatus();
  }

 private:
  double count() const { return workers_.count(); }

  // Returns the time of one thread for each row.
  double NsPerRow(double seconds) const {
    return seconds * kNsPerSecond * count() /
           static_cast<double>(load_.ids.size());
  }

  // Each thread its part, in batches.
  absl::Status MarkAll(const Marked& marked) {
    std::vector<absl::Status> statuses(static_cast<size_t>(workers_.count()));
    workers_.Run([&](int thread) {
      const auto part = static_cast<size_t>(thread);
      const size_t begin = load_.ids.size() * part / statuses.size();
      const size_t end = load_.ids.size() * (part + 1) / statuses.size();
      for (size_t at = begin; at < end; at += kBatchRows) {
        statuses[part].Update(marked.mark(
            thread,
            Batch(load_.ids).subspan(at, std::min(kBatchRows, end - at))));
      }
    });
    for (const absl::Status& status : statuses) {
      CKPTDB_RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

  Contestant Marking(const std::string& name, const Marked& marked) {
    const auto wake = [this] {
      workers_.Wake();
      return absl::OkStatus();
    };
    return {name, wake, [this, marked] { return MarkAll(marked); },
            marked.take};
  }

  absl::StatusOr<Sample> MeasureTake(const Marked& marked) {
    CKPTDB_RETURN_IF_ERROR(MarkAll(marked));
    return Measure(marked.take);
  }

  const Load& load_;
  const std::string name_;
  const BenchOptions& options_;
  Workers workers_;
};

using MakeMarked = std::function<absl::StatusOr<Marked>()>;

absl::Status RunLoad(const Load& load, const MakeMarked& make,
                     const BenchOptions& options, Report* report) {
  for (const int threads : {1, 2}) {
    CKPTDB_ASSIGN_OR_RETURN(const Marked ours, make());
    MarkCase one(load, threads, options);
    CKPTDB_RETURN_IF_ERROR(one.Run(ours, report));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunMarks(const BenchOptions& options, Report* report) {
  constexpr uint64_t kSparse = 100;
  const uint64_t rows = options.rows;
  const uint64_t seed = options.seed;
  const MakeMarked make_tracker = [] {
    return MarkedIn(std::make_shared<RowTracker>());
  };
  const MakeMarked make_bitmap = [rows]() -> absl::StatusOr<Marked> {
    CKPTDB_ASSIGN_OR_RETURN(auto bitmap, RowBitmap::Make(rows));
    return MarkedIn(std::shared_ptr<RowBitmap>(std::move(bitmap)));
  };
  CKPTDB_RETURN_IF_ERROR(
      RunLoad(ZipfLoad(rows, seed), make_tracker, options, report));
  CKPTDB_RETURN_IF_ERROR(RunLoad(DistinctLoad("sparse", rows / kSparse, seed),
                                 make_tracker, options, report));
  CKPTDB_RETURN_IF_ERROR(
      RunLoad(DistinctLoad("all", rows, seed), make_tracker, options, report));
  return RunLoad(BitmapLoad(rows, seed), make_bitmap, options, report);
}

}  // namespace ckptdb::bench
