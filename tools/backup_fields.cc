// SPDX-License-Identifier: Apache-2.0
#include "tools/backup_fields.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "tools/format.h"
#include "tools/interrupt.h"
#include "tools/open_store.h"
#include "tools/progress_line.h"

namespace ckptdb::tool {

Json BackupJson(const Backup& backup) {
  return {{"name", backup.name},
          {"path", backup.path},
          {"store_uuid", backup.store_uuid},
          {"made_at", FormatIsoUtc(backup.made_at_micros)},
          {"made_at_micros", backup.made_at_micros},
          {"named", backup.named},
          {"steps", backup.steps},
          {"latest_step",
           backup.latest_step < 0 ? Json() : Json(backup.latest_step)},
          {"files", backup.files},
          {"bytes", backup.bytes},
          {"new_bytes", backup.new_bytes},
          {"missing_files", backup.bad_files}};
}

std::string LatestText(const Backup& backup) {
  return backup.latest_step < 0 ? "-" : absl::StrCat(backup.latest_step);
}

absl::Status VerifyWithProgress(const Context& context, const Backup& backup) {
  ProgressLine progress(context.terminal,
                        absl::StrCat(context.command, ": ", backup.name));
  ReadOptions options;
  options.cancelled = [] { return Interrupt::asked(); };
  options.progress = [&](uint64_t done, uint64_t all) {
    progress.Update(done, all);
  };
  return ReadingStatus(VerifyBackup(backup.path, options));
}

}  // namespace ckptdb::tool
