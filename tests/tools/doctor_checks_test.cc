// SPDX-License-Identifier: Apache-2.0
// Each check of `ckptdb doctor` succeeds on a file system that meets it, and
// reports one that does not. Calls that fail or misbehave simulate such file
// systems.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/mount.h"
#include "tools/doctor/peer.h"
#include "tools/doctor/private_folder.h"
#include "tools/doctor/process_peer.h"

namespace ckptdb::tool {
namespace {

namespace fs = std::filesystem;
using ::ckptdb::testing::StatusIs;
using ::ckptdb::testing::TempDir;
using ::testing::HasSubstr;

// File calls, each of which can be replaced.
class FaultyCalls : public FileCalls {
 public:
  explicit FaultyCalls(int folder) : FileCalls(folder) {}

  std::function<absl::StatusOr<int>(const std::string&, int)> open;
  std::function<absl::Status(int, absl::string_view)> write;
  std::function<absl::StatusOr<std::string>(int, uint64_t, size_t)> read;
  std::function<absl::Status()> sync;
  std::function<absl::Status()> sync_folder;
  std::function<absl::Status(const std::string&, const std::string&)> link;
  std::function<absl::Status(const std::string&, const std::string&)> rename;
  std::function<absl::Status(const std::string&)> unlink;
  std::function<void(std::vector<std::string>*)> list;
  std::function<absl::StatusOr<bool>()> lock;
  std::function<void(Entry*)> look;
  bool has_allocate = true;
  bool has_space = true;

  absl::StatusOr<int> Open(const std::string& name, int flags) override {
    return open ? open(name, flags) : FileCalls::Open(name, flags);
  }
  absl::Status Write(int file, absl::string_view bytes) override {
    return write ? write(file, bytes) : FileCalls::Write(file, bytes);
  }
  absl::StatusOr<std::string> ReadAt(int file, uint64_t offset,
                                     size_t bytes) override {
    return read ? read(file, offset, bytes)
                : FileCalls::ReadAt(file, offset, bytes);
  }
  absl::Status Sync(int file) override {
    return sync ? sync() : FileCalls::Sync(file);
  }
  absl::Status SyncFolder() override {
    return sync_folder ? sync_folder() : FileCalls::SyncFolder();
  }
  absl::Status Link(const std::string& from, const std::string& to) override {
    return link ? link(from, to) : FileCalls::Link(from, to);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return rename ? rename(from, to) : FileCalls::Rename(from, to);
  }
  absl::Status Unlink(const std::string& name) override {
    return unlink ? unlink(name) : FileCalls::Unlink(name);
  }
  absl::StatusOr<std::vector<std::string>> List() override {
    auto names = FileCalls::List();
    if (list && names.ok()) list(&*names);
    return names;
  }
  absl::StatusOr<bool> Lock(int file) override {
    return lock ? lock() : FileCalls::Lock(file);
  }
  absl::Status Allocate(int file, uint64_t bytes) override {
    return has_allocate ? FileCalls::Allocate(file, bytes)
                        : absl::UnimplementedError("no fallocate");
  }
  absl::StatusOr<Entry> Look(const std::string& name) override {
    auto entry = FileCalls::Look(name);
    if (look && entry.ok()) look(&*entry);
    return entry;
  }
  absl::StatusOr<Space> GetSpace() override {
    return has_space ? FileCalls::GetSpace() : Space{};
  }
};

// A peer in the same process.
class NearPeer : public Peer {
 public:
  explicit NearPeer(FileCalls* files) : service_(files) {}
  const std::string& host() const override { return host_; }
  bool can_be_killed() const override { return true; }
  absl::StatusOr<std::string> Ask(const std::string& request) override {
    absl::StatusOr<std::string> answer = service_.Do(request);
    int64_t micros = 0;
    if (request == "clock" && absl::SimpleAtoi(*answer, &micros)) {
      return absl::StrCat(micros + absl::ToInt64Microseconds(clock_ahead));
    }
    return answer;
  }

  absl::Duration clock_ahead;

