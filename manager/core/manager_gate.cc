// SPDX-License-Identifier: Apache-2.0
#include "manager/core/manager_gate.h"

#include "absl/strings/str_cat.h"

namespace ckptdb::internal {

// Code that the manager calls must not call it back: it would wait for the
// mutex of the call that it runs in, or block the save that the training thread
// waits for.
absl::Status ManagerGate::CheckCaller(absl::string_view what) const {
  CKPTDB_RETURN_IF_ERROR(home().Check(what));
  return calls_.InCall() ? ReentryError(what) : absl::OkStatus();
}

absl::Status ManagerGate::ClosedError(absl::string_view what) const {
  return calls_.Refusal(what,
                        absl::StrCat("the manager of store \"", path_, "\""));
}

absl::Status ManagerGate::ReentryError(absl::string_view what) const {
  return absl::FailedPreconditionError(absl::StrCat(
      what, ": code that the manager of store \"", path_,
      "\" calls, such as on_saved, must not call the manager, and a "
      "handler of a signal may only call SetPreempted"));
}

}  // namespace ckptdb::internal
