// SPDX-License-Identifier: Apache-2.0
// Texts and checks that backup and restore-backup share.
#ifndef CKPTDB_TOOLS_BACKUP_FIELDS_H_
#define CKPTDB_TOOLS_BACKUP_FIELDS_H_

#include <string>

#include "absl/status/status.h"
#include "db/backup.h"
#include "tools/command.h"
#include "tools/json.h"

namespace ckptdb::tool {

// Returns the fields of "stored backup" in docs/json.md.
Json BackupJson(const Backup& backup);

// Returns the number of the latest step, or "-".
std::string LatestText(const Backup& backup);

// VerifyBackup with a progress line, until Interrupt::asked.
absl::Status VerifyWithProgress(const Context& context, const Backup& backup);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_BACKUP_FIELDS_H_
