// SPDX-License-Identifier: Apache-2.0
// ckptdb_soak: a store under everything at once, for as many saves as are asked
// for. See docs/testing.md.
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <system_error>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/disk.h"
#include "bench/soak/driver.h"
#include "bench/soak/volume.h"
#include "bench/soak/writer.h"
#include "db/reader.h"
#include "schema/status.h"

namespace ckptdb::soak {
namespace {

constexpr char kExample[] =
    "Example: ckptdb_soak --saves 2000 --dir /tmp\n"
    "Exit status: 0 all was as it should be, 1 something was not, 2 bad\n"
    "arguments.";

struct Arguments {
  std::string dir = ".";
  uint64_t saves = 20'000;
  uint64_t seed = 0;
  uint64_t volume_mib = 256;
  std::string store;
  uint64_t life = 0;
  bool steady = false;
};

// Copies the store out of the volume, so that the failure can be examined.
void KeepStore(const Volume& volume, const Arguments& arguments) {
  const std::string kept =
      absl::StrCat(arguments.dir, "/ckptdb_soak.failed.", arguments.seed);
  std::error_code error;
  std::filesystem::copy(volume.store(), kept,
                        std::filesystem::copy_options::recursive, error);
  std::cerr << "ckptdb_soak: the store is kept in " << kept
            << (error ? ", in part: " + error.message() : "") << std::endl;
}

absl::Status Soak(const Arguments& arguments) {
  std::cout << "seed " << arguments.seed << std::endl;
  CKPTDB_ASSIGN_OR_RETURN(const auto workspace,
                          bench::Workspace::Make(arguments.dir, 0));
  const std::string folder = workspace->Path("volume");
  CKPTDB_RETURN_IF_ERROR(bench::MakeEmptyFolder(folder));
  Volume volume(folder, arguments.volume_mib << 20);
  if (!volume.mounted()) {
    std::cout << "the disk is not filled: " << volume.why_not_mounted()
              << std::endl;
  }
  Driver driver({.program = "/proc/self/exe",
                 .saves = arguments.saves,
                 .seed = arguments.seed,
                 .steady = arguments.steady},
                &volume);
  absl::Status status = driver.Run();
  if (!status.ok()) {
    std::cerr << "the last lines of the writer:\n" << driver.LastLines();
    KeepStore(volume, arguments);
  }
  std::cout << driver.Report();
  return status;
}

absl::Status Check(const Arguments& arguments) {
  CKPTDB_ASSIGN_OR_RETURN(const auto reader, Reader::Open(arguments.store));
  const Content content(arguments.seed);
  for (const StepRecord& record : reader->Steps()) {
    CKPTDB_ASSIGN_OR_RETURN(const auto step,
                            reader->OpenStep(record.version.step));
    CKPTDB_RETURN_IF_ERROR(content.Check(*step));
  }
  std::cout << reader->Steps().size() << " steps are as they should be"
            << std::endl;
  return absl::OkStatus();
}

int Exit(const absl::Status& status) {
  if (status.ok()) return 0;
  std::cerr << "ckptdb_soak: " << status << std::endl;
  return 1;
}

int Main(int argc, char** argv) {
  CLI::App app("A store under kills and a full disk for a long time.");
  app.footer(kExample);
  app.require_subcommand(0, 1);
  Arguments arguments;
  arguments.seed = std::random_device{}();
  app.add_option("--dir", arguments.dir,
                 "Work in a new folder in this one, removed at the end")
      ->capture_default_str();
  app.add_option("--saves", arguments.saves)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", arguments.seed, "Of all that is drawn");
  app.add_option("--volume-mib", arguments.volume_mib,
                 "Of the file system that the store is on")
      ->check(CLI::Range(128, 1 << 20))
      ->capture_default_str();
  app.add_flag("--steady", arguments.steady,
               "One writer with the store open, killed at the end");
  CLI::App* const write =
      app.add_subcommand("write", "Be the writer of a store, until killed");
  CLI::App* const check =
      app.add_subcommand("check", "Compare all steps of a store");
  for (CLI::App* const one : {write, check}) {
    one->add_option("store", arguments.store)->required();
    one->add_option("--seed", arguments.seed)->required();
  }
  write->add_option("--life", arguments.life)->required();
  write->add_flag("--steady", arguments.steady);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (write->parsed()) {
    return Exit(RunWriter(
        {arguments.store, arguments.seed, arguments.life, arguments.steady}));
  }
  return Exit(check->parsed() ? Check(arguments) : Soak(arguments));
}

}  // namespace
}  // namespace ckptdb::soak

int main(int argc, char** argv) { return ckptdb::soak::Main(argc, argv); }
