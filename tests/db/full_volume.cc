// SPDX-License-Identifier: Apache-2.0
#include "tests/db/full_volume.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include "db/options.h"
#include "schema/bytes/annotate.h"
#include "tests/db/store_fixture.h"
#include "tests/support/long_run.h"
#include "tests/support/name_space.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kVolumeBytes = uint64_t{40} << 20;
constexpr uint64_t kRoomStep = uint64_t{4} << 10;
constexpr uint64_t kMostRoom = uint64_t{1} << 20;

absl::Status Wrong(const std::string& what) {
  return absl::InternalError(what);
}

absl::Status Mount(const std::string& kind, const std::string& folder) {
  CKPTDB_RETURN_IF_ERROR(EnterNameSpace());
  if (kind == "tmpfs") {
    const std::string size = absl::StrCat("size=", kVolumeBytes);
    if (mount("none", folder.c_str(), "tmpfs", 0, size.c_str()) == 0)
      return absl::OkStatus();
    return CannotMount("tmpfs");
  }
  const std::string image = folder + ".image";
  const std::string command = absl::StrCat(
      "PATH=$PATH:/sbin:/usr/sbin; { truncate -s ", kVolumeBytes, " ", image,
      " && mkfs.ext4 -q -F -m 0 ", image, " && mount -o loop ", image, " ",
      folder, "; } > /dev/null 2>&1");
  if (std::system(command.c_str()) == 0) return absl::OkStatus();
  return CannotMount("ext4 on a loop device");
}

class Volume {
 public:
  explicit Volume(std::string folder) : folder_(std::move(folder)) {}
  std::string store() const { return folder_ + "/store"; }
  uint64_t FreeBytes() const {
    struct statvfs state {};
    if (statvfs(folder_.c_str(), &state) != 0) return 0;
    return uint64_t{state.f_bavail} * state.f_frsize;
  }
  void Fill(uint64_t room) {
    const int fd = open(Filler().c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    const std::string block(kRoomStep, 'x');
    struct stat filler {};
    const uint64_t free = FreeBytes();
    // All but what the file system itself may need for it, at once.
    constexpr uint64_t kMargin = uint64_t{256} << 10;
    if (free > room + kMargin && fstat(fd, &filler) == 0) {
      posix_fallocate(fd, filler.st_size,
                      static_cast<off_t>(free - room - kMargin));
    }
    while (FreeBytes() > room && write(fd, block.data(), block.size()) > 0) {
    }
    fsync(fd);
    close(fd);
  }
  void Free() { fs::remove(Filler()); }
  // A store of three steps, the last of which is deleted and not swept.
  absl::Status Make() {
    CKPTDB_ASSIGN_OR_RETURN(const auto made, Store::Open(store(), Options()));
    for (const int64_t step : {10, 20, 30})
      CKPTDB_RETURN_IF_ERROR(Save(made.get(), step));
    return made->Delete(30);
  }
  static StoreOptions Options() {
    StoreOptions options{.reserve_bytes = 0, .background_sweep = false};
    return options;
  }
  static absl::Status Save(Store* store, int64_t step) {
    const auto seed = static_cast<uint64_t>(step);
    const HeldState held(step % 20 == 10 ? BulkContent(seed)
                                         : SmallContent(seed));
    const SaveSpec spec = {.step = step, .overwrite = true};
    return store->Save(spec, held.state()).status();
  }
  // All steps can be read, and the store can be saved to.
  absl::Status Check(std::vector<int64_t> must) {
    CKPTDB_ASSIGN_OR_RETURN(const auto opened, Store::Open(store(), Options()));
    for (const int64_t step : must)
      CKPTDB_RETURN_IF_ERROR(opened->FindStep(step).status());
    for (const StepRecord& record : opened->Steps()) {
      CKPTDB_ASSIGN_OR_RETURN(const auto step,
                              opened->OpenStep(record.version.step));
      CKPTDB_RETURN_IF_ERROR(step->Verify());
    }
    CKPTDB_RETURN_IF_ERROR(Save(opened.get(), 1000));
    return opened->Sweep().status();
  }

 private:
  std::string Filler() const { return folder_ + "/filler"; }
  const std::string folder_;
};

// What is done on a full volume. `done` is what becomes of step 10.
struct Deed {
  std::string name;
  bool must_work;  // with the space that is set aside
  std::function<absl::Status(Store*)> run;
  std::vector<int64_t> left;
};

std::vector<Deed> Deeds() {
  return {
      {"open", true, [](Store*) { return absl::OkStatus(); }, {10, 20}},
      {"save inline",
       false,
       [](Store* store) { return Volume::Save(store, 40); },
       {10, 20}},
      {"save bulk",
       false,
       [](Store* store) { return Volume::Save(store, 50); },
       {10, 20}},
      {"pin", false, [](Store* store) { return store->Pin(10); }, {10, 20}},
      {"delete", true, [](Store* store) { return store->Delete(10); }, {20}},
      {"delete and sweep",
       true,
       [](Store* store) {
         CKPTDB_RETURN_IF_ERROR(store->Delete(10));
         return store->Sweep().status();
       },
       {20}},
      {"gc",
       true,
       [](Store* store) { return store->Sweep().status(); },
       {10, 20}}};
}

bool IsOutOfRoom(const absl::Status& status) {
  return status.ok() || absl::IsResourceExhausted(status);
}

class Filling {
 public:
  Filling(Volume* volume, std::string pristine)
      : volume_(volume), pristine_(std::move(pristine)) {}
  absl::Status FullBefore(const Deed& deed, uint64_t room, bool spare) {
    Restore();
    if (!spare) fs::remove(volume_->store() + "/SPARE");
    volume_->Fill(room);
    absl::Status status;
    {
      auto store = Store::Open(volume_->store(), Volume::Options());
      status = store.ok() ? deed.run(store->get()) : store.status();
    }
    volume_->Free();
    if (!IsOutOfRoom(status)) return status;
    if (spare && deed.must_work && !status.ok()) return status;
    return volume_->Check(deed.left);
  }
  absl::Status FullAfter(const Deed& deed, uint64_t room) {
    Restore();
    absl::Status status;
    {
      CKPTDB_ASSIGN_OR_RETURN(const auto store,
                              Store::Open(volume_->store(), Volume::Options()));
      volume_->Fill(room);
      status = deed.run(store.get());
      volume_->Free();
      if (!IsOutOfRoom(status)) return status;
      if (deed.must_work && !status.ok()) return status;
      // Nothing was tried without room, so the store goes on.
      CKPTDB_RETURN_IF_ERROR(Volume::Save(store.get(), 60));
    }
    return volume_->Check(deed.left);
  }
  // Another program fills it between the look at the space and the write.
  absl::Status FullMeanwhile(const Deed& deed, uint64_t room,
                             absl::string_view point) {
    Restore();
    StoreOptions options = Volume::Options();
    options.on_point = [&](absl::string_view passed) {
      if (passed == point) volume_->Fill(room);
    };
    {
      CKPTDB_ASSIGN_OR_RETURN(const auto store,
                              Store::Open(volume_->store(), options));
      const absl::Status status = deed.run(store.get());
      if (!IsOutOfRoom(status)) return status;
      const absl::Status next = Volume::Save(store.get(), 70);
      if (!IsOutOfRoom(next) && !absl::IsFailedPrecondition(next)) return next;
    }
    volume_->Free();
    return volume_->Check(deed.left);
  }
  absl::Status Rounds(int rounds) {
    Restore();
    auto store = Store::Open(volume_->store(), Volume::Options());
    CKPTDB_RETURN_IF_ERROR(store.status());
    int64_t step = 100;
    for (int i = 0; i < rounds; ++i) {
      volume_->Fill(static_cast<uint64_t>(i) * 3 * kRoomStep);
      const absl::Status full = Volume::Save(store->get(), ++step);
      if (!absl::IsResourceExhausted(full))
        return Wrong(absl::StrCat("a save without room: ", full.ToString()));
      const auto told = [&](const absl::Status& status,
                            absl::string_view what) {
        return internal::Annotate(status,
                                  absl::StrCat("round ", i, ", ", what));
      };
      if (i > 0) {
        CKPTDB_RETURN_IF_ERROR(
            told((*store)->Delete(step - 1), "delete on the full volume"));
      }
      CKPTDB_RETURN_IF_ERROR(
          told((*store)->Sweep().status(), "sweep on the full volume"));
      volume_->Free();
      CKPTDB_RETURN_IF_ERROR(
          told(Volume::Save(store->get(), step), "save after it was freed"));
    }
    store->reset();
    return volume_->Check({10, 20, step});
  }

