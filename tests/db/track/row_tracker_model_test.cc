// SPDX-License-Identifier: Apache-2.0
// RowTracker under random calls against a plain model, and under threads.
//
//   CKPTDB_SEED=7 row_tracker_model_test

#include <numeric>
#include <thread>

#include "db/row_tracker.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

using Ids = std::vector<int64_t>;

enum class Kind { kUpserted, kErased };

// All that was ever marked, with the times of the newest marks.
struct Mark {
  int64_t time = 0;
  Kind kind = Kind::kUpserted;
};
using Marks = std::map<int64_t, Mark>;

struct OutSet {
  ChangeTracker::Changes changes;
  int64_t time = 0;  // when it was taken
};

struct ModelConsumer {
  ChangeTracker::Consumer id;
  bool complete = false;
  int64_t base_time = 0;
  // What the next set must have, and what else it may have: rows of later sets
  // once an older one was returned.
  std::set<int64_t> must;
  std::set<int64_t> may;
  std::vector<OutSet> out;
};

class Model {
 public:
  Model(uint64_t seed, uint64_t max_bytes)
      : random_(seed), tracker_(max_bytes) {}
  void Step() {
    ++time_;
    switch (Below(12)) {
      case 0:
        return AddOrRemove();
      case 1:
      case 2:
      case 3:
        if (!consumers_.empty()) TakeOne(&AnyConsumer());
        return;
      case 4:
      case 5:
        if (!consumers_.empty()) EndOne(&AnyConsumer());
        return;
      default:
        return MarkSome();
    }
  }
  size_t sets() const { return sets_; }
  size_t returned() const { return returned_; }

 private:
  static constexpr uint64_t kIds = 300;
  static constexpr size_t kConsumers = 3;
  static constexpr size_t kOut = 3;  // sets of a consumer
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  ModelConsumer& AnyConsumer() { return consumers_[Below(consumers_.size())]; }
  // Few ids, so that they meet; far apart, and near the ends.
  int64_t AnyId() {
    const uint64_t n = Below(kIds);
    if (n % 3 == 0) return static_cast<int64_t>(n << 48);
    if (n % 3 == 1) return static_cast<int64_t>(n) - 150;
    return std::numeric_limits<int64_t>::min() + static_cast<int64_t>(n);
  }
  void MarkSome() {
    const Kind kind = Below(3) == 0 ? Kind::kErased : Kind::kUpserted;
    Ids ids(Below(Below(2) == 0 ? 4 : 400));
    for (int64_t& id : ids) {
      id = AnyId();
      marks_[id] = {time_, kind};
      for (ModelConsumer& consumer : consumers_) {
        if (consumer.complete) consumer.must.insert(id);
      }
    }
    if (kind == Kind::kErased) {
      tracker_.MarkErased(ids);
    } else {
      tracker_.MarkUpserted(ids);
    }
  }
  void AddOrRemove() {
    if (consumers_.size() == kConsumers) {
      const auto gone =
          consumers_.begin() + static_cast<int64_t>(Below(consumers_.size()));
      ASSERT_OK(tracker_.RemoveConsumer(gone->id));
      consumers_.erase(gone);
      return;
    }
    ASSERT_OK_AND_ASSIGN(const ChangeTracker::Consumer id,
                         tracker_.AddConsumer(std::to_string(time_)));
    consumers_.emplace_back();
    consumers_.back().id = id;
  }
  void TakeOne(ModelConsumer* consumer) {
    if (consumer->out.size() == kOut) EndOne(consumer);
    ASSERT_OK_AND_ASSIGN(ChangeTracker::Changes changes,
                         tracker_.Take(consumer->id));
    ASSERT_EQ(changes.complete, consumer->complete) << changes.reason;
    EXPECT_EQ(changes.complete, changes.reason.empty());
    CheckSet(*consumer, changes);
    if (!consumer->complete) consumer->base_time = time_;
    consumer->complete = true;
    consumer->must.clear();
    consumer->may.clear();
    consumer->out.push_back({std::move(changes), time_});
    ++sets_;
  }
  void CheckSet(const ModelConsumer& consumer,
                const ChangeTracker::Changes& changes) {
    std::set<int64_t> left = consumer.must;
    std::set<int64_t> seen;
    const auto check = [&](const Ids& ids, Kind kind) {
      for (const int64_t id : ids) {
        EXPECT_TRUE(seen.insert(id).second) << id << " twice";
        EXPECT_EQ(marks_[id].kind, kind) << id << " under a stale mark";
        if (left.erase(id) > 0) continue;
        EXPECT_TRUE(consumer.may.count(id)) << id << " for no reason";
      }
    };
    check(changes.upserted, Kind::kUpserted);
    check(changes.erased, Kind::kErased);
    EXPECT_THAT(left, ::testing::IsEmpty()) << "lost";
  }
  // One of the sets that are out was saved, or its save has failed.
  void EndOne(ModelConsumer* consumer) {
    if (consumer->out.empty()) return;
    const auto at = consumer->out.begin() +
                    static_cast<int64_t>(Below(consumer->out.size()));
    OutSet set = std::move(*at);
    consumer->out.erase(at);
    if (Below(2) == 0) return;
    ++returned_;
    PutBack(set, consumer);
    ASSERT_OK(tracker_.Return(consumer->id, std::move(set.changes)));
  }
  void PutBack(const OutSet& set, ModelConsumer* consumer) {
    if (!set.changes.complete) {
      consumer->complete = false;
      consumer->must.clear();
      consumer->may.clear();
    }
    if (!consumer->complete || set.time < consumer->base_time) return;
    for (const Ids* ids : {&set.changes.upserted, &set.changes.erased}) {
      for (const int64_t id : *ids) {
        if (marks_[id].time < set.time) consumer->must.insert(id);
      }
    }
    for (const auto& [id, mark] : marks_) {
      if (mark.time > set.time) consumer->may.insert(id);
    }
  }
  std::mt19937_64 random_;
  RowTracker tracker_;
  int64_t time_ = 0;
  Marks marks_;
  std::vector<ModelConsumer> consumers_;
  size_t sets_ = 0;
  size_t returned_ = 0;
};

