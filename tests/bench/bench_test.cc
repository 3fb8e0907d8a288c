// SPDX-License-Identifier: Apache-2.0
// The benchmark program as a whole, with little data: it ends well, says what
// it promises to say, and cleans up. Times are not looked at.
#include <sys/wait.h>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/temp_dir.h"

namespace ckptdb {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Ran {
  int exit_status = -1;
  std::string output;
};

Ran Bench(const std::string& arguments) {
  const std::string command = std::string(CKPTDB_BENCH) + " " + arguments;
  Ran ran;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ran;
  char part[4096];
  while (const size_t got = std::fread(part, 1, sizeof(part), pipe)) {
    ran.output.append(part, got);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) ran.exit_status = WEXITSTATUS(status);
  return ran;
}

class BenchTest : public ::testing::Test {
 protected:
  // Runs a case with little data and expects one object for each of `names`.
  void RunCase(const std::string& name, const std::set<std::string>& names) {
    const Ran ran = Bench(name + " --json --repetitions 2 --rows 20000 " +
                          "--dense-bytes 10000000 --retention-bytes 12000000 " +
                          "--steps 5 --dir " + dir_.path());
    ASSERT_EQ(ran.exit_status, 0);
    Parse(ran.output);
    std::set<std::string> found;
    for (const auto& [case_name, object] : cases_) {
      found.insert(case_name);
      CheckFields(object);
    }
    EXPECT_EQ(found, names);
    EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
  }

  const nlohmann::json& Case(const std::string& name) { return cases_[name]; }

 private:
  void Parse(const std::string& lines) {
    for (size_t at = 0; at < lines.size();) {
      const size_t end = lines.find('\n', at);
      ASSERT_NE(end, std::string::npos);
      const auto object = nlohmann::json::parse(lines.substr(at, end - at));
      cases_[object.at("name").get<std::string>()] = object;
      at = end + 1;
    }
  }

  static void CheckFields(const nlohmann::json& object) {
    SCOPED_TRACE(object.dump());
    for (const char* field :
         {"bytes", "seconds", "seconds_min", "seconds_max", "raw_seconds",
          "raw_seconds_min", "raw_seconds_max", "ratio"}) {
      ASSERT_TRUE(object.contains(field)) << field;
      EXPECT_GT(object[field].get<double>(), 0) << field;
    }
    for (const char* field : {"cpu_seconds_per_gb", "raw_cpu_seconds_per_gb"}) {
      ASSERT_TRUE(object.contains(field)) << field;
      EXPECT_GE(object[field].get<double>(), 0) << field;
    }
    EXPECT_NE(object.at("raw_variant").get<std::string>(), "");
    EXPECT_LE(object["seconds_min"], object["seconds"]);
    EXPECT_LE(object["seconds"], object["seconds_max"]);
    EXPECT_DOUBLE_EQ(
        object["ratio"].get<double>(),
        object["seconds"].get<double>() / object["raw_seconds"].get<double>());
  }

