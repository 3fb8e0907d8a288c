// Opens the store that the command line names.
#ifndef CKPTDB_TOOLS_OPEN_STORE_H_
#define CKPTDB_TOOLS_OPEN_STORE_H_

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/db/store.h"
#include "ckptdb/tools/command.h"

namespace ckptdb::tool {

// Opens the store for commands that change nothing, also while a trainer owns
// it. The reader has seen what the trainer committed.
absl::StatusOr<std::unique_ptr<Reader>> OpenReader(const Context& context);

// Opens the store for commands that change it. Nothing is swept in the
// background, and new files have the modes of the existing ones. Returns
// Unavailable, naming the process, when another process has the store open.
absl::StatusOr<std::unique_ptr<Store>> OpenOwner(const Context& context);

// Opens the step that `text` names: a number, or "latest". `reader` must
// outlive it.
absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(const Context& context,
                                                     Reader* reader,
                                                     const std::string& text);

// Returns whether the error says that a step was retired before it was open, or
// while it was read without a lease.
bool IsGone(const absl::Status& status);

// Calls `read`, which resolves the steps that it reads, until it returns
// anything but Aborted, and once unless `latest`: a trainer may retire the step
// that "latest" stood for, and then there is a later one. Returns Aborted with
// the number of tries after the last.
absl::Status RetryLatest(bool latest, absl::FunctionRef<absl::Status()> read);

// Returns the status with `place` before its message, unless it is in it
// already.
absl::Status WithPlace(const absl::Status& status, absl::string_view place);

// Store::Open returns Unavailable for a busy store and for I/O errors alike.
// Only the first stays Unavailable, the rest become Internal, so that exit
// codes tell them apart.
absl::Status ReadingStatus(const absl::Status& status);

// Returns "step 1000".
std::string StepName(int64_t step);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_OPEN_STORE_H_
