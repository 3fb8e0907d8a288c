// SPDX-License-Identifier: Apache-2.0
// Opens the store named on the command line.
#ifndef CKPTDB_TOOLS_OPEN_STORE_H_
#define CKPTDB_TOOLS_OPEN_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/reader.h"
#include "db/store.h"
#include "tools/command.h"

namespace ckptdb::tool {

// Opens the store for commands that change nothing, even while a trainer owns
// it. The reader sees what the trainer has committed.
absl::StatusOr<std::unique_ptr<Reader>> OpenReader(const Context& context);

// Opens the store for commands that change it. There is no background sweep,
// and new files get the modes of existing ones. Returns Unavailable, naming the
// owner, if another process has the store open. Creates a missing store if
// `create` is true. Saves and folds leave `reserve_bytes` of the disk free.
absl::StatusOr<std::unique_ptr<Store>> OpenOwner(
    const Context& context, bool create = false,
    uint64_t reserve_bytes = StoreOptions().reserve_bytes);

// Sets the modes of new files to those of the store's existing files, which its
// trainer may have opened to other users.
void KeepModes(const std::string& store, StoreOptions* options);

// Opens the step that `text` names: a number, or "latest". `reader` must
// outlive it.
absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(const Context& context,
                                                     Reader* reader,
                                                     const std::string& text);

// Returns whether the error says that a step was retired before it was opened,
// or while it was read without a lease.
bool IsGone(const absl::Status& status);

// Calls `read`, which resolves the steps that it reads, until it returns
// anything but Aborted: a trainer may retire the latest step, and then there is
// a later one. Calls it once if `latest` is false. Returns Aborted with the
// number of tries after the last.
absl::Status RetryLatest(bool latest, absl::FunctionRef<absl::Status()> read);

// Returns FailedPrecondition, naming `flag`, if a save of `step` would replace
// a later step as the latest, from which a training would then resume.
absl::Status CheckBecomesLatest(const Store& store, int64_t step,
                                absl::string_view flag);

// Prepends `place` to the status's message, unless the message contains it.
absl::Status WithPlace(const absl::Status& status, absl::string_view place);

// Store::Open returns Unavailable both for a busy store and for I/O errors.
// Converts the latter to Internal, so that their exit codes differ.
absl::Status ReadingStatus(const absl::Status& status);

// Removes the advice to lower StoreOptions::reserve_bytes from an error about a
// full disk, because commands have no such option.
absl::Status WithoutReserveOption(const absl::Status& status);

// Returns "step 1000".
std::string StepName(int64_t step);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_OPEN_STORE_H_