void RunModel(uint64_t max_bytes) {
  const uint64_t seed = TestSeed();
  size_t sets = 0;
  size_t returned = 0;
  for (uint64_t run = 0; run < 20; ++run) {
    Model model(seed + run, max_bytes);
    for (int step = 0; step < 1000; ++step) {
      model.Step();
      if (::testing::Test::HasFailure())
        FAIL() << "in step " << step << " of run " << run;
    }
    sets += model.sets();
    returned += model.returned();
  }
  EXPECT_GT(sets, 1000);
  EXPECT_GT(returned, 500);
}

TEST(RowTrackerModelTest, MatchesTheModel) { RunModel(uint64_t{1} << 30); }

// The log is merged over and over; its few ids always fit.
TEST(RowTrackerModelTest, MatchesTheModelWhenMemoryIsScarce) {
  RunModel(50'000);
}

constexpr int64_t kThreads = 10;  // more than there are lanes

void OnThreads(const std::function<void(int64_t)>& work,
               std::vector<std::thread>* threads) {
  for (int64_t t = 0; t < kThreads; ++t) threads->emplace_back(work, t);
}

TEST(RowTrackerThreadsTest, EveryMarkIsInOneSet) {
  constexpr int64_t kRowsEach = 20'000;
  constexpr int64_t kBatch = 100;
  RowTracker tracker;
  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Consumer saves,
                       tracker.AddConsumer("s"));
  ASSERT_OK(tracker.Take(saves));
  std::vector<std::thread> threads;
  OnThreads(
      [&tracker](int64_t t) {
        for (int64_t at = 0; at < kRowsEach; at += kBatch) {
          Ids ids;
          for (int64_t i = at; i < at + kBatch; ++i)
            ids.push_back(i * kThreads + t);
          tracker.MarkUpserted(ids);
        }
      },
      &threads);
  std::vector<int> seen(kThreads * kRowsEach);
  const auto take = [&](bool give_back) {
    absl::StatusOr<ChangeTracker::Changes> changes = tracker.Take(saves);
    ASSERT_OK(changes);
    if (give_back) {
      ASSERT_OK(tracker.Return(saves, *std::move(changes)));
      return;
    }
    for (const int64_t row : changes->upserted)
      ++seen[static_cast<size_t>(row)];
  };
  for (int i = 0; i < 50; ++i) take(i % 3 == 0);
  for (std::thread& thread : threads) thread.join();
  take(false);
  EXPECT_THAT(seen, ::testing::Each(1));
}

