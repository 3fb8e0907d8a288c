// SPDX-License-Identifier: Apache-2.0
// What the program is run on: the generated log, logs that the test writes,
// and real ones where they are.
#ifndef CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_WORKLOADS_H_
#define CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_WORKLOADS_H_

#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "tests/examples/train_ctr/log_files.h"
#include "tests/support/source_folder.h"

namespace train_ctr {

// How a save of the workload's state reaches the disk.
enum class SaveSize { kInline, kBulk };

struct Workload {
  std::string name;
  SaveSize size = SaveSize::kInline;
  std::vector<std::string> arguments;
  std::string format;       // empty: the generated log
  std::string log_text;     // of a log that the test writes
  std::string shared_file;  // of a real log, below the folder of such
  int base_every = 0;       // 0: all saves are full
};

inline void PrintTo(const Workload& workload, std::ostream* out) {
  *out << workload.name;
}

// The folder of real logs: $CKPTDB_DATA, or the one beside the source tree.
inline std::string SharedData() {
  const char* given = std::getenv("CKPTDB_DATA");
  return given != nullptr ? given
                          : ckptdb::testing::SourcePath("../shared/data");
}

// Writes the workload's log into `folder` if it has one of its own. False when
// it needs a real one that is not there.
inline bool PrepareLog(const Workload& workload, const std::string& folder,
                       std::vector<std::string>* arguments) {
  *arguments = workload.arguments;
  if (workload.base_every > 0) {
    arguments->insert(arguments->end(), {"--delta", "--base-every",
                                         std::to_string(workload.base_every)});
  }
  if (workload.format.empty()) return true;
  std::string path = folder + "/log";
  if (!workload.log_text.empty()) WriteFile(path, workload.log_text);
  if (!workload.shared_file.empty()) {
    path = SharedData() + "/" + workload.shared_file;
    if (!std::filesystem::exists(path)) return false;
  }
  arguments->insert(arguments->end(),
                    {"--data", path, "--format", workload.format});
  return true;
}

// The state is below or above what a save keeps inline by the width of the
// embeddings.
inline std::vector<Workload> Workloads() {
  const std::vector<std::string> narrow = {"--batch", "32", "--dim", "4"};
  const std::vector<std::string> generated_wide = {
      "--batch",  "128", "--dim",           "1024",
      "--hidden", "64",  "--zipf-examples", "5000"};
  const std::vector<std::string> delta_wide = {
      "--batch",  "192", "--dim",           "1024",
      "--hidden", "64",  "--zipf-examples", "5000"};
  const std::vector<std::string> chain = {
      "--batch",  "128", "--dim",           "8",
      "--hidden", "8",   "--zipf-examples", "5000"};
  const std::vector<std::string> wide = {"--batch", "16",       "--dim",
                                         "2048",    "--hidden", "96"};
  const std::vector<std::string> criteo_wide = {"--batch", "8",        "--dim",
                                                "1024",    "--hidden", "16"};
  const std::string criteo = CriteoLog(120, 1);
  return {
      {"generated", SaveSize::kInline, narrow, "", "", ""},
      {"generated_bulk", SaveSize::kBulk, generated_wide, "", "", ""},
      {"criteo", SaveSize::kInline, narrow, "criteo", criteo, ""},
      {"criteo_bulk", SaveSize::kBulk, criteo_wide, "criteo", criteo, ""},
      {"movielens_tabs", SaveSize::kInline, narrow, "movielens",
       MovieLensLog(300, 1, "\t"), ""},
      {"movielens_colons_bulk", SaveSize::kBulk, wide, "movielens",
       MovieLensLog(300, 1, "::"), ""},
      {"real_criteo", SaveSize::kInline, narrow, "criteo", "",
       "criteo_sample.txt"},
      {"real_movielens", SaveSize::kInline, narrow, "movielens", "",
       "ml-100k/u.data"},
      // The step that the runs are killed at is a delta.
      {"delta", SaveSize::kInline, narrow, "", "", "", 2},
      {"delta_bulk", SaveSize::kBulk, delta_wide, "", "", "", 2},
      // It is a base, and the one before it the second delta over another one.
      {"delta_chain", SaveSize::kInline, chain, "", "", "", 3},
  };
}

}  // namespace train_ctr

#endif  // CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_WORKLOADS_H_
