// SPDX-License-Identifier: Apache-2.0
// Stores that are shipped and fetched have the same steps, byte by byte.
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "db/reader.h"
#include "db/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/remote_store.h"
#include "remote/sync/catalog_steps.h"
#include "schema/bytes/page.h"
#include "schema/records/records.h"
#include "schema/records/remote.h"
#include "schema/status.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/remote_steps.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/sample_store.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

class PushFetchTest : public ::testing::Test {
 protected:
  std::string path() const { return dir_.path() + "/store"; }
  std::string fetched() const { return dir_.path() + "/fetched"; }

  void MakeSample() { ASSERT_OK_AND_ASSIGN(store_, MakeSampleStore(path())); }
  void MakeDeltas() { ASSERT_OK_AND_ASSIGN(store_, MakeDeltaStore(path())); }

  PushResult Push(const PushOptions& options = {}) {
    const auto pushed = PushStore(path(), &remote_, options);
    EXPECT_OK(pushed);
    return pushed.value_or(PushResult());
  }
  FetchResult Fetch(const FetchOptions& options = {}) {
    const auto fetch = FetchStore(&remote_, fetched(), options);
    EXPECT_OK(fetch);
    EXPECT_FALSE(fs::exists(fetched() + ".unfinished"));
    return fetch.value_or(FetchResult());
  }

  // Digests of records cover all bytes, which Verify compares with them.
  static void ExpectSameStep(const Reader& expected, Reader* reader,
                             int64_t step) {
    SCOPED_TRACE(step);
    ASSERT_OK_AND_ASSIGN(const StepRecord want, expected.FindStep(step));
    ASSERT_OK_AND_ASSIGN(const StepRecord got, reader->FindStep(step));
    // Compares bytes, as metrics may be NaN.
    EXPECT_EQ(EncodeStepRecord(got).value(), EncodeStepRecord(want).value());
    ASSERT_OK_AND_ASSIGN(const auto want_ranks, expected.FindRanks(step));
    ASSERT_OK_AND_ASSIGN(const auto got_ranks, reader->FindRanks(step));
    EXPECT_EQ(got_ranks, want_ranks);
    ASSERT_OK_AND_ASSIGN(const auto opened, reader->OpenStep(step));
    EXPECT_OK(opened->Verify());
  }
  void ExpectSameSteps(const std::vector<int64_t>& steps) const {
    ASSERT_OK_AND_ASSIGN(const auto expected, Reader::Open(path()));
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(fetched()));
    EXPECT_EQ(reader->uuid(), expected->uuid());
    EXPECT_EQ(reader->user_metadata(), expected->user_metadata());
    std::vector<int64_t> found;
    for (const StepRecord& record : reader->Steps()) {
      found.push_back(record.version.step);
    }
    EXPECT_EQ(found, steps);
    for (const int64_t step : steps) {
      ExpectSameStep(*expected, reader.get(), step);
    }
  }
  std::vector<int64_t> RemoteSteps() { return StepsOfRemote(&remote_); }
  absl::Status SaveSmall(int64_t step) {
    RankState state;
    state.AddTensor("w", TensorView::Of(small_.data(), {2}));
    return store_->Save({.step = step}, state).status();
  }

  // Saves a step on top of the newest one, and removes the others.
  static absl::Status SaveOnly(Store* store, int64_t step, float value) {
    const std::vector<float> values = {value, value};
    RankState state;
    state.AddTensor("w", TensorView::Of(values.data(), {2}));
    const std::vector<StepRecord> before = store->Steps();
    CKPTDB_RETURN_IF_ERROR(store->Save({.step = step}, state).status());
    for (const StepRecord& record : before) {
      CKPTDB_RETURN_IF_ERROR(store->Delete(record.version.step));
    }
    return store->Sweep().status();
  }
  void ExpectRefusedAfterSaving(int64_t step, const std::string& path,
                                Store* store) {
    SCOPED_TRACE(step);
    ASSERT_OK(SaveOnly(store, step, 2));
    EXPECT_THAT(PushStore(path, &remote_), FailedPrecondition("--take-over"));
  }

  void ChangeCatalog(
      const std::function<void(internal::RemoteCatalog*)>& change) {
    const auto newest = remote_.objects().lower_bound("catalog/");
    ASSERT_OK_AND_ASSIGN(auto catalog,
                         internal::DecodeRemoteCatalog(newest->second.bytes));
    change(&catalog);
    ASSERT_OK_AND_ASSIGN(newest->second.bytes,
                         internal::EncodeRemoteCatalog(catalog));
  }
  // Removes the names of all data objects from a version object.
  void RemoveFiles(internal::RemoteEntry* entry) {
    std::string& object =
        remote_
            .objects()[VersionObjectKey(internal::NameOfVersionObject(*entry))]
            .bytes;
    ASSERT_OK_AND_ASSIGN(auto version, internal::DecodeRemoteVersion(object));
    version.files.clear();
    ASSERT_OK_AND_ASSIGN(object, internal::EncodeRemoteVersion(version));
    entry->object_bytes = object.size();
    entry->object_hash = HashBytes(object);
  }
  // Replaces the first data object, and its size and hash in the records.
  void ReplaceData(const std::string& bytes, internal::RemoteEntry* entry) {
    std::string& object =
        remote_
            .objects()[VersionObjectKey(internal::NameOfVersionObject(*entry))]
            .bytes;
    ASSERT_OK_AND_ASSIGN(auto version, internal::DecodeRemoteVersion(object));
    version.files.at(0).bytes = bytes.size();
    version.files.at(0).hash = HashBytes(bytes);
    remote_
        .objects()[internal::DataObjectKey(
            {entry->epoch, entry->version, version.files[0].number})]
        .bytes = bytes;
    ASSERT_OK_AND_ASSIGN(object, internal::EncodeRemoteVersion(version));
    entry->object_bytes = object.size();
    entry->object_hash = HashBytes(object);
  }

  TempDir dir_;
  const std::vector<float> small_ = {1, 2};
  std::unique_ptr<Store> store_;
  MemoryStore remote_;
};

