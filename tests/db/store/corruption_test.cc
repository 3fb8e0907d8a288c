// SPDX-License-Identifier: Apache-2.0
// Every file of a store is damaged: bits flipped, cut at any length, emptied,
// removed. What is read afterwards is right or is DataLoss that names the
// place; no bytes are wrong and no step is missing in silence. And a store
// that does not open stays as it is: with the file put right it opens.

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/db/sim_store.h"

namespace ckptdb::testing {
namespace {

enum class Outcome { kHarmless, kFoundAtOpen, kFoundAtRead };

using Paths = std::vector<std::string>;

constexpr char kDatabase[] = "/store/db";

struct Damage {
  std::string name;
  std::function<bool(SimFileSystem*)> apply;
  Paths paths;  // damaged
};

std::string NameOf(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::map<std::string, size_t> Contents(const SimFileSystem& files) {
  std::map<std::string, size_t> contents;
  for (const SimPathSize& file : files.ListFiles(kDatabase))
    contents[file.path] = std::hash<std::string>()(*files.ReadAll(file.path));
  return contents;
}

// What a store does without.
bool IsHarmless(const std::string& path) {
  const std::string name = NameOf(path);
  return name == "LOCK" || name == "OWNER" || name == "IDENTITY" ||
         name == "WATERMARK" || absl::StartsWith(name, "OPTIONS-") ||
         absl::StrContains(path, "/staging/");
}

class CorruptionTest : public PreparedStoreTest {
 protected:
  // Files up to this size have each byte flipped.
  static constexpr uint64_t kEachByte = 256;
  static constexpr uint64_t kEdge = 64;
  static constexpr int kSamples = 48;
  std::vector<uint64_t> BytesToFlip(const std::string& path, uint64_t size) {
    const bool each =
        size <= kEachByte ||
        (each_manifest_byte_ && absl::StartsWith(NameOf(path), "MANIFEST-"));
    std::set<uint64_t> bytes;
    for (uint64_t at = 0; at < size; ++at) {
      if (each || at < kEdge || at + kEdge >= size) bytes.insert(at);
    }
    for (int i = 0; !each && i < kSamples; ++i) bytes.insert(random_() % size);
    return {bytes.begin(), bytes.end()};
  }
  std::vector<Damage> EveryDamage(const std::string& path, uint64_t size) {
    std::vector<Damage> all;
    all.push_back({"removed",
                   [=](SimFileSystem* files) { return files->Remove(path); },
                   {path}});
    std::set<uint64_t> lengths = {0, 1, size / 4, size / 2, size * 3 / 4};
    for (uint64_t cut = 1; cut <= std::min<uint64_t>(size, 16); ++cut)
      lengths.insert(size - cut);
    for (int i = 0; size > 0 && i < 32; ++i) lengths.insert(random_() % size);
    for (const uint64_t length : lengths) {
      if (length >= size) continue;
      all.push_back({absl::StrCat("cut to ", length, " of ", size),
                     [=](SimFileSystem* files) {
                       return files->TruncateTo(path, length);
                     },
                     {path}});
    }
    for (const uint64_t byte : BytesToFlip(path, size)) {
      const auto bit = static_cast<int>(random_() % 8);
      all.push_back({absl::StrCat("bit ", bit, " of byte ", byte, " of ", size),
                     [=](SimFileSystem* files) {
                       return files->FlipBit(path, byte, bit);
                     },
                     {path}});
    }
    return all;
  }
  // And not another one.
  void ExpectNamesThePlace(const absl::Status& status, const Paths& paths) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    const std::string message(status.message());
    if (!absl::EndsWith(paths[0], ".sst")) {
      EXPECT_THAT(message, AnyOf(HasSubstr("/store"), HasSubstr("step ")));
      return;
    }
    EXPECT_THAT(message, Not(HasSubstr("MANIFEST")));
    const bool named =
        std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
          return absl::StrContains(message, NameOf(path));
        });
    EXPECT_TRUE(named || absl::StrContains(message, "step ")) << message;
  }
  Outcome Open(const Damage& damage) {
    const auto files = CopyOf(*files_);
    Paths whole;
    for (const std::string& path : damage.paths)
      whole.push_back(files->ReadAll(path).value_or(""));
    EXPECT_TRUE(damage.apply(files.get()));
    const auto contents = Contents(*files);
    SimStore sim(files);
    ExpectReaderRight(sim, damage.paths);
    sim.options()->create_if_missing = false;
    const absl::Status opened = sim.Open();
    if (!opened.ok()) {
      ExpectNamesThePlace(opened, damage.paths);
      // Unless all that opening reads is whole, and a compaction found it.
      if (!absl::StrContains(opened.message(), "background work")) {
        EXPECT_EQ(Contents(*files), contents) << opened;
      }
      for (size_t i = 0; i < whole.size(); ++i)
        EXPECT_TRUE(files->WriteAll(damage.paths[i], whole[i]));
      EXPECT_OK(sim.Open()) << "with the files put right";
      if (sim.store() != nullptr) {
        EXPECT_OK(ExpectAcceptable(sim.store(), damage.paths));
      }
      return Outcome::kFoundAtOpen;
    }
    const absl::Status read = ExpectAcceptable(sim.store(), damage.paths);
    return read.ok() ? Outcome::kHarmless : Outcome::kFoundAtRead;
  }
  // A reader of another process, without an owner.
  void ExpectReaderRight(const SimStore& sim, const Paths& paths) {
    StoreOptions options{.environment = sim.environment()};
    const auto reader = Reader::Open(SimStore::kPath, options);
    if (!reader.ok()) return ExpectNamesThePlace(reader.status(), paths);
    ExpectAcceptable(reader->get(), paths).IgnoreError();
  }
  // The model, or damage that was found; by a Store or a Reader.
  template <typename From>
  absl::Status ExpectAcceptable(From* from, const Paths& paths) {
    const std::string outline = Outline(*from);
    const StoreModel* found = &model_;
    for (const StoreModel& other : also_) {
      if (Outline(other) == outline) found = &other;
    }
    EXPECT_EQ(outline, Outline(*found)) << "a step is missing in silence";
    absl::Status read = ReadModel(from, *found);
    if (!read.ok()) ExpectNamesThePlace(read, paths);
    EXPECT_THAT(std::string(read.message()), Not(HasSubstr("wrong bytes")));
    return read;
  }
  std::map<Outcome, int> Try(const std::vector<Damage>& all, uint64_t stride) {
    std::mutex mutex;
    std::map<Outcome, int> outcomes = {{Outcome::kHarmless, 0},
                                       {Outcome::kFoundAtOpen, 0},
                                       {Outcome::kFoundAtRead, 0}};
    EachAtOnce(
        all.size(),
        [&](uint64_t i) {
          SCOPED_TRACE(absl::StrCat(absl::StrJoin(all[i].paths, ", "), ": ",
                                    all[i].name));
          const Outcome outcome = Open(all[i]);
          const std::lock_guard<std::mutex> lock(mutex);
          ++outcomes.at(outcome);
        },
        stride);
    return outcomes;
  }
  void DamageEverything() {
    for (const SimPathSize& file : files_->ListFiles(SimStore::kPath)) {
      const std::vector<Damage> all = EveryDamage(file.path, file.size_bytes);
      const auto outcomes = Try(all, Stride());
      if (HasFailure()) return;
      if (IsHarmless(file.path)) {
        EXPECT_EQ(outcomes.at(Outcome::kFoundAtOpen), 0);
        EXPECT_EQ(outcomes.at(Outcome::kFoundAtRead), 0);
      }
      std::cout << file.path << ", " << file.size_bytes << " bytes: harmless "
                << outcomes.at(Outcome::kHarmless) << ", found at open "
                << outcomes.at(Outcome::kFoundAtOpen) << ", found at read "
                << outcomes.at(Outcome::kFoundAtRead) << std::endl;
    }
  }
  std::mt19937_64 random_{TestSeed()};
  std::vector<StoreModel> also_;  // as good as the model
  bool each_manifest_byte_ = false;
};

