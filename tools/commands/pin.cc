// SPDX-License-Identifier: Apache-2.0
// ckptdb pin: protects steps from removal; and ckptdb unpin.
#include <cstdint>
#include <memory>

#include "tools/command.h"
#include "tools/step_change.h"

namespace ckptdb::tool {
namespace {

constexpr char kPinNotes[] =
    "While another process has the store open, the request is posted, and that "
    "process\ncarries it out with its next save.\n";

}  // namespace

std::unique_ptr<Command> NewPin() {
  return NewStepChange(
      {.name = "pin",
       .summary = "Pin steps, so that retention and rm do not remove them",
       .notes = kPinNotes,
       .examples = "  ckptdb pin 1000 --store /checkpoints/ctr\n"},
      "pinned",
      {.apply = [](Store* store, int64_t step) { return store->Pin(step); },
       .post = [](Reader* reader,
                  int64_t step) { return reader->RequestPin(step); }});
}

std::unique_ptr<Command> NewUnpin() {
  return NewStepChange(
      {.name = "unpin",
       .summary = "Unpin steps, so that they can be removed",
       .notes = kPinNotes,
       .examples = "  ckptdb unpin 1000 --store /checkpoints/ctr\n"},
      "unpinned",
      {.apply = [](Store* store, int64_t step) { return store->Unpin(step); },
       .post = [](Reader* reader,
                  int64_t step) { return reader->RequestUnpin(step); }});
}

}  // namespace ckptdb::tool