 private:
  void Restore() {
    fs::remove_all(volume_->store());
    fs::copy(pristine_, volume_->store(), fs::copy_options::recursive);
  }
  Volume* const volume_;
  const std::string pristine_;
};

constexpr std::array<absl::string_view, 6> kPoints = {
    point::kBegun,     point::kChecked,     point::kIngested,
    point::kCommitted, point::kSweepMarked, point::kSweepFreed};

// Each is tried with each room in a long run; else what is rarer with some.
absl::Status TryRoom(Filling* filling, const Deed& deed, uint64_t room,
                     uint64_t turn) {
  const auto told = [&](const absl::Status& status, absl::string_view when) {
    return internal::Annotate(
        status, absl::StrCat(deed.name, " with ", room, " bytes, full ", when));
  };
  CKPTDB_RETURN_IF_ERROR(
      told(filling->FullBefore(deed, room, /*spare=*/true), "before"));
  if (IsLongRun() || turn % 4 == 0) {
    CKPTDB_RETURN_IF_ERROR(told(
        filling->FullBefore(deed, room, /*spare=*/false), "without spare"));
  }
  if (IsLongRun() || turn % 4 == 1) {
    CKPTDB_RETURN_IF_ERROR(told(filling->FullAfter(deed, room), "after"));
  }
  for (size_t i = 0; i < kPoints.size(); ++i) {
    if (!IsLongRun() && turn % (2 * kPoints.size()) != 2 * i) continue;
    CKPTDB_RETURN_IF_ERROR(
        told(filling->FullMeanwhile(deed, room, kPoints[i]), kPoints[i]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FillVolume(const std::string& kind, const std::string& folder) {
  CKPTDB_RETURN_IF_ERROR(Mount(kind, folder));
  Volume volume(folder);
  CKPTDB_RETURN_IF_ERROR(volume.Make());
  const std::string pristine = folder + ".pristine";
  fs::copy(volume.store(), pristine, fs::copy_options::recursive);
  Filling filling(&volume, pristine);
  CKPTDB_RETURN_IF_ERROR(filling.Rounds(/*rounds=*/12));
  // Each size is 63 cases.
  const uint64_t stride = IsLongRun() ? Stride() : 3 * Stride();
  uint64_t rooms = 0;
  uint64_t turn = TestSeed();
  for (uint64_t i = FirstCase(stride); i * kRoomStep <= kMostRoom;
       i += stride) {
    for (const Deed& deed : Deeds())
      CKPTDB_RETURN_IF_ERROR(TryRoom(&filling, deed, i * kRoomStep, turn++));
    ++rooms;
  }
  std::cout << "ok " << rooms << " sizes" << std::endl;
  return absl::OkStatus();
}

}  // namespace ckptdb::testing
