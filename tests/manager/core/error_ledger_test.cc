// SPDX-License-Identifier: Apache-2.0
#include "manager/core/error_ledger.h"

#include "manager/save/pending_save_state.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using internal::ErrorLedger;

const auto kSave = Unavailable("disk");
const auto kCallback = Internal("callback");

// A call returns one status, and neither of two errors is lost.
TEST(ErrorLedger, ReturnsASaveErrorBeforeACallbackError) {
  ErrorLedger errors;
  errors.NoteCallback(absl::InternalError("callback threw"));
  errors.NoteSave(std::make_shared<PendingSave::State>(7),
                  absl::UnavailableError("disk is gone"));
  EXPECT_THAT(errors.PeekError(), kSave);
  EXPECT_THAT(errors.TakeError(), kSave);
  EXPECT_THAT(errors.PeekError(), kCallback);
  EXPECT_THAT(errors.TakeError(), kCallback);
  EXPECT_OK(errors.PeekError());
  EXPECT_OK(errors.TakeError());
}

TEST(ErrorLedger, KeepsTheFirstErrorOfEachKind) {
  ErrorLedger errors;
  errors.NoteSave(std::make_shared<PendingSave::State>(7),
                  absl::UnavailableError("disk is gone"));
  errors.NoteSave(std::make_shared<PendingSave::State>(8),
                  absl::AbortedError("later"));
  errors.NoteCallback(absl::InternalError("callback threw"));
  errors.NoteCallback(absl::AbortedError("later"));
  EXPECT_THAT(errors.TakeSaveError(), kSave);
  EXPECT_THAT(errors.TakeCallbackError(), kCallback);
}

}  // namespace
}  // namespace ckptdb::testing