// The owner has the store open all the time.
TEST_F(PushFetchTest, BringsAllSteps) {
  MakeSample();
  const PushResult pushed = Push();
  EXPECT_THAT(pushed.shipped, ElementsAre(100, 200, 300));
  EXPECT_THAT(pushed.skipped, IsEmpty());
  EXPECT_GT(pushed.data_bytes, 9 << 20);
  EXPECT_EQ(RemoteSteps(), pushed.shipped);
  const FetchResult all = Fetch({.all = true});
  EXPECT_EQ(all.steps, pushed.shipped);
  EXPECT_EQ(all.data_bytes, pushed.data_bytes);
  ExpectSameSteps({100, 200, 300});
}

TEST_F(PushFetchTest, BringsTheNewestStepWithItsChain) {
  MakeDeltas();
  Push();
  EXPECT_THAT(Fetch().steps, ElementsAre(400));
  ExpectSameSteps({400});
}

TEST_F(PushFetchTest, BringsTheStepThatIsNamed) {
  MakeDeltas();
  Push();
  EXPECT_THAT(Fetch({.step = 200}).steps, ElementsAre(200));
  ExpectSameSteps({200});
  EXPECT_THAT(FetchStore(&remote_, dir_.path() + "/x", {.step = 250}),
              NotFound("no step 250"));
  EXPECT_THAT(
      FetchStore(&remote_, dir_.path() + "/x", {.step = 200, .all = true}),
      InvalidArgument("step", "all"));
  EXPECT_FALSE(fs::exists(dir_.path() + "/x"));
  EXPECT_THAT(FetchStore(&remote_, fetched()), AlreadyExists(fetched()));
}

TEST_F(PushFetchTest, BringsDataFilesOfAChain) {
  ASSERT_OK_AND_ASSIGN(store_, MakeBigDeltaStore(path()));
  Push();
  Fetch();
  ExpectSameSteps({200});
}

// A trainer continues the fetched store, and ships to the same remote.
TEST_F(PushFetchTest, FetchedStoreGoesOn) {
  MakeDeltas();
  const PushResult first = Push();
  Fetch();
  ASSERT_OK_AND_ASSIGN(store_, Store::Open(fetched()));
  ASSERT_OK(SaveSmall(500));
  ASSERT_OK_AND_ASSIGN(const PushResult pushed, PushStore(fetched(), &remote_));
  EXPECT_THAT(pushed.shipped, ElementsAre(500));
  EXPECT_EQ(pushed.epoch, first.epoch + 1);
  EXPECT_THAT(RemoteSteps(), ElementsAre(100, 200, 300, 400, 500));
  ASSERT_OK_AND_ASSIGN(const VerifyRemoteResult verified,
                       VerifyRemote(&remote_, {.data = true}));
  EXPECT_THAT(verified.damage, IsEmpty());
}