 private:
  PeerService service_;
  const std::string host_ = "near";
};

// The environment of a check: the calls of this process and of the peer.
struct World {
  FaultyCalls ours;
  FaultyCalls theirs;
  NearPeer peer;
  explicit World(int folder) : ours(folder), theirs(folder), peer(&theirs) {}
};

struct Fault {
  std::string check;
  CheckResult result;
  std::string observed;  // a substring of it
  std::function<void(World*)> make;
};

constexpr CheckResult kMissing = CheckResult::kMissing;
constexpr CheckResult kUnsafe = CheckResult::kUnsafe;

using Make = std::function<void(World*)>;

// A call of this process, or of the peer, returns this.
template <typename Call, typename Result>
Make Ours(Call FaultyCalls::*call, Result result) {
  return [=](World* world) {
    world->ours.*call = [=](auto&&...) { return result; };
  };
}
template <typename Call, typename Result>
Make Theirs(Call FaultyCalls::*call, Result result) {
  return [=](World* world) {
    world->theirs.*call = [=](auto&&...) { return result; };
  };
}

// Files are opened without a flag.
Make Without(int flag, FaultyCalls World::*of = &World::ours) {
  return [=](World* world) {
    FaultyCalls* const calls = &(world->*of);
    calls->open = [=](const std::string& name, int flags) {
      return calls->FileCalls::Open(name, flags & ~flag);
    };
  };
}

// Copies, as a file system without hard links may do.
absl::Status Copy(FaultyCalls* calls, const std::string& from,
                  const std::string& to) {
  const auto bytes = ReadFile(calls, from);
  return bytes.ok() ? WriteFile(calls, to, *bytes, false) : bytes.status();
}

std::vector<Fault> FilesFaults() {
  return {
      {"hard_link", kMissing, "no link",
       Ours(&FaultyCalls::link, absl::UnimplementedError("no link"))},
      {"hard_link", kMissing, "EPERM",
       Ours(&FaultyCalls::link, absl::PermissionDeniedError("EPERM"))},
      {"hard_link", kUnsafe, "EIO",
       Ours(&FaultyCalls::link, absl::InternalError("EIO"))},
      {"hard_link", kUnsafe, "not one file",
       [](World* world) {
         world->ours.link = [=](auto& from, auto& to) {
           return Copy(&world->ours, from, to);
         };
       }},
      {"rename_replaces", kUnsafe, "other bytes",
       Ours(&FaultyCalls::rename, absl::OkStatus())},
      {"file_modes", kMissing, "mode 777",
       [](World* world) {
         world->ours.look = [](auto* entry) { entry->mode = 0777; };
       }},
      {"file_names", kUnsafe, "not listed once",
       [](World* world) {
         world->ours.list = [](auto* names) {
           for (std::string& name : *names) name = name.substr(0, 8);
         };
       }},
  };
}

std::vector<Fault> DiskFaults() {
  return {
      {"sync_file", kUnsafe, "EIO",
       Ours(&FaultyCalls::sync, absl::InternalError("EIO"))},
      {"sync_folder", kUnsafe, "EINVAL",
       Ours(&FaultyCalls::sync_folder, absl::InvalidArgumentError("EINVAL"))},
      {"truncate", kUnsafe, "other bytes", Without(O_TRUNC)},
      {"free_space", kUnsafe, "0 B of 0 B",
       [](World* world) { world->ours.has_space = false; }},
      {"direct_io", kMissing, "EINVAL",
       [](World* world) {
         world->ours.open = [=](auto& name, int flags) -> absl::StatusOr<int> {
           if ((flags & O_DIRECT) == 0)
             return world->ours.FileCalls::Open(name, flags);
           return absl::InvalidArgumentError("EINVAL");
         };
       }},
      {"direct_io", kUnsafe, "other bytes",
       [](World* world) {
         Without(O_DIRECT)(world);
         world->ours.write = [=](int file, auto bytes) {
           return world->ours.FileCalls::Write(file,
                                               std::string(bytes.size(), 'x'));
         };
       }},
      {"fallocate", kMissing, "no fallocate",
       [](World* world) { world->ours.has_allocate = false; }},
      {"open_files", kMissing, "Too many open files",
       [](World* world) {
         auto opened = std::make_shared<int>(0);
         world->ours.open = [=](auto& name, int flags) -> absl::StatusOr<int> {
           constexpr int kMost = 100;
           if (name == "opened_often" && ++*opened > kMost) {
             return absl::ResourceExhaustedError("Too many open files");
           }
           return world->ours.FileCalls::Open(name, flags);
         };
       }},
  };
}

// Opens the file that a name denoted when it was first opened.
void CacheNames(World* world) {
  auto first = std::make_shared<std::map<std::string, int>>();
  world->theirs.open = [=](const std::string& name,
                           int flags) -> absl::StatusOr<int> {
    const auto found = first->find(name);
    if (found != first->end()) return ::dup(found->second);
    const auto file = world->theirs.FileCalls::Open(name, flags);
    if (file.ok()) first->emplace(name, ::dup(*file));
    return file;
  };
}

// Reads the file that the name denotes now, like a server that does not track
// open files.
void ReopenToRead(World* world) {
  auto last = std::make_shared<std::string>();
  world->theirs.open = [=](const std::string& name, int flags) {
    *last = name;
    return world->theirs.FileCalls::Open(name, flags);
  };
  world->theirs.read = [=](int, uint64_t offset,
                           size_t bytes) -> absl::StatusOr<std::string> {
    const auto file = world->theirs.FileCalls::Open(*last, O_RDONLY);
    if (!file.ok()) return file.status();
    auto read = world->theirs.FileCalls::ReadAt(*file, offset, bytes);
    world->theirs.Close(*file);
    return read;
  };
}

void ReadAtMost(World* world, size_t limit) {
  world->theirs.read = [=](int file, uint64_t offset, size_t bytes) {
    return world->theirs.FileCalls::ReadAt(file, offset,
                                           std::min(bytes, limit));
  };
}

std::vector<Fault> PeerFaults() {
  return {
      {"lock", kUnsafe, "locked again", Theirs(&FaultyCalls::lock, true)},
      {"lock", kUnsafe, "locked a file that is locked here",
       [](World* world) {
         auto calls = std::make_shared<int>(0);
         world->ours.lock = [=] { return ++*calls > 1; };
       }},
      {"lock", kUnsafe, "no locks",
       Theirs(&FaultyCalls::lock, absl::UnimplementedError("no locks"))},
      {"lock_of_the_dead", kUnsafe, "stays after its process", [](World*) {}},
      {"exclusive_create_by_others", kUnsafe, "made a name",
       Without(O_EXCL, &World::theirs)},
      {"synced_bytes", kUnsafe, "not read in 19 of 20",
       [](World* world) { ReadAtMost(world, 10'000); }},
      {"closed_bytes", kUnsafe, "old bytes in 20 of 20",
       [](World* world) { ReadAtMost(world, 5'000); }},
      {"replaced_file", kUnsafe, "in 19 of 20 openings, for up to ",
       CacheNames},
      {"removed_file", kMissing, "still read", CacheNames},
      {"new_file", kMissing, "not listed",
       [](World* world) {
         world->theirs.list = [](auto* names) { names->clear(); };
       }},
      {"open_file_replaced", kMissing, "changed by rename", ReopenToRead},
      {"open_file_removed", kMissing, "open kept", ReopenToRead},
      {"clock", kUnsafe, "are 60.0 min apart",
       [](World* world) { world->peer.clock_ahead = absl::Hours(1); }},
  };
}

class DoctorChecks : public ::testing::Test {
 protected:
  DoctorChecks() : folder_(::open(dir_.path().c_str(), O_PATH | O_DIRECTORY)) {}
  ~DoctorChecks() override { ::close(folder_); }

  void ExpectTold(const std::vector<Check>& checks, const Fault& fault,
                  bool with_peer) {
    SCOPED_TRACE(absl::StrCat(fault.check, ": ", fault.observed));
    const auto check =
        std::find_if(checks.begin(), checks.end(),
                     [&](const Check& c) { return c.name == fault.check; });
    ASSERT_NE(check, checks.end());
    World world(folder_);
    fault.make(&world);
    ASSERT_OK_AND_ASSIGN(
        const CheckOutcome outcome,
        RunCheck(*check, {&world.ours, with_peer ? &world.peer : nullptr,
                          absl::Milliseconds(10)}));
    EXPECT_EQ(CheckResultText(outcome.result), CheckResultText(fault.result));
    EXPECT_THAT(outcome.observed, HasSubstr(fault.observed));
    EXPECT_NE(outcome.consequence, "");
    for (const auto& entry : fs::directory_iterator(dir_.path())) {
      fs::remove(entry);
    }
  }
  void ExpectAllTold(const std::vector<Check>& checks,
                     const std::vector<Fault>& faults, bool with_peer) {
    std::set<std::string> told;
    for (const Fault& fault : faults) {
      ExpectTold(checks, fault, with_peer);
      told.insert(fault.check);
    }
    for (const Check& check : checks) {
      EXPECT_TRUE(told.contains(check.name)) << check.name;
    }
  }
  static void ExpectOk(const std::vector<CheckOutcome>& outcomes) {
    for (const CheckOutcome& each : outcomes) {
      EXPECT_EQ(CheckResultText(each.result), "ok")
          << each.name << ": " << each.observed;
      EXPECT_EQ(each.consequence, "");
    }
  }

  TempDir dir_;
  const int folder_;
};

TEST_F(DoctorChecks, ReportFaultsOfOneProcess) {
  std::vector<Fault> faults = FilesFaults();
  for (Fault& fault : DiskFaults()) faults.push_back(std::move(fault));
  ExpectAllTold(LocalChecks(), faults, /*with_peer=*/false);
}

// A store raises the soft limit, too.
TEST_F(DoctorChecks, OpenFilesPass_WhenOnlyTheSoftLimitIsLow) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{128, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  FileCalls files(folder_);
  const std::vector<Check>& checks = LocalChecks();
  const auto check =
      std::find_if(checks.begin(), checks.end(),
                   [](const Check& each) { return each.name == "open_files"; });
  ASSERT_NE(check, checks.end());
  const absl::StatusOr<CheckOutcome> outcome =
      RunCheck(*check, {&files, nullptr, absl::Milliseconds(10)});
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_OK(outcome);
  ExpectOk({*outcome});
}

TEST_F(DoctorChecks, ReportFaultsBetweenProcesses) {
  ExpectAllTold(PeerChecks(), PeerFaults(), /*with_peer=*/true);
}

TEST_F(DoctorChecks, PassWithASecondProcess) {
  FileCalls files(folder_);
  ASSERT_OK_AND_ASSIGN(const auto peer, StartProcessPeer(&files));
  std::vector<CheckOutcome> outcomes;
  ASSERT_OK(RunChecks({.files = &files, .peer = peer.get()}, &outcomes));
  EXPECT_EQ(outcomes.size(), PeerChecks().size());
  ExpectOk(outcomes);
  // The last check killed the peer.
  EXPECT_THAT(peer->Ask("host"),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("")));
}

TEST(DoctorPeer, AnswersRoundTrip) {
  for (const std::string text : {"", "two words", "12:34"}) {
    EXPECT_EQ(DecodeAnswer(EncodeAnswer(text)).value(), text);
  }
  EXPECT_THAT(DecodeAnswer(EncodeAnswer(absl::NotFoundError("open x"))),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("open x")));
  EXPECT_THAT(DecodeAnswer("nonsense"),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("")));
  for (const char* const request : {"create ../outside", "read /etc/passwd",
                                    "lock a/b", "open ../x", "time ../x"}) {
    EXPECT_THAT(PeerService(nullptr).Do(request),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("expected the name of a file")));
  }
  EXPECT_THAT(PeerService(nullptr).Do("dance"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("unknown request \"dance\"")));
}

TEST(DoctorFolder, IsCreatedOnceAndRemovedWithItsContents) {
  const TempDir dir;
  {
    ASSERT_OK_AND_ASSIGN(const auto folder,
                         PrivateFolder::Make(dir.path(), "one"));
    EXPECT_THAT(PrivateFolder::Make(dir.path(), "one"),
                StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("")));
    ASSERT_OK(WriteFile(folder->files(), "file", "bytes", false));
    EXPECT_FALSE(fs::is_empty(dir.path()));
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
  EXPECT_THAT(PrivateFolder::Make(dir.path() + "/none", "one"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("")));
}

// Another user could have created it.
TEST(DoctorFolder, JoinRejectsSymlinksAndWritableFolders) {
  const TempDir dir;
  const std::string path = dir.path() + "/" + kPrivatePrefix;
  fs::create_directory(dir.path() + "/target");
  fs::create_directory_symlink("target", path + "link");
  EXPECT_FALSE(PrivateFolder::Join(dir.path(), "link").ok());
  fs::create_directory(path + "open");
  fs::permissions(path + "open", fs::perms::all);
  EXPECT_THAT(PrivateFolder::Join(dir.path(), "open"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("other users")));
}

TEST(DoctorMount, LongestPathWinsThenLastMount) {
  const auto find = [](const std::string& path) {
    std::istringstream table(
        "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
        "23 22 0:30 / /mnt/a\\040b rw - fuse mfs\\043host rw\n"
        "24 22 0:31 / /data rw - nfs4 server:/a rw\n"
        "25 22 0:32 / /data rw - nfs4 server:/b rw\n"
        "a line of another form\n");
    const Mount mount = FindMount(path, &table);
    return mount.type + " " + mount.source;
  };
  EXPECT_EQ(find("/mnt/a b/c"), "fuse mfs#host");
  EXPECT_EQ(find("/data/x"), "nfs4 server:/b");
  EXPECT_EQ(find("/database"), "ext4 /dev/sda1");
}

}  // namespace
}  // namespace ckptdb::tool
