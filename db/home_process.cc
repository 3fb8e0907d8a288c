#include "ckptdb/db/home_process.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace ckptdb::internal {

HomeProcess::HomeProcess() : process_(getpid()) {}

bool HomeProcess::IsForked() const { return getpid() != process_; }

absl::Status HomeProcess::Check(absl::string_view what) const {
  const pid_t now = getpid();
  if (now == process_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      what, ": process ", now, " was forked from process ", process_,
      ", which has opened the store; call exec() in the child, or start it "
      "before the store is opened"));
}

absl::Status EnterLibrary(absl::string_view what) {
  static const HomeProcess kFirst;
  return kFirst.Check(what);
}

}  // namespace ckptdb::internal
