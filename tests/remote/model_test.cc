// SPDX-License-Identifier: Apache-2.0
// Two owners with copies of a store, a collector and a reader share a remote.
// Their calls are interleaved in random orders; any of them may stall for
// longer than the collector waits, and calls fail before or after they take
// effect. After each change the newest catalog has all its objects, no step
// that was shipped is lost, and readers find what they look for.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/layout/object_keys.h"
#include "remote/remote_store.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/catalog_steps.h"
#include "remote/sync/shipper.h"
#include "remote/sync/version_object.h"
#include "schema/bytes/page.h"
#include "tests/remote/fake_source.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/turns.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

using internal::IsStep;
using internal::RemoteCatalog;
using internal::RemoteEntry;
using internal::RemoteFile;
using internal::RemoteVersion;

constexpr absl::Duration kTurn = absl::Minutes(1);
constexpr absl::Duration kGrace = absl::Minutes(150);
constexpr int kRounds = 12;  // of an owner

enum ActorId { kOwnerA, kOwnerB, kCollector, kReader, kActors };

bool Forgot(const RemoteCatalog& catalog, const Version& state) {
  return std::find(catalog.forgotten.begin(), catalog.forgotten.end(), state) !=
         catalog.forgotten.end();
}

std::string Describe(const RemoteCatalog& catalog) {
  std::string text = absl::StrCat("\ncatalog ", catalog.number, " epoch ",
                                  catalog.epoch, " ", catalog.owner);
  for (const RemoteEntry& entry : catalog.entries) {
    absl::StrAppend(&text, "\n  ", ToString(entry.version), " epoch ",
                    entry.epoch, " use ", static_cast<int>(entry.use),
                    " lineage ", entry.lineage, " needs ", entry.needs.size());
  }
  for (const Version& state : catalog.forgotten) {
    absl::StrAppend(&text, "\n  forgot ", ToString(state));
  }
  return text;
}

// The remote, and what is true of it.
class Model {
 public:
  explicit Model(uint64_t seed)
      : turns_(seed, kActors, [this](uint64_t turn) {
          remote_.set_now(absl::FromUnixSeconds(1'000'000'000) +
                          static_cast<int64_t>(turn) * kTurn);
        }) {
    remote_.set_names_as_files(true);
  }

  MemoryStore& remote() { return remote_; }
  Turns& turns() { return turns_; }

  // Called after each put or deletion that took effect.
  void CheckChange(absl::string_view key, bool is_new) {
    const bool is_catalog = absl::StartsWith(key, internal::kCatalogPrefix);
    if (is_catalog && is_new) NoteCatalog(std::string(key));
    if (is_catalog || !is_new) CheckObjects();
  }

  // Whether a catalog of the history has this step.
  bool Committed(uint64_t epoch, const StepRecord& record) const {
    return std::any_of(
        history_.begin(), history_.end(), [&](const RemoteCatalog& catalog) {
          const RemoteEntry* const entry =
              internal::FindStepEntry(catalog, record.version.step);
          return catalog.epoch == epoch && entry != nullptr &&
                 entry->version == record.version &&
                 entry->lineage == LineageDigest(record);
        });
  }
  const std::vector<RemoteCatalog>& history() const { return history_; }
  void OwnerFinishes() { --owners_; }
  bool HasOwners() const { return owners_ > 0; }

 private:
  // Catalogs put in place of deleted ones are not part of the history.
  void NoteCatalog(const std::string& key) {
    const auto catalog =
        internal::DecodeRemoteCatalog(remote_.objects().at(key).bytes);
    ASSERT_OK(catalog);
    if (catalog->number <= history_.size()) return;
    ASSERT_EQ(catalog->number, history_.size() + 1);
    if (!history_.empty()) CheckSuccessor(history_.back(), *catalog);
    history_.push_back(*catalog);
  }

  static void CheckSuccessor(const RemoteCatalog& before,
                             const RemoteCatalog& next) {
    EXPECT_EQ(next.epoch, before.epoch + (next.owner != before.owner ? 1 : 0));
    EXPECT_GE(next.horizon_micros, before.horizon_micros);
    EXPECT_GE(next.root.next_attempt, before.root.next_attempt);
    for (const RemoteEntry& step : before.entries) {
      if (!IsStep(step) || next.owner != before.owner) continue;
      EXPECT_TRUE(internal::FindStepEntry(next, step.version.step) != nullptr ||
                  Forgot(next, step.state))
          << "step " << step.version.step << " was lost: " << Describe(before)
          << Describe(next);
    }
  }

  void CheckObjects() {
    if (history_.empty()) return;
    const RemoteCatalog& newest = history_.back();
    ASSERT_EQ(remote_.objects().lower_bound("catalog/")->first,
              internal::CatalogKey(newest.number));
    ASSERT_OK_AND_ASSIGN(
        const std::vector<RemoteEntry> needed,
        internal::NeededEntries(newest, internal::StepsByAge(newest)));
    for (const RemoteEntry& entry : needed) CheckEntry(entry);
  }

  void CheckEntry(const RemoteEntry& entry) {
    const std::string key =
        VersionObjectKey(internal::NameOfVersionObject(entry));
    ASSERT_TRUE(remote_.objects().contains(key)) << key;
    const std::string& bytes = remote_.objects().at(key).bytes;
    ASSERT_EQ(HashBytes(bytes), entry.object_hash) << key;
    ASSERT_OK_AND_ASSIGN(const RemoteVersion version,
                         internal::DecodeRemoteVersion(bytes));
    for (const RemoteFile& file : version.files) {
      const std::string data =
          internal::DataObjectKey({entry.epoch, entry.version, file.number});
      ASSERT_TRUE(remote_.objects().contains(data)) << data;
      ASSERT_EQ(HashBytes(remote_.objects().at(data).bytes), file.hash);
    }
  }

  MemoryStore remote_;
  Turns turns_;
  std::vector<RemoteCatalog> history_;
  std::atomic<int> owners_ = 2;
};

// The remote as one actor uses it: each call is a turn, and may fail.
class ActorStore : public ObjectStore {
 public:
  ActorStore(Model* model, int actor) : model_(model), actor_(actor) {}