TEST_F(CorruptionTest, AfterSaves) {
  Prepare({SaveAction(10, InlineStep(1)), SaveAction(20, BulkStep(2)),
           PinAction(10), SaveAction(30, BulkStep(3))});
  DamageEverything();
}

// Chains over bases that are steps no more, and one that was folded.
TEST_F(CorruptionTest, AfterSavesOfChanges) {
  const ModelStep base = InlineStep(1);
  const ModelStep second = ChangedStep(2, base);
  const ModelStep third = ChangedStep(3, second);
  Prepare({SaveAction(10, base), SaveOverAction(20, second, 10, base),
           FoldAction(20), SaveOverAction(30, third, 20, second),
           DeleteAction(10), SweepAction()});
  DamageEverything();
}

// The log has records younger than all that was acknowledged.
TEST_F(CorruptionTest, WithASaveInProgress) {
  each_manifest_byte_ = true;
  Prepare({SaveAction(10, InlineStep(1)), SaveAction(20, BulkStep(2)),
           UnfinishedAction(30, BulkStep(3))});
  DamageEverything();
}

TEST_F(CorruptionTest, AfterReopening) {
  Prepare({SaveAction(10, InlineStep(1)), SaveAction(20, BulkStep(2)),
           ReopenAction(), SaveAction(20, InlineStep(3)), SweepAction(),
           ReopenAction(), UnfinishedAction(30, InlineStep(4))});
  DamageEverything();
}