  testing::TempDir dir_;
  std::map<std::string, nlohmann::json> cases_;
};

TEST_F(BenchTest, FullSavesATableAndMeasuresTheAlternatives) {
  RunCase("full", {"full", "full/put_per_row", "full/fwrite"});
  EXPECT_EQ(Case("full")["bytes"], 20000 * (8 + 2 * 64 * 4));
  EXPECT_EQ(Case("full")["repetitions"], 2);
  EXPECT_EQ(Case("full/fwrite")["repetitions"], 1);
  EXPECT_GT(Case("full")["stored_bytes"], 20000 * 2 * 64 * 4);
  EXPECT_TRUE(Case("full").contains("peak_bytes"));
  EXPECT_EQ(Case("full")["goals"].size(), 3);
}

TEST_F(BenchTest, DenseSavesTensors) {
  RunCase("dense", {"dense"});
  EXPECT_EQ(Case("dense")["bytes"], 10 << 20);
  EXPECT_GE(Case("dense")["raw_variants"].size(), 2);
}

TEST_F(BenchTest, RestoreReadsTablesAndTensors) {
  RunCase("restore", {"restore/full", "restore/dense"});
}

TEST_F(BenchTest, RetentionDeletesAndOpens) {
  RunCase("retention", {"retention/delete_call", "retention/delete_space",
                        "retention/open_cold", "retention/open_warm"});
  EXPECT_EQ(Case("retention/open_warm")["steps"], 5);
}

TEST_F(BenchTest, TinyCountsFsyncs) {
  RunCase("tiny", {"tiny"});
  EXPECT_EQ(Case("tiny")["fsyncs"], Case("tiny")["ratio"]);
  EXPECT_GT(Case("tiny")["its_syncs_seconds"],
            Case("tiny")["fsync_of_its_bytes_seconds"]);
}

TEST_F(BenchTest, StallReportsAllCases) {
  RunCase("stall", {"stall", "stall/columns", "stall/map", "stall/saves",
                    "stall/open", "stall/step", "stall/plan"});
  EXPECT_EQ(Case("stall")["raw_variant"], "memcpy");
  // 625 changed rows, and tensors of about as many bytes.
  EXPECT_GT(Case("stall")["bytes"], 2 * 625 * (8 + 2 * 64 * 4));
  EXPECT_GT(Case("stall")["copied_bytes"], 2 * 625 * (8 + 2 * 64 * 4));
  EXPECT_EQ(Case("stall/saves")["repetitions"], 200);
  EXPECT_EQ(Case("stall/plan")["steps"], 5);
  for (const char* name : {"stall", "stall/columns", "stall/map", "stall/saves",
                           "stall/open", "stall/step", "stall/plan"}) {
    EXPECT_EQ(Case(name)["goals"].size(), 1) << name;
  }
}

TEST_F(BenchTest, ScaleCommitsManyRanks) {
  RunCase("scale --max-ranks 16", {"scale/publish/1", "scale/publish/16"});
  EXPECT_EQ(Case("scale/publish/16")["files"], 64);
}

TEST_F(BenchTest, MarksReportsTimePerRow) {
  RunCase("marks",
          {"marks/zipf/1", "marks/zipf/2", "marks/sparse/1", "marks/sparse/2",
           "marks/all/1", "marks/all/2", "marks/bitmap/1", "marks/bitmap/2"});
  EXPECT_EQ(Case("marks/all/1")["bytes"], 20000 * 8);
  EXPECT_EQ(Case("marks/sparse/2")["rows"], 200);
  EXPECT_EQ(Case("marks/zipf/2")["raw_variant"], "memcpy");
  for (const char* figure : {"ns_per_row", "first_ns_per_row",
                             "take_ns_per_row", "raw_ns_per_row"}) {
    EXPECT_GT(Case("marks/all/2")[figure].get<double>(), 0) << figure;
  }
}

TEST_F(BenchTest, LossyEncodesAndDecodes) {
  RunCase("lossy",
          {"lossy/bf16", "lossy/int8", "lossy/int8/128", "lossy/int8/32",
           "lossy/int8/16", "lossy/int8/8", "lossy/int8/4"});
  EXPECT_EQ(Case("lossy/int8")["raw_variant"], "memcpy");
  EXPECT_NEAR(Case("lossy/bf16")["stored_part"].get<double>(), 0.5, 1e-9);
  EXPECT_NEAR(Case("lossy/int8")["stored_part"].get<double>(), 72 / 256.0,
              1e-3);
  EXPECT_NEAR(Case("lossy/int8/8")["stored_part"].get<double>(), 16 / 32.0,
              1e-3);
}

TEST(BenchProgramTest, PrintsATableWithGoals) {
  const testing::TempDir dir;
  const Ran ran = Bench("tiny --repetitions 1 --dir " + dir.path());
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_THAT(ran.output, HasSubstr("ratio"));
  EXPECT_THAT(ran.output, HasSubstr("goal: fsyncs"));
}

TEST(BenchProgramTest, RejectsBadArguments) {
  for (const char* arguments :
       {"", "fast", "full --rows 0", "dense --repetitions 0"}) {
    const Ran ran = Bench(std::string(arguments) + " 2>&1");
    EXPECT_EQ(ran.exit_status, 2) << arguments;
    EXPECT_THAT(ran.output, ::testing::Not(IsEmpty())) << arguments;
  }
}

TEST(BenchProgramTest, FailsWhenTheDiskHasTooLittleSpace) {
  const testing::TempDir dir;
  const Ran ran = Bench("dense --dense-bytes 4000000000000000 --dir " +
                        dir.path() + " 2>&1");
  EXPECT_EQ(ran.exit_status, 1);
  EXPECT_THAT(ran.output,
              HasSubstr("needs 12000000000000000 bytes in " + dir.path()));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace ckptdb