TEST_F(PushFetchTest, ShipsOnlyWhatIsNew) {
  MakeSample();
  Push();
  remote_.calls().clear();
  EXPECT_THAT(Push().shipped, IsEmpty());
  EXPECT_EQ(remote_.calls()["put"], 0);
  EXPECT_EQ(remote_.calls()["list"], 1);
  ASSERT_OK(SaveSmall(400));
  const PushResult pushed = Push();
  EXPECT_THAT(pushed.shipped, ElementsAre(400));
  EXPECT_EQ(pushed.data_bytes, 0);  // all is inline
}

// The requests of a step, besides those of becoming the owner.
TEST_F(PushFetchTest, ADeltaTakesFewRequests) {
  MakeSample();
  Push();
  ASSERT_OK(SaveSmall(400));
  ASSERT_OK(SaveSmall(500));
  remote_.calls().clear();
  EXPECT_THAT(Push().shipped, ElementsAre(400, 500));
  EXPECT_EQ(remote_.calls()["put versions"], 2);
  EXPECT_EQ(remote_.calls()["put catalog"], 3);
  EXPECT_EQ(remote_.calls()["head catalog"], 2);
  EXPECT_EQ(remote_.calls()["list catalog"], 2);
}

TEST_F(PushFetchTest, ShipsChangedMetricsAndPins) {
  MakeSample();
  const PushResult first = Push();
  ASSERT_OK(store_->AddMetrics(100, {{"auc", 0.875}}));
  ASSERT_OK(store_->Pin(100));
  const PushResult second = Push();
  EXPECT_THAT(second.shipped, ElementsAre(100));
  EXPECT_EQ(second.data_files, 0);
  EXPECT_GT(second.catalog, first.catalog);
  Fetch({.all = true});
  ExpectSameSteps({100, 200, 300});
}

TEST_F(PushFetchTest, ShipsFoldsAndTheirIncrements) {
  ASSERT_OK_AND_ASSIGN(store_, MakeBigDeltaStore(path()));
  Push();
  ASSERT_OK(store_->Fold(200).status());
  EXPECT_THAT(Push().shipped, ElementsAre(200));
  EXPECT_THAT(RemoteSteps(), ElementsAre(50, 100, 200));
  Fetch({.all = true});
  ExpectSameSteps({50, 100, 200});
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(fetched()));
  ASSERT_OK_AND_ASSIGN(const StepRecord from, reader->FindStep(100));
  ASSERT_OK_AND_ASSIGN(const auto changes,
                       reader->OpenChanges(from.version, 200));
  EXPECT_TRUE(changes->forwards());
}

// Chains need versions whose steps were removed, and of which only parts are
// left.
TEST_F(PushFetchTest, ShipsVersionsThatAreNoLongerSteps) {
  ASSERT_OK_AND_ASSIGN(store_, MakeBigDeltaStore(path()));
  ASSERT_OK(store_->Delete(100));
  ASSERT_OK(store_->Sweep().status());
  EXPECT_THAT(Push().shipped, ElementsAre(50, 200));
  Fetch({.all = true});
  ExpectSameSteps({50, 200});
}

TEST_F(PushFetchTest, StepsRemovedFromTheStoreStayInTheRemote) {
  MakeSample();
  Push();
  ASSERT_OK(store_->Delete(100));
  ASSERT_OK(store_->Sweep().status());
  ASSERT_OK(SaveSmall(400));
  Push();
  EXPECT_THAT(RemoteSteps(), ElementsAre(100, 200, 300, 400));
  EXPECT_THAT(Fetch({.step = 100}).steps, ElementsAre(100));
}

TEST_F(PushFetchTest, AnOverwrittenStepIsReplaced) {
  MakeSample();
  Push();
  RankState state;
  state.AddTensor("w", TensorView::Of(small_.data(), {2}));
  ASSERT_OK(store_->Save({.step = 300, .overwrite = true}, state).status());
  EXPECT_THAT(Push().shipped, ElementsAre(300));
  EXPECT_THAT(RemoteSteps(), ElementsAre(100, 200, 300));
  Fetch({.step = 300});
  ExpectSameSteps({300});
}