// A deletion is in the log until the sweep: without it the step is back, whole.
TEST_F(CorruptionTest, AfterADeletion) {
  Prepare({SaveAction(10, InlineStep(1)), SaveAction(20, BulkStep(2))});
  also_.push_back(model_);
  files_ = std::make_shared<SimFileSystem>();
  Prepare({SaveAction(10, InlineStep(1)), SaveAction(20, BulkStep(2)),
           DeleteAction(10)});
  DamageEverything();
}

// The end of the MANIFEST is younger than the note, and tables that it names
// without its end are gone.
TEST_F(CorruptionTest, WithAnOlderNote) {
  each_manifest_byte_ = true;
  const std::string path = absl::StrCat(SimStore::kPath, "/WATERMARK");
  Prepare({SaveAction(10, InlineStep(1)), SaveAction(20, InlineStep(2))});
  also_.push_back(model_);
  const auto note = files_->ReadAll(path);
  ASSERT_TRUE(note.has_value());
  Prepare({DeleteAction(10), SweepAction()});
  ASSERT_TRUE(files_->WriteAll(path, *note));
  DamageEverything();
}

TEST_F(CorruptionTest, TablesExchanged) {
  Prepare({SaveAction(10, InlineStep(1)), SaveAction(20, BulkStep(2)),
           SaveAction(30, BulkStep(3))});
  Paths tables;
  for (const SimPathSize& file : files_->ListFiles(SimStore::kPath)) {
    if (absl::EndsWith(file.path, ".sst")) tables.push_back(file.path);
  }
  std::vector<Damage> all;
  for (size_t i = 0; i < tables.size(); ++i) {
    for (size_t j = i + 1; j < tables.size(); ++j) {
      const std::string one = tables[i];
      const std::string other = tables[j];
      const auto exchange = [one, other](SimFileSystem* files) {
        const auto bytes = files->ReadAll(one);
        const auto others = files->ReadAll(other);
        return bytes.has_value() && others.has_value() &&
               files->WriteAll(one, *others) && files->WriteAll(other, *bytes);
      };
      all.push_back({"exchanged", exchange, {one, other}});
    }
  }
  const auto outcomes = Try(all, /*stride=*/1);
  EXPECT_EQ(outcomes.at(Outcome::kHarmless), 0);
  EXPECT_GT(outcomes.at(Outcome::kFoundAtRead), 0);
}

}  // namespace
}  // namespace ckptdb::testing
