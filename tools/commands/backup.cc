// SPDX-License-Identifier: Apache-2.0
// ckptdb backup: consistent copies of a store that a trainer may have open.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "db/backup.h"
#include "schema/status.h"
#include "tools/backup_fields.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/interrupt.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/outside_store.h"
#include "tools/progress_line.h"
#include "tools/text_table.h"
#include "tools/value_checks.h"

namespace ckptdb::tool {
namespace {

constexpr char kBackupNotes[] =
    "A backup is a folder DIR/TIME or DIR/NAME. It is a store, which all\n"
    "commands read. Data files are shared with the store by hard links where\n"
    "DIR is on the same file system, otherwise with earlier backups in DIR, "
    "so\n"
    "that only new files are copied. An interrupted backup leaves no name; "
    "the\n"
    "next one continues with its files.\n";

class BackupCommand : public Command {
 public:
  BackupCommand()
      : Command({.name = "backup",
                 .summary = "Copy a store, even while its trainer saves",
                 .notes = kBackupNotes,
                 .examples =
                     "  ckptdb backup /backups/ctr --store /checkpoints/ctr\n"
                     "  ckptdb backup /backups/ctr -s /checkpoints/ctr --keep "
                     "7 --verify\n"
                     "  ckptdb backup /backups/ctr --list\n"}) {}
  void AddArguments(CLI::App* app) override {
    app->add_option("dir", folder_, "folder of the backups")
        ->required()
        ->type_name("DIR");
    app->add_flag("--list", list_, "list the backups instead");
    app->add_flag("--verify", verify_,
                  "read the whole backup and check it; with --list, all");
    app->add_option("--keep", keep_,
                    "then remove backups older than the newest N complete "
                    "ones, except those with a name")
        ->type_name("N")
        ->check(AtLeast(1));
    app->add_option("--name", options_.name, "name of the backup")
        ->type_name("NAME");
    app->add_flag("--copy", copy_, "copy data files, never link them");
  }
  absl::Status Run(const Context& context) override;

 private:
  absl::Status List(const Context& context) const;
  absl::Status Make(const Context& context);
  void Print(const Context& context, const Backup& backup,
             const std::vector<std::string>& removed) const;

  std::string folder_;
  bool list_ = false;
  bool verify_ = false;
  bool copy_ = false;
  std::optional<uint64_t> keep_;
  CopyOptions options_;
};

absl::Status BackupCommand::Run(const Context& context) {
  const Interrupt interrupt;
  return list_ ? List(context) : Make(context);
}

// Returns why a backup cannot be used; empty if it can.
absl::Status DamageOf(const Context& context, const Backup& backup,
                      bool verify) {
  if (!backup.damage.empty()) return absl::DataLossError(backup.damage);
  return verify ? VerifyWithProgress(context, backup) : absl::OkStatus();
}

absl::Status BackupCommand::List(const Context& context) const {
  const auto backups = ListBackups(folder_);
  if (!backups.ok()) return WithPlace(ReadingStatus(backups.status()), folder_);
  TextTable table({"NAME", "MADE (UTC)", ">AGE", ">STEPS", ">LATEST", ">FILES",
                   ">BYTES", ">NEW", "STORE"});
  Json document = {{"folder", folder_}, {"backups", Json::array()}};
  absl::Status first_damage;
  for (const Backup& backup : *backups) {
    absl::Status damage = DamageOf(context, backup, verify_);
    if (absl::IsCancelled(damage)) {
      return Interrupt::Describe(damage, "the backups are not verified");
    }
    if (!damage.ok()) context.PrintError(WithPlace(damage, backup.path));
    first_damage.Update(damage);
    Json json = BackupJson(backup);
    json["damage"] = ReasonJson(std::string(damage.message()));
    document["backups"].push_back(std::move(json));
    table.AddRow({Printable(backup.name), FormatUtc(backup.made_at_micros),
                  FormatAge(backup.made_at_micros, context.now_micros),
                  absl::StrCat(backup.steps), LatestText(backup),
                  absl::StrCat(backup.files), FormatBytes(backup.bytes),
                  FormatBytes(backup.new_bytes), backup.store_uuid});
  }
  if (context.json) {
    PrintJson(document, context.out);
  } else {
    *context.out << table.ToString();
  }
  return first_damage;
}

// Returns DataLoss if files were missing in the store, and so in the backup.
absl::Status DamageOfStore(const Context& context, const Backup& backup) {
  if (backup.bad_files.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      context.store, " lacks ", backup.bad_files.front(),
      backup.bad_files.size() > 1
          ? absl::StrCat(" and ", backup.bad_files.size() - 1, " more files")
          : "",
      ", and so does the backup, which --keep does not count; \"ckptdb repair "
      "-s ",
      context.store, "\" says which steps are lost"));
}

absl::Status BackupCommand::Make(const Context& context) {
  CKPTDB_RETURN_IF_ERROR(CheckOutsideStore(folder_, context.store));
  ProgressLine progress(context.terminal, "backup");
  options_.links = !copy_;
  options_.cancelled = [] { return Interrupt::asked(); };
  options_.progress = [&](uint64_t done, uint64_t all) {
    progress.Update(done, all);
  };
  const auto backup = MakeBackup(context.store, folder_, options_);
  if (!backup.ok()) {
    return Interrupt::Describe(ReadingStatus(backup.status()),
                               "the next backup continues with its files");
  }
  if (verify_) {
    CKPTDB_RETURN_IF_ERROR(
        Interrupt::Describe(VerifyWithProgress(context, *backup),
                            absl::StrCat("the backup ", backup->name,
                                         " exists, but is not verified")));
  }
  std::vector<std::string> removed;
  if (keep_.has_value()) {
    auto old = RemoveOldBackups(folder_, backup->store_uuid, *keep_);
    if (!old.ok()) return ReadingStatus(old.status());
    removed = *std::move(old);
  }
  Print(context, *backup, removed);
  return DamageOfStore(context, *backup);
}

void BackupCommand::Print(const Context& context, const Backup& backup,
                          const std::vector<std::string>& removed) const {
  if (context.json) {
    PrintJson({{"store", context.store},
               {"folder", folder_},
               {"backup", BackupJson(backup)},
               {"verified", verify_},
               {"removed_backups", removed}},
              context.out);
    return;
  }
  *context.out << Printable(backup.path) << '\n'
               << backup.steps << " steps, latest " << LatestText(backup)
               << "; " << backup.files << " files, "
               << FormatBytes(backup.bytes) << ", of which "
               << FormatBytes(backup.new_bytes) << " are new"
               << (verify_ ? "; verified" : "") << '\n';
  for (const std::string& name : removed) {
    *context.out << "removed " << Printable(name) << '\n';
  }
}

}  // namespace

std::unique_ptr<Command> NewBackup() {
  return std::make_unique<BackupCommand>();
}

}  // namespace ckptdb::tool