// Each point may be the last of a process.
TEST_F(PushFetchTest, EachPointLeavesWholeSteps) {
  ASSERT_OK_AND_ASSIGN(store_, MakeBigDeltaStore(path()));
  for (const absl::string_view crash : kShipPoints) {
    for (int nth = 1; nth <= 3; ++nth) {
      SCOPED_TRACE(absl::StrCat(crash, " ", nth));
      remote_.objects().clear();
      PushOptions options;
      options.on_point = [&, left = nth](absl::string_view point) mutable {
        if (point == crash && --left == 0) throw std::runtime_error("killed");
      };
      const bool once = crash == point::kShipOwned && nth > 1;
      const auto killed = PushStore(path(), &remote_, options);
      if (once) continue;
      EXPECT_THAT(killed, Internal("killed"));
      ASSERT_OK_AND_ASSIGN(const VerifyRemoteResult verified,
                           VerifyRemote(&remote_, {.data = true}));
      EXPECT_THAT(verified.damage, IsEmpty());
      const size_t whole = crash == point::kShipCommitted ? nth : nth - 1;
      EXPECT_EQ(verified.steps, crash == point::kShipOwned ? 0 : whole);
      Push();
      EXPECT_THAT(RemoteSteps(), ElementsAre(50, 100, 200));
      fs::remove_all(fetched());
      Fetch({.all = true});
      ExpectSameSteps({50, 100, 200});
    }
  }
}

// A range that fails ends the fetch; the files that are complete by then are
// not read again.
TEST_F(PushFetchTest, FetchContinuesWithWhatAnEarlierOneDownloaded) {
  ASSERT_OK_AND_ASSIGN(store_, MakeBigDeltaStore(path()));
  ASSERT_GT(Push().data_files, 0);
  int reads = 0;
  remote_.set_before([&](absl::string_view call, absl::string_view key) {
    const bool fails =
        call == "get" && absl::StartsWith(key, "data/") && ++reads == 2;
    return fails ? absl::UnavailableError("cut") : absl::OkStatus();
  });
  EXPECT_THAT(FetchStore(&remote_, fetched(), {.all = true}),
              Unavailable("cut"));
  EXPECT_FALSE(fs::exists(fetched()));
  for (const auto& [key, object] : remote_.objects()) {
    if (!absl::StartsWith(key, "data/")) continue;
    const std::string name = absl::StrReplaceAll(key, {{"/", "-"}});
    std::ofstream(fetched() + ".unfinished/files/" + name + ".sst",
                  std::ios::binary)
        << object.bytes;
  }
  reads = 2;
  EXPECT_EQ(Fetch({.all = true}).data_files, 0);
  EXPECT_EQ(reads, 2);
  ExpectSameSteps({50, 100, 200});
}

TEST_F(PushFetchTest, DamageIsFound) {
  ASSERT_OK_AND_ASSIGN(store_, MakeBigDeltaStore(path()));
  Push();
  const auto sound = remote_.objects();
  for (const auto& [key, object] : sound) {
    if (key == "format") continue;
    SCOPED_TRACE(key);
    remote_.objects() = sound;
    std::string& bytes = remote_.objects()[key].bytes;
    bytes[bytes.size() / 2] ^= 1;
    const auto newest = remote_.objects().lower_bound("catalog/");
    if (absl::StartsWith(key, "catalog/") && key != newest->first) continue;
    EXPECT_THAT(FetchStore(&remote_, fetched(), {.all = true}), DataLoss(key));
    EXPECT_FALSE(fs::exists(fetched()));
    const auto verified = VerifyRemote(&remote_, {.data = true});
    if (absl::StartsWith(key, "catalog/")) {
      EXPECT_THAT(verified, DataLoss(key));
      continue;
    }
    ASSERT_OK(verified);
    ASSERT_THAT(verified->damage, SizeIs(1));
    EXPECT_EQ(verified->damage[0].key, key);
    EXPECT_THAT(verified->damage[0].steps, Not(IsEmpty()));
    remote_.objects().erase(key);
    EXPECT_THAT(FetchStore(&remote_, fetched(), {.all = true}), DataLoss(key));
    ASSERT_OK_AND_ASSIGN(const auto missing, VerifyRemote(&remote_));
    ASSERT_THAT(missing.damage, SizeIs(1));
    EXPECT_EQ(missing.damage[0].problem, "it is missing");
  }
  remote_.objects() = sound;
  Fetch({.all = true});
  ExpectSameSteps({50, 100, 200});
}

