// SPDX-License-Identifier: Apache-2.0
// The disk is full, at any point of a save, and whether or not it said so
// before. The save is ResourceExhausted, the store is as it was, the process
// lives, and all works again when there is room.

#include "absl/strings/str_cat.h"
#include "tests/db/sim_store.h"

namespace ckptdb::testing {
namespace {

constexpr uint64_t kPlenty = uint64_t{1} << 40;

class FullDiskTest : public PreparedStoreTest {
 protected:
  void SetUp() override {
    Prepare({SaveAction(10, InlineStep(1)), SaveAction(20, BulkStep(2))});
  }
  std::unique_ptr<SimStore> OpenCopy(uint64_t reserve_bytes) {
    auto sim = std::make_unique<SimStore>(CopyOf(*files_));
    sim->options()->reserve_bytes = reserve_bytes;
    EXPECT_OK(sim->Open());
    return sim;
  }
  // The disk has room for `room` bytes and says that it has a lot.
  void FillUpAt(const Action& action, uint64_t room, bool* fits) {
    const std::unique_ptr<SimStore> sim = OpenCopy(/*reserve_bytes=*/0);
    sim->files()->SetCapacity(sim->files()->TotalBytes() + room);
    sim->files()->SetReportedFreeSpace(kPlenty);
    const absl::Status status = action.run(sim.get());
    *fits = status.ok();
    StoreModel model = model_;
    if (status.ok()) {
      action.apply(&model);
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    }
    // Old steps can be read, whatever has failed.
    ExpectModel(sim->store(), model);
    sim->Close();
    sim->files()->SetReportedFreeSpace(std::nullopt);
    sim->files()->SetCapacity(std::nullopt);
    ASSERT_OK(sim->Open());
    // The commit that failed may have come through after all.
    if (!status.ok() && Outline(*sim->store()) != Outline(model))
      action.apply(&model);
    ExpectModel(sim->store(), model);
    ASSERT_NO_FATAL_FAILURE(ExpectNoOrphans(sim.get()));
    ASSERT_OK(sim->Open());
    ExpectUsable(sim.get(), model);
  }
  void FillUpEverywhere(const Action& action) {
    // Close to each other where the records are small.
    std::vector<uint64_t> rooms;
    const uint64_t most = RoomFor(action);
    for (uint64_t room = 0; room < most; room += 1 + room / 24)
      rooms.push_back(room);
    std::atomic<uint64_t> tried = 0;
    std::atomic<uint64_t> full = 0;
    EachAtOnce(rooms.size(), [&](uint64_t i) {
      SCOPED_TRACE(absl::StrCat(action.name, " with room for ", rooms[i]));
      bool fits = false;
      FillUpAt(action, rooms[i], &fits);
      ++tried;
      if (!fits) ++full;
    });
    EXPECT_GE(2 * full, tried);
    std::cout << action.name << ": " << tried << " of " << rooms.size()
              << " sizes, " << full << " too small" << std::endl;
  }
  uint64_t RoomFor(const Action& action) {
    for (uint64_t room = 1;; room *= 2) {
      const std::unique_ptr<SimStore> sim = OpenCopy(/*reserve_bytes=*/0);
      sim->files()->SetCapacity(sim->files()->TotalBytes() + room);
      sim->files()->SetReportedFreeSpace(kPlenty);
      if (action.run(sim.get()).ok()) return room;
    }
  }
};

TEST_F(FullDiskTest, EachRoomForEachChange) {
  for (const Action& action :
       {SaveAction(30, InlineStep(3)), SaveAction(30, BulkStep(3)),
        SaveAction(20, BulkStep(3), {10}), PinAction(10)}) {
    FillUpEverywhere(action);
  }
}

// A record may have a megabyte of the user's own, which goes to the log and to
// a table.
TEST_F(FullDiskTest, RoomIsForWhatTheRecordHasInIt) {
  constexpr uint64_t kMetadataBytes = uint64_t{900} << 10;
  const std::unique_ptr<SimStore> sim = OpenCopy(/*reserve_bytes=*/0);
  const std::string notes(kMetadataBytes, 'n');
  ASSERT_OK(sim->Save({.step = 30, .user_metadata = {{"notes", notes}}},
                      InlineStep(3)));
  sim->files()->SetReportedFreeSpace(2 * kMetadataBytes);
  const auto is_refused =
      ResourceExhausted(absl::StrCat(2 * kMetadataBytes, " are free"));
  EXPECT_THAT(sim->store()->Pin(30), is_refused);
  EXPECT_THAT(sim->store()->Delete(30), is_refused);
  sim->files()->SetReportedFreeSpace(3 * kMetadataBytes);
  EXPECT_OK(sim->store()->Pin(30));
  EXPECT_OK(sim->store()->Unpin(30));
  EXPECT_OK(sim->store()->Delete(30));
}

// What is asked for and what is free are in the error, and nothing was tried.
TEST_F(FullDiskTest, RefusedBeforeItStarts) {
  constexpr uint64_t kReserve = uint64_t{64} << 20;
  const std::unique_ptr<SimStore> sim = OpenCopy(kReserve);
  for (const uint64_t free : {uint64_t{0}, kReserve - 1, kReserve}) {
    sim->files()->SetReportedFreeSpace(free);
    const size_t operations = sim->files()->operations();
    EXPECT_THAT(SaveAction(30, InlineStep(3)).run(sim.get()),
                ResourceExhausted("needs 1048576 bytes",
                                  absl::StrCat("a reserve of ", kReserve),
                                  absl::StrCat(free, " are free")));
    EXPECT_EQ(sim->files()->operations(), operations);
  }
  // Not a state that lasts.
  sim->files()->SetReportedFreeSpace(std::nullopt);
  ExpectUsable(sim.get(), model_);
}

// Between the begin, the staging and the publication the disk fills up.
TEST_F(FullDiskTest, ReserveAtEachPhase) {
  constexpr uint64_t kReserve = uint64_t{64} << 20;
  constexpr uint64_t kLittle = kReserve + (uint64_t{1} << 20);
  const std::unique_ptr<SimStore> sim = OpenCopy(kReserve);
  const ModelStep content = BulkStep(3);
  sim->files()->SetReportedFreeSpace(kLittle);
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save,
                       sim->store()->Begin({.step = 30,
                                            .world_size = static_cast<uint32_t>(
                                                content.ranks.size())}));
  std::vector<StagedRank> staged;
  for (const Ticket& ticket : save.tickets) {
    const HeldState held(content.ranks[ticket.rank()], 100, AnyRank(ticket));
    const auto stage = [&] {
      return Stage(SimStore::kPath, ticket, held.state(), sim->stage_options());
    };
    auto part = stage();
    // Rank 1 is bulk; what rank 2 has is there already.
    EXPECT_EQ(part.ok(), ticket.rank() != 1);
    if (!part.ok()) {
      EXPECT_THAT(part, ResourceExhausted("needs ",
                                          absl::StrCat("reserve of ", kReserve),
                                          absl::StrCat(kLittle)));
      sim->files()->SetReportedFreeSpace(std::nullopt);
      part = stage();
      sim->files()->SetReportedFreeSpace(kLittle);
    }
    ASSERT_OK(part);
    staged.push_back(*std::move(part));
  }
  EXPECT_THAT(sim->store()->Publish(save.version, staged),
              ResourceExhausted(absl::StrCat("reserve of ", kReserve),
                                absl::StrCat(kLittle)));
  ExpectModel(sim->store(), model_);
  sim->files()->SetReportedFreeSpace(std::nullopt);
  ASSERT_OK(sim->store()->Publish(save.version, staged,
                                  {.metrics = {{"serial", content.serial}}}));
  model_[30] = content;
  ExpectModel(sim->store(), model_);
  ExpectNoOrphans(sim.get());
}

// A disk that told the truth: nothing was begun that could not be ended, so
// the database itself has not failed, and goes on without a reopening.
TEST_F(FullDiskTest, HonestDiskNeverFailsTheDatabase) {
  for (uint64_t room = 0; room < uint64_t{6} << 20;
       room += uint64_t{128} << 10) {
    SCOPED_TRACE(absl::StrCat("room for ", room));
    const std::unique_ptr<SimStore> sim = OpenCopy(uint64_t{1} << 20);
    sim->files()->SetCapacity(sim->files()->TotalBytes() + room);
    const Action save = SaveAction(30, BulkStep(3));
    const absl::Status status = save.run(sim.get());
    StoreModel model = model_;
    if (status.ok()) {
      save.apply(&model);
    } else {
      EXPECT_THAT(status, ResourceExhausted("needs ", "are free"));
    }
    // A step can be deleted for as long as its record fits.
    const absl::Status deleted = sim->store()->Delete(10);
    if (deleted.ok()) {
      model.erase(10);
    } else {
      EXPECT_THAT(deleted, ResourceExhausted("needs ", "are free"));
      EXPECT_LT(room, uint64_t{1} << 20);
    }
    ExpectModel(sim->store(), model);
    sim->files()->SetCapacity(std::nullopt);
    ExpectUsable(sim.get(), model);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace ckptdb::testing
