// SPDX-License-Identifier: Apache-2.0
// The program with --device cuda, killed at each point of a save and resumed:
// it ends with the digest of a run without --device that nothing interrupts.
#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "db/options.h"
#include "tests/examples/train_ctr/device_machine.h"
#include "tests/examples/train_ctr/log_files.h"
#include "tests/examples/train_ctr/program.h"
#include "tests/support/long_run.h"
#include "tests/support/temp_dir.h"

namespace train_ctr {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSteps = 200;
constexpr int kCrashStep = 125;

class DeviceProgramTest : public ::testing::Test {
 protected:
  using Arguments = std::vector<std::string>;

  void SetUp() override {
    const std::string missing = StartMachine(Machines().front());
    if (!missing.empty()) GTEST_SKIP() << missing;
  }

  // Trains in the store of this name, on the device or on the host.
  ProgramResult Train(const std::string& store, bool on_device,
                      const Arguments& more = {}) {
    Arguments arguments = {"--store",         StorePath(store),
                           "--steps",         std::to_string(kSteps),
                           "--save-every",    "25",
                           "--batch",         "32",
                           "--dim",           "6",
                           "--hidden",        "12,8",
                           "--erase-after",   "24",
                           "--shuffle",       "50",
                           "--zipf-examples", "5000"};
    if (on_device) {
      arguments.insert(arguments.end(), {"--device", "cuda", "--device-rows",
                                         std::to_string(device_rows_)});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunProgram(dir_.path(), arguments);
  }

  std::string StorePath(const std::string& store) const {
    return dir_.path() + "/" + store;
  }

  // The digest of a run on the host that nothing interrupts.
  std::string HostDigest() {
    const ProgramResult result = Train("host", false);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.exit_code == 0 ? result.json["digest"] : "";
  }

  // Runs on the host and on the device report the same.
  void ExpectTheSame(const Arguments& more) {
    const ProgramResult host = Train("host", false, more);
    const ProgramResult device = Train("device", true, more);
    ASSERT_EQ(host.exit_code, 0) << host.errors;
    ASSERT_EQ(device.exit_code, 0) << device.errors;
    for (const char* key : {"digest", "loss", "auc", "rows", "step"}) {
      EXPECT_EQ(device.json[key], host.json[key]) << key;
    }
    const auto& saves = device.json["saves"];
    ASSERT_EQ(saves.size(), host.json["saves"].size());
    for (size_t s = 0; s < saves.size(); ++s) {
      for (const char* key : {"step", "kind", "rows_upserted", "rows_erased"}) {
        EXPECT_EQ(saves[s][key], host.json["saves"][s][key]) << s << key;
      }
    }
  }

  ckptdb::testing::TempDir dir_;
  int device_rows_ = 20'000;
};

TEST_F(DeviceProgramTest, FullSavesMatchTheHost) { ExpectTheSame({}); }

TEST_F(DeviceProgramTest, DeltasMatchTheHost) {
  ExpectTheSame({"--delta", "--base-every", "3", "--eval-every", "60"});
}

TEST_F(DeviceProgramTest, SynchronousSavesMatchTheHost) {
  ExpectTheSame({"--sync", "--delta"});
}

// Many fields share a table, and a batch names a row many times.
TEST_F(DeviceProgramTest, TrainsManyFieldsAsOnTheHost) {
  WriteFile(dir_.path() + "/log", CriteoLog(200, 1));
  ExpectTheSame({"--data", dir_.path() + "/log", "--format", "criteo",
                 "--delta", "--seed", "9"});
}

TEST_F(DeviceProgramTest, LoadsTables) {
  const std::string base = HostDigest();
  WriteFile(dir_.path() + "/config",
            R"({"load": [{"path": ")" + StorePath("host") +
                R"(", "load": ["sparse", "dense"]}]})");
  const Arguments more = {"--config", dir_.path() + "/config", "--seed", "3"};
  const ProgramResult host = Train("host_loaded", false, more);
  const ProgramResult device = Train("device_loaded", true, more);
  ASSERT_EQ(host.exit_code, 0) << host.errors;
  ASSERT_EQ(device.exit_code, 0) << device.errors;
  EXPECT_EQ(device.json["digest"], host.json["digest"]);
  EXPECT_NE(host.json["digest"], base);
}

class DeviceKillTest : public DeviceProgramTest {
 protected:
  // A run that is killed at each point and resumed.
  void ExpectTheSameFromEachPoint(const Arguments& more) {
    const std::string expected = HostDigest();
    std::vector<std::string> points = {"", "evaluation"};
    for (const absl::string_view point : ckptdb::kCrashPoints) {
      points.emplace_back(point);
    }
    // A run takes ten times as long under a sanitizer.
    const size_t stride = ckptdb::testing::IsLongRun()  ? 1
                          : ckptdb::testing::kSanitized ? 7
                                                        : 3;
    for (size_t p = ckptdb::testing::FirstCase(stride); p < points.size();
         p += stride) {
      SCOPED_TRACE("at point \"" + points[p] + "\"");
      const std::string store = "store" + std::to_string(p);
      Arguments killing = {"--crash-at", std::to_string(kCrashStep) +
                                             (p == 0 ? "" : ":" + points[p])};
      if (points[p] == "evaluation") {
        killing.insert(killing.end(),
                       {"--eval-every", "25", "--eval-save-every", "5"});
      }
      killing.insert(killing.end(), more.begin(), more.end());
      const ProgramResult killed = Train(store, true, killing);
      ASSERT_EQ(killed.signal, SIGKILL) << killed.errors;
      Arguments resuming = {"--resume"};
      resuming.insert(resuming.end(), more.begin(), more.end());
      // Every other run goes on in host memory.
      const ProgramResult resumed = Train(store, p % 2 == 0, resuming);
      ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
      EXPECT_GE(resumed.json["resumed_from"], kCrashStep - 50);
      EXPECT_EQ(resumed.json["digest"], expected);
    }
  }
};

TEST_F(DeviceKillTest, DeltasEndTheSameFromEveryPoint) {
  ExpectTheSameFromEachPoint({"--delta", "--base-every", "3"});
}

TEST_F(DeviceKillTest, FullSavesEndTheSameFromEveryPoint) {
  ExpectTheSameFromEachPoint({});
}

// The steps of a run in host memory are restored to the device.
TEST_F(DeviceKillTest, DeviceResumesStepsOfAHost) {
  const std::string expected = HostDigest();
  const std::string crash = std::to_string(kCrashStep);
  const ProgramResult killed =
      Train("store", false, {"--delta", "--crash-at", crash});
  ASSERT_EQ(killed.signal, SIGKILL) << killed.errors;
  const ProgramResult resumed = Train("store", true, {"--delta", "--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_EQ(resumed.json["digest"], expected);
  EXPECT_EQ(resumed.json["saves"][0]["kind"], "delta");
}

TEST_F(DeviceProgramTest, FailsWhenATableIsFull) {
  device_rows_ = 100;
  const ProgramResult result = Train("store", true);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("100 rows"),
                    HasSubstr("--device-rows")));
}

}  // namespace
}  // namespace train_ctr