// Hashes do not help against one who may write to the service; what is read is
// checked all the same.
TEST_F(PushFetchTest, RefusesRecordsOfAnotherVersion) {
  MakeDeltas();
  Push();
  ChangeCatalog([&](internal::RemoteCatalog* catalog) {
    internal::RemoteEntry& one = catalog->entries[0];
    internal::RemoteEntry& two = catalog->entries[1];
    const auto key = [](const internal::RemoteEntry& entry) {
      return VersionObjectKey(internal::NameOfVersionObject(entry));
    };
    std::swap(remote_.objects()[key(one)], remote_.objects()[key(two)]);
    std::swap(one.object_bytes, two.object_bytes);
    std::swap(one.object_hash, two.object_hash);
  });
  EXPECT_THAT(FetchStore(&remote_, fetched(), {.all = true}),
              DataLoss("the records of step 100", "name step 200"));
  EXPECT_FALSE(fs::exists(fetched()));
  ASSERT_OK_AND_ASSIGN(const VerifyRemoteResult verified,
                       VerifyRemote(&remote_));
  EXPECT_THAT(verified.damage, SizeIs(2));
}

TEST_F(PushFetchTest, RefusesDataOfAnotherVersion) {
  MakeSample();
  Push();
  std::string other;
  for (const auto& [key, object] : remote_.objects()) {
    if (absl::StartsWith(key, "data/")) other = object.bytes;
  }
  remote_.objects().clear();
  store_.reset();
  fs::remove_all(path());
  ASSERT_OK_AND_ASSIGN(store_, MakeBigDeltaStore(path()));
  Push();
  ChangeCatalog([&](internal::RemoteCatalog* catalog) {
    for (internal::RemoteEntry& entry : catalog->entries) {
      if (entry.data_files > 0) ReplaceData(other, &entry);
    }
  });
  EXPECT_THAT(FetchStore(&remote_, fetched(), {.all = true}),
              DataLoss("a data file has entries", "step 200"));
  EXPECT_FALSE(fs::exists(fetched()));
}

// Older libraries could ship such a step when they took over a remote.
TEST_F(PushFetchTest, VerifyFindsAStepWithoutSomeOfItsFiles) {
  MakeSample();
  Push();
  ChangeCatalog([&](internal::RemoteCatalog* catalog) {
    for (internal::RemoteEntry& entry : catalog->entries) {
      if (entry.data_files > 0) RemoveFiles(&entry);
    }
  });
  ASSERT_OK_AND_ASSIGN(const VerifyRemoteResult verified,
                       VerifyRemote(&remote_));
  ASSERT_THAT(verified.damage, SizeIs(1));
  EXPECT_THAT(verified.damage[0].key, HasSubstr("versions/"));
  EXPECT_THAT(verified.damage[0].problem, HasSubstr("no data object with"));
}