  std::string Name() const override { return "memory://remote"; }
  absl::Status PutIfAbsent(absl::string_view key, absl::string_view bytes,
                           absl::string_view token) override {
    return Change(key, [&] { return store().PutIfAbsent(key, bytes, token); });
  }
  absl::Status PutFileIfAbsent(absl::string_view key, const std::string& path,
                               absl::string_view token) override {
    return PutIfAbsent(key, path, token);
  }
  absl::Status Get(absl::string_view key, uint64_t offset,
                   absl::Span<char> out) override {
    if (Turn()) return Fault();
    return store().Get(key, offset, out);
  }
  absl::StatusOr<ObjectInfo> Head(absl::string_view key) override {
    if (Turn()) return Fault();
    return store().Head(key);
  }
  absl::StatusOr<std::vector<ObjectInfo>> List(absl::string_view prefix,
                                               absl::string_view after,
                                               uint64_t limit) override {
    if (Turn()) return Fault();
    return store().List(prefix, after, limit);
  }
  absl::Status Delete(absl::string_view key) override {
    return Change(key, [&] { return store().Delete(key); });
  }
  absl::Status AbortUploads(absl::string_view, absl::Time) override {
    return absl::OkStatus();
  }

 private:
  static constexpr uint64_t kFaultOneIn = 150;

  MemoryStore& store() { return model_->remote(); }
  static absl::Status Fault() { return absl::UnavailableError("a fault"); }
  // Waits for a turn, and returns whether the call fails.
  bool Turn() {
    model_->turns().Wait(actor_);
    return model_->turns().OneIn(kFaultOneIn);
  }
  template <typename Call>
  absl::Status Change(absl::string_view key, const Call& call) {
    if (Turn()) return Fault();
    const bool existed = store().objects().contains(std::string(key));
    absl::Status status = call();
    const bool exists = store().objects().contains(std::string(key));
    if (existed != exists) model_->CheckChange(key, exists);
    return model_->turns().OneIn(kFaultOneIn) ? Fault() : status;
  }

