// SPDX-License-Identifier: Apache-2.0
// ckptdb restore-backup: makes a store from a backup.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "db/backup.h"
#include "db/reader.h"
#include "db/store.h"
#include "schema/status.h"
#include "tools/backup_fields.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/outside_store.h"
#include "tools/progress_line.h"

namespace ckptdb::tool {
namespace {

constexpr char kRestoreNotes[] =
    "DIR is a backup, or a folder of backups, of which the newest is taken. "
    "The\n"
    "new store has the same steps and its own uuid, so followers of the "
    "former\n"
    "store stop instead of reading it by mistake. It appears complete and at\n"
    "once.\n";

class RestoreBackupCommand : public Command {
 public:
  RestoreBackupCommand()
      : Command({.name = "restore-backup",
                 .summary = "Make a store from a backup",
                 .notes = kRestoreNotes,
                 .examples =
                     "  ckptdb restore-backup /backups/ctr /checkpoints/new\n"
                     "  ckptdb restore-backup /backups/ctr --name "
                     "before-upgrade /checkpoints/ctr --force\n"}) {}
  void AddArguments(CLI::App* app) override {
    app->add_option("dir", folder_, "backup, or folder of backups")
        ->required()
        ->type_name("DIR");
    app->add_option("target", target_, "folder of the new store")
        ->type_name("STORE");
    app->add_option("--name", name_, "name of the backup in DIR")
        ->type_name("NAME");
    app->add_flag("--force", force_, "replace a store that exists");
    app->add_flag("--verify", verify_, "read and check the backup first");
    app->add_flag("--copy", copy_, "copy data files, never link them");
  }
  absl::Status Run(const Context& context) override;

 private:
  absl::StatusOr<Backup> Find() const;
  absl::Status Copy(const Context& context, const Backup& backup,
                    const std::string& target) const;

  std::string folder_;
  std::string target_;
  std::string name_;
  bool force_ = false;
  bool verify_ = false;
  bool copy_ = false;
};

// Returns the last of `backups`, which are ordered by age. Returns an error if
// it is damaged or incomplete, or if the folder has backups of several stores,
// because the user may not expect this choice.
absl::StatusOr<Backup> NewestOf(const std::vector<Backup>& backups) {
  const Backup& newest = backups.back();
  if (!newest.damage.empty()) {
    return absl::DataLossError(
        absl::StrCat(newest.damage, "; choose another backup with --name"));
  }
  if (!newest.bad_files.empty()) {
    return absl::DataLossError(absl::StrCat(
        newest.path, " lacks ", newest.bad_files.front(),
        ", as the store did; choose another backup with --name, or this one "
        "with --name ",
        newest.name));
  }
  for (const Backup& each : backups) {
    if (!each.damage.empty() || each.store_uuid == newest.store_uuid) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(each.path, " is of store ", each.store_uuid,
                     ", and the newest, ", newest.name, ", of store ",
                     newest.store_uuid, "; choose one with --name"));
  }
  return newest;
}

absl::StatusOr<Backup> RestoreBackupCommand::Find() const {
  if (!name_.empty()) return FindBackup(absl::StrCat(folder_, "/", name_));
  absl::StatusOr<Backup> itself = FindBackup(folder_);
  if (!absl::IsNotFound(itself.status())) return itself;
  const absl::StatusOr<std::vector<Backup>> backups = ListBackups(folder_);
  if (!backups.ok() && !absl::IsNotFound(backups.status())) {
    return backups.status();
  }
  if (!backups.ok() || backups->empty()) {
    return absl::NotFoundError(
        absl::StrCat("\"", folder_,
                     "\" is not a backup and contains none; pass the folder of "
                     "the backups first, then the new store"));
  }
  return NewestOf(*backups);
}

absl::Status RestoreBackupCommand::Copy(const Context& context,
                                        const Backup& backup,
                                        const std::string& target) const {
  ProgressLine progress(context.terminal, "restore-backup");
  CopyOptions options;
  options.links = !copy_;
  options.replace = force_;
  options.cancelled = [] { return Interrupt::asked(); };
  options.progress = [&](uint64_t done, uint64_t all) {
    progress.Update(done, all);
  };
  const absl::Status copied = CopyStore(backup.path, target, options);
  if (absl::IsAlreadyExists(copied) && !force_) {
    return absl::AlreadyExistsError(
        absl::StrCat(copied.message(), "; --force replaces a store"));
  }
  const bool held = copied.GetPayload(kHolderPayload).has_value();
  return held ? copied : ReadingStatus(copied);
}

absl::Status RestoreBackupCommand::Run(const Context& context) {
  if (target_.empty() && !context.store_given) {
    return absl::InvalidArgumentError(
        "name the folder of the new store, or set --store");
  }
  const std::string target = target_.empty() ? context.store : target_;
  CKPTDB_RETURN_IF_ERROR(CheckNotWithinStore(target));
  // A relative path becomes invalid when the copy replaces the current folder.
  CKPTDB_ASSIGN_OR_RETURN(const std::string path, Store::ResolvePath(target));
  const Interrupt interrupt;
  const auto backup = Find();
  if (!backup.ok()) return ReadingStatus(backup.status());
  absl::Status status;
  if (verify_) status = VerifyWithProgress(context, *backup);
  if (status.ok()) status = Copy(context, *backup, path);
  CKPTDB_RETURN_IF_ERROR(Interrupt::Describe(status, "nothing was restored"));
  const auto opened = Reader::Open(path);
  if (!opened.ok()) return ReadingStatus(opened.status());
  const Reader* const reader = opened->get();
  if (context.json) {
    PrintJson({{"store", target},
               {"uuid", reader->uuid()},
               {"steps", reader->Steps().size()},
               {"backup", BackupJson(*backup)},
               {"verified", verify_}},
              context.out);
    return absl::OkStatus();
  }
  *context.out << "restored " << Printable(backup->path) << " to "
               << Printable(target) << ": " << backup->steps
               << " steps, latest " << LatestText(*backup) << '\n';
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> NewRestoreBackup() {
  return std::make_unique<RestoreBackupCommand>();
}

}  // namespace ckptdb::tool
