// SPDX-License-Identifier: Apache-2.0
// A trainer is killed while it ships: the remote has whole steps, the store is
// unharmed, and the next push finishes.
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "db/reader.h"
#include "db/store.h"
#include "remote/remote_store.h"
#include "tests/remote/remote_steps.h"
#include "tests/remote/run_child.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

class KillShipTest : public ::testing::Test {
 protected:
  std::string store() const { return dir_.path() + "/store"; }
  std::string fetched() const { return dir_.path() + "/fetched"; }
  std::string url() const { return "file://" + dir_.path() + "/remote"; }

  // Returns how the trainer ended.
  int RunTrainer(const std::string& point, int nth) {
    return RunChild(
        {CKPTDB_SHIP_CHILD, store(), url(), point, absl::StrCat(nth)});
  }
  static void ExpectWhole(const std::string& path) {
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path));
    ASSERT_EQ(reader->Steps().size(), 3);
    for (const StepRecord& record : reader->Steps()) {
      ASSERT_OK_AND_ASSIGN(const auto step,
                           reader->OpenStep(record.version.step));
      EXPECT_OK(step->Verify()) << record.version.step;
    }
  }
  void ExpectSteps(ObjectStore* remote, size_t steps) {
    ASSERT_OK_AND_ASSIGN(const VerifyRemoteResult verified,
                         VerifyRemote(remote, {.data = true}));
    EXPECT_THAT(verified.damage, IsEmpty());
    EXPECT_EQ(verified.steps, steps);
  }
  // The trainer's host restarts: its store is opened and trained on.
  void ExpectGoesOn(ObjectStore* remote) {
    ASSERT_OK_AND_ASSIGN(const auto opened, Store::Open(store()));
    ExpectWhole(store());
    ASSERT_OK(PushStore(store(), remote).status());
    EXPECT_THAT(StepsOfRemote(remote), ElementsAre(1, 2, 3));
    ExpectSteps(remote, 3);
    ASSERT_OK(FetchStore(remote, fetched(), {.all = true}).status());
    ExpectWhole(fetched());
  }
  void KillAt(const std::string& point, int nth, size_t committed) {
    SCOPED_TRACE(absl::StrCat(point, " ", nth));
    const int status = RunTrainer(point, nth);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    ASSERT_EQ(WTERMSIG(status), SIGKILL);
    ASSERT_OK_AND_ASSIGN(const auto remote, OpenObjectStore(url()));
    ExpectSteps(remote.get(), committed);
    ExpectGoesOn(remote.get());
    for (const char* folder : {"/store", "/remote", "/fetched"}) {
      std::filesystem::remove_all(dir_.path() + folder);
    }
  }

  TempDir dir_;
};

TEST_F(KillShipTest, EachPointLeavesWholeSteps) {
  for (const absl::string_view point : kShipPoints) {
    const int passings = point == point::kShipOwned ? 1 : 3;
    for (int nth = 1; nth <= passings; ++nth) {
      const bool committed = point == point::kShipCommitted;
      KillAt(std::string(point), nth, committed ? nth : nth - 1);
    }
  }
}

TEST_F(KillShipTest, ATrainerThatIsNotKilledShipsAll) {
  const int status = RunTrainer("no point", 1);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ASSERT_OK_AND_ASSIGN(const auto remote, OpenObjectStore(url()));
  ExpectSteps(remote.get(), 3);
}

}  // namespace
}  // namespace ckptdb::testing