// Ids that come again too late for the filters, more than the bound has room
// for: merges of all lanes beside marks.
TEST(RowTrackerThreadsTest, NoMarkIsLostInAMerge) {
  constexpr int64_t kRowsEach = 20'000;
  constexpr int64_t kBatch = 1000;
  constexpr int kRounds = 8;
  constexpr uint64_t kBytesPerId = 16;
  RowTracker tracker(kBytesPerId * kThreads * kRowsEach);
  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Consumer saves,
                       tracker.AddConsumer("s"));
  ASSERT_OK(tracker.Take(saves));
  std::vector<std::thread> threads;
  OnThreads(
      [&tracker](int64_t t) {
        for (int64_t at = 0; at < kRounds * kRowsEach; at += kBatch) {
          Ids ids(kBatch);
          std::iota(ids.begin(), ids.end(), t * kRowsEach + at % kRowsEach);
          tracker.MarkUpserted(ids);
        }
      },
      &threads);
  for (std::thread& thread : threads) thread.join();
  ASSERT_OK_AND_ASSIGN(ChangeTracker::Changes changes, tracker.Take(saves));
  ASSERT_TRUE(changes.complete) << changes.reason;
  std::sort(changes.upserted.begin(), changes.upserted.end());
  Ids all(kThreads * kRowsEach);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(changes.upserted, all);
}

// What a consumer knows after its sets, one after the other.
class Replica {
 public:
  void TakeOne(RowTracker* tracker, ChangeTracker::Consumer consumer,
               bool fails) {
    absl::StatusOr<ChangeTracker::Changes> changes = tracker->Take(consumer);
    ASSERT_OK(changes);
    ASSERT_TRUE(changes->complete);
    if (fails) {
      ASSERT_OK(tracker->Return(consumer, *std::move(changes)));
      return;
    }
    for (const int64_t id : changes->upserted) marks_[id] = Kind::kUpserted;
    for (const int64_t id : changes->erased) marks_[id] = Kind::kErased;
  }
  const std::map<int64_t, Kind>& marks() const { return marks_; }

 private:
  std::map<int64_t, Kind> marks_;
};

// Each thread upserts and erases ids of its own, over and over, and hot ids
// of all; two consumers follow, with saves that fail.
TEST(RowTrackerThreadsTest, TheLastMarkOfAnIdIsTheLastOneTaken) {
  constexpr int64_t kIdsEach = 50;
  constexpr int kRounds = 300;
  const Ids hot = {-1, -2, -3};
  const auto upserted_last = [](int64_t id) { return id % 2 == 0; };
  RowTracker tracker;
  std::vector<ChangeTracker::Consumer> consumers;
  for (const char* name : {"checkpoint", "feed"}) {
    ASSERT_OK_AND_ASSIGN(const ChangeTracker::Consumer id,
                         tracker.AddConsumer(name));
    ASSERT_OK(tracker.Take(id));
    consumers.push_back(id);
  }
  std::atomic<int64_t> working{kThreads};
  std::vector<std::thread> threads;
  OnThreads(
      [&](int64_t t) {
        for (int round = 0; round < kRounds; ++round) {
          for (int64_t id = t * kIdsEach; id < (t + 1) * kIdsEach; ++id) {
            const bool upsert = (round % 2 == 1) == upserted_last(id);
            tracker.MarkUpserted(hot);
            if (upsert) {
              tracker.MarkUpserted({id, id});
            } else {
              tracker.MarkErased({id});
            }
          }
        }
        --working;
      },
      &threads);
  std::vector<Replica> replicas(2);
  for (int i = 0; working > 0; ++i) {
    replicas[0].TakeOne(&tracker, consumers[0], i % 2 == 0);
    if (i % 8 == 0) replicas[1].TakeOne(&tracker, consumers[1], i % 16 == 0);
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t c = 0; c < replicas.size(); ++c) {
    replicas[c].TakeOne(&tracker, consumers[c], false);
    EXPECT_EQ(replicas[c].marks().size(), kThreads * kIdsEach + 3);
    for (const auto& [id, kind] : replicas[c].marks()) {
      const bool upserted = id < 0 || upserted_last(id);
      EXPECT_EQ(kind, upserted ? Kind::kUpserted : Kind::kErased) << id;
    }
  }
}

}  // namespace
}  // namespace ckptdb::testing