  Model* const model_;
  const int actor_;
};

// Saves, changes and removes steps of its copy, and pushes it.
void RunOwner(Model* model, int actor, uint64_t seed, FakeSource source,
              int* pushed) {
  std::mt19937_64 random(seed);
  ActorStore remote(model, actor);
  bool refused = false;
  PushOptions options;
  internal::Shipper shipper(&remote, &options);
  for (int i = 0; i < kRounds; ++i) {
    source.Save(random() % 3 == 0, random());
    const std::vector<StepRecord> steps = source.Steps();
    const int64_t step = steps[random() % steps.size()].version.step;
    if (random() % 3 == 0) source.SetMetric(step, static_cast<double>(i));
    if (random() % 3 == 0 && step != steps.back().version.step) {
      source.Retire(step);
    }
    options.take_over = refused && random() % 2 == 0;
    const auto result = shipper.Push(source);
    refused = absl::IsFailedPrecondition(result.status());
    if (!result.ok()) {
      EXPECT_THAT(result, AnyOf(Aborted(), Unavailable(),
                                FailedPrecondition("--take-over"),
                                DataLoss("is missing")))
          << actor << Describe(model->history().back());
      continue;
    }
    ++*pushed;
    for (const int64_t shipped : result->shipped) {
      for (const StepRecord& record : source.Steps()) {
        if (record.version.step != shipped) continue;
        EXPECT_TRUE(model->Committed(result->epoch, record)) << shipped;
      }
    }
  }
  model->OwnerFinishes();
  model->turns().Finish(actor);
}

void RunCollector(Model* model, uint64_t seed, int* collected) {
  std::mt19937_64 random(seed);
  ActorStore remote(model, kCollector);
  while (model->HasOwners()) {
    CollectOptions options;
    options.keep = 2 + random() % 3;
    options.grace = kGrace;
    const auto result = CollectRemote(&remote, options);
    EXPECT_TRUE(result.ok() || absl::IsAborted(result.status()) ||
                absl::IsNotFound(result.status()) ||
                absl::IsUnavailable(result.status()))
        << result.status();
    if (result.ok() && result->deleted_objects > 0) ++*collected;
  }
  model->turns().Finish(kCollector);
}

// Reads all objects that a catalog names. A collector may not delete them until
// the grace has passed, except records that were replaced.
void ReadAll(Model* model, ActorStore* remote, const RemoteCatalog& catalog,
             uint64_t begin) {
  for (const RemoteEntry& entry : catalog.entries) {
    if (entry.use == RemoteEntry::Use::kDropped) continue;
    const auto version = internal::ReadVersionObject(remote, entry);
    const RemoteEntry* const now =
        internal::FindEntry(model->history().back(), entry.version);
    const bool replaced = now != nullptr && now->epoch == entry.epoch &&
                          now->revision != entry.revision;
    const uint64_t turns = model->turns().turn() - begin;
    if (static_cast<int64_t>(turns) * kTurn > kGrace) return;
    EXPECT_TRUE(version.ok() || replaced ||
                absl::IsUnavailable(version.status()))
        << version.status();
  }
}

void RunReader(Model* model) {
  ActorStore remote(model, kReader);
  while (model->HasOwners()) {
    // The reader may stall between the list and the get of the catalog.
    const uint64_t begin = model->turns().turn();
    const auto catalog = internal::NewestCatalog(&remote);
    if (!catalog.ok() || !catalog->has_value()) continue;
    ReadAll(model, &remote, **catalog, begin);
  }
  model->turns().Finish(kReader);
}

struct Totals {
  int pushed = 0;
  int collected = 0;
};

void RunModel(uint64_t seed, Totals* totals) {
  Model model(seed);
  FakeSource source("store-1");
  source.Save(true, 1);
  source.Save(false, 2);
  int pushed_a = 0;
  int pushed_b = 0;
  int collected = 0;
  std::vector<std::thread> threads;
  threads.emplace_back(
      [&] { RunOwner(&model, kOwnerA, seed + 1, source, &pushed_a); });
  threads.emplace_back(
      [&] { RunOwner(&model, kOwnerB, seed + 2, source, &pushed_b); });
  threads.emplace_back([&] { RunCollector(&model, seed + 3, &collected); });
  threads.emplace_back([&] { RunReader(&model); });
  for (std::thread& thread : threads) thread.join();
  totals->pushed += pushed_a + pushed_b;
  totals->collected += collected;
  ASSERT_OK_AND_ASSIGN(const VerifyRemoteResult verified,
                       VerifyRemote(&model.remote(), {.data = true}));
  EXPECT_THAT(verified.damage, IsEmpty());
}

// A run is repeated with CKPTDB_SEED.
TEST(RemoteModelTest, StepsAreNeverLost) {
  constexpr int kRuns = 40;
  Totals totals;
  for (int i = 0; i < kRuns && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("run ", i));
    RunModel(TestSeed() + i * uint64_t{1'000'003}, &totals);
  }
  // The runs do what they are about.
  EXPECT_GT(totals.pushed, kRuns * 2);
  EXPECT_GT(totals.collected, kRuns / 2);
}

}  // namespace
}  // namespace ckptdb::testing
