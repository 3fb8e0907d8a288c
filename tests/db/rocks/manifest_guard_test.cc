// SPDX-License-Identifier: Apache-2.0
// A MANIFEST that cannot be written or synced while files are ingested:
// whatever of it is on disk, no file that it may name is gone, and the store
// opens again.

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/db/sim_store.h"

namespace ckptdb::testing {
namespace {

constexpr char kManifest[] = "/MANIFEST-";

uint64_t CountManifestWrites(const SimFileSystem& prepared,
                             const Action& save) {
  SimStore sim(CopyOf(prepared));
  EXPECT_OK(sim.Open());
  const size_t first = sim.files()->operations();
  EXPECT_OK(save.run(&sim));
  uint64_t writes = 0;
  for (size_t k = first; k < sim.files()->operations(); ++k) {
    if (absl::StrContains(sim.files()->OperationText(k), kManifest)) ++writes;
  }
  return writes;
}

class ManifestGuardTest : public PreparedStoreTest {
 protected:
  void SetUp() override { Prepare({SaveAction(10, BulkStep(1))}); }
  // What a copy of the store holds after that write or sync of the MANIFEST
  // failed, in every variant.
  void FailWrite(uint64_t k, bool sticky) {
    SCOPED_TRACE(absl::StrCat("write ", k, sticky ? " sticky" : ""));
    SimStore sim(CopyOf(*files_));
    ASSERT_OK(sim.Open());
    sim.files()->FailWrite(kManifest, k, rocksdb::IOStatus::IOError("injected"),
                           sticky);
    const absl::Status saved = save_.run(&sim);
    if (!saved.ok()) ExpectOutOfUse(&sim, saved);
    sim.Close();
    sim.files()->ClearFault();
    for (const PowerLoss variant : kAllPowerLosses) {
      SCOPED_TRACE(PowerLossName(variant));
      CheckReopened(CopyOf(*sim.files(), variant), saved.ok());
    }
  }
  void ExpectOutOfUse(SimStore* sim, const absl::Status& saved) {
    ++failed_;
    EXPECT_THAT(saved, Unavailable("injected"));
    EXPECT_THAT(sim->store()->Begin({.step = 30}),
                FailedPrecondition("injected"));
    EXPECT_OK(ReadModel(sim->store(), model_));
  }
  void CheckReopened(std::shared_ptr<SimFileSystem> files, bool saved) {
    StoreModel done = model_;
    save_.apply(&done);
    SimStore sim(std::move(files));
    ASSERT_OK(sim.Open());
    const StoreModel& found =
        saved || Outline(*sim.store()) == Outline(done) ? done : model_;
    ExpectModel(sim.store(), found);
    ASSERT_NO_FATAL_FAILURE(ExpectNoOrphans(&sim));
    ASSERT_OK(sim.Open());
    ExpectUsable(&sim, found);
  }
  const Action save_ = SaveAction(20, BulkStep(2));
  std::atomic<size_t> failed_ = 0;
};

TEST_F(ManifestGuardTest, FilesStayAndTheStoreOpens) {
  const uint64_t writes = CountManifestWrites(*files_, save_);
  // The ingestion's write and sync, and those of the flushes after it.
  ASSERT_GE(writes, 4U);
  EachAtOnce(
      2 * writes, [&](uint64_t i) { FailWrite(i / 2, i % 2 == 1); },
      /*stride=*/1);
  EXPECT_EQ(failed_, 2 * writes);
}

}  // namespace
}  // namespace ckptdb::testing
