// Opening the store that the command line names.
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

// For commands that change nothing: also beside an owner. Caught up with it.
absl::StatusOr<std::unique_ptr<Reader>> OpenReader(const Context& context);

// For commands that change the store; nothing is swept unless asked for. New
// files have the modes of those that are there.
// Unavailable, naming the holder, when another process has it open.
absl::StatusOr<std::unique_ptr<Store>> OpenOwner(const Context& context);

// The step that `text` names: a number, or "latest". `reader` must outlive it.
absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(const Context& context,
                                                     Reader* reader,
                                                     const std::string& text);

// Whether a step was retired before it was open, or while it was read without a
// lease.
bool IsGone(const absl::Status& status);

// Calls `read`, which resolves the steps that it reads, until it returns
// anything but Aborted; once unless `latest`. A trainer may retire the step
// that "latest" stood for: then there is a later one. Aborted with the number
// of tries after the last.
absl::Status RetryLatest(bool latest, absl::FunctionRef<absl::Status()> read);

// The status with `place` before its message, where it is not in it.
absl::Status WithPlace(const absl::Status& status, absl::string_view place);

// Store::Open says Unavailable for a busy store and for I/O errors alike. Only
// the first stays Unavailable, the rest become Internal, so that exit codes
// tell them apart.
absl::Status ReadingStatus(const absl::Status& status);

// "step 1000"
std::string StepName(int64_t step);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_OPEN_STORE_H_