// Other steps are shipped.
TEST_F(PushFetchTest, SkipsStepsThatAreDamaged) {
  MakeSample();
  store_.reset();
  std::vector<fs::path> tables;
  for (const auto& entry : fs::directory_iterator(path() + "/db")) {
    if (entry.path().extension() == ".sst" && entry.file_size() > 1 << 20) {
      tables.push_back(entry.path());
    }
  }
  ASSERT_FALSE(tables.empty());
  const auto expect_skipped = [&] {
    const PushResult pushed = Push();
    ASSERT_THAT(pushed.skipped, SizeIs(1));
    EXPECT_EQ(pushed.skipped[0].first, 200);
    EXPECT_THAT(pushed.skipped[0].second, HasSubstr(".sst"));
    EXPECT_THAT(RemoteSteps(), ElementsAre(100, 300));
  };
  for (const fs::path& table : tables) {
    std::fstream file(table, std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(fs::file_size(table) / 2);
    file.seekg(middle);
    const int byte = file.get();
    file.seekp(middle).put(static_cast<char>(byte ^ 1));
  }
  expect_skipped();
  for (const fs::path& table : tables) fs::remove(table);
  expect_skipped();
}

TEST_F(PushFetchTest, NothingIsFetchedFromNothing) {
  EXPECT_THAT(FetchStore(&remote_, fetched()), NotFound("nothing was shipped"));
  EXPECT_THAT(ListRemote(&remote_), NotFound("nothing was shipped"));
  EXPECT_THAT(VerifyRemote(&remote_), NotFound("nothing was shipped"));
  EXPECT_THAT(CollectRemote(&remote_), NotFound("nothing was shipped"));
  EXPECT_THAT(PushStore(path(), &remote_), NotFound(path()));
  EXPECT_THAT(remote_.objects(), IsEmpty());
}

TEST_F(PushFetchTest, AFolderOfTheUserIsNotTakenForAnInterruptedFetch) {
  MakeSample();
  Push();
  const std::string file = fetched() + ".unfinished/mine";
  fs::create_directories(fetched() + ".unfinished/files");
  std::ofstream(file) << "x";
  for (const bool update : {false, true}) {
    FetchOptions options;
    options.update = update;
    EXPECT_THAT(FetchStore(&remote_, fetched(), options),
                FailedPrecondition(file, "move it away"));
  }
  EXPECT_TRUE(fs::exists(file));
  fs::remove(file);
  Fetch();
}

// An object that was made larger is not read into memory.
TEST_F(PushFetchTest, NamesACatalogThatIsTooLarge) {
  MakeSample();
  Push();
  remote_.set_before([&](absl::string_view call, absl::string_view key) {
    EXPECT_FALSE(call == "get" && absl::StartsWith(key, "catalog/")) << key;
    return absl::OkStatus();
  });
  remote_.set_listed_bytes(uint64_t{1} << 40);
  EXPECT_THAT(ListRemote(&remote_), DataLoss("1099511627776 bytes; the limit"));
}

TEST_F(PushFetchTest, LeavesNoLease) {
  MakeSample();
  Push();
  EXPECT_TRUE(fs::is_empty(path() + "/leases"));
}

TEST_F(PushFetchTest, AReturningDiskDoesNotReplaceStepsShippedSince) {
  ASSERT_OK_AND_ASSIGN(store_, Store::Open(path()));
  ASSERT_OK(SaveSmall(10));
  Push();
  Fetch();
  {
    ASSERT_OK_AND_ASSIGN(const auto moved, Store::Open(fetched()));
    for (const int64_t step : {20, 30, 40}) {
      ASSERT_OK(SaveOnly(moved.get(), step, 1));
      ASSERT_OK(PushStore(fetched(), &remote_));
    }
  }
  for (int64_t step = 15; step < 100; step += 5) {
    ExpectRefusedAfterSaving(step, path(), store_.get());
  }
  EXPECT_THAT(RemoteSteps(), ElementsAre(10, 20, 30, 40));
  // The copy that ships may skip steps: it removed 50 and 60 before this push.
  ASSERT_OK_AND_ASSIGN(const auto moved, Store::Open(fetched()));
  for (const int64_t step : {50, 60, 70}) {
    ASSERT_OK(SaveOnly(moved.get(), step, 1));
  }
  ASSERT_OK(PushStore(fetched(), &remote_));
  EXPECT_THAT(RemoteSteps(), ElementsAre(10, 20, 30, 40, 70));
}

// All files of a store were copied while its owner ran. The copy then saves
// steps until it has none of the shipped attempts.
TEST_F(PushFetchTest, ASnapshotOfTheDiskDoesNotReplaceStepsShippedSince) {
  ASSERT_OK_AND_ASSIGN(store_, Store::Open(path()));
  ASSERT_OK(SaveSmall(10));
  Push();
  fs::copy(path(), fetched(), fs::copy_options::recursive);
  for (const int64_t step : {20, 30, 40}) {
    ASSERT_OK(SaveSmall(step));
    Push();
  }
  ASSERT_OK_AND_ASSIGN(const auto snapshot, Store::Open(fetched()));
  for (int64_t step = 20; step < 200; step += 10) {
    ExpectRefusedAfterSaving(step, fetched(), snapshot.get());
  }
  EXPECT_THAT(RemoteSteps(), ElementsAre(10, 20, 30, 40));
  PushOptions options;
  options.take_over = true;
  ASSERT_OK(PushStore(fetched(), &remote_, options));
  EXPECT_THAT(RemoteSteps(), ElementsAre(190));
}

}  // namespace
}  // namespace ckptdb::testing
