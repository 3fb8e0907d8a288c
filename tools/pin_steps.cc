// SPDX-License-Identifier: Apache-2.0
#include "tools/pin_steps.h"

#include <cstdint>
#include <memory>
#include <string>

#include "schema/status.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/step_argument.h"

namespace ckptdb::tool {
namespace {

absl::Status Change(Store* store, int64_t step, bool pin) {
  return pin ? store->Pin(step) : store->Unpin(step);
}
absl::Status Change(Reader* reader, int64_t step, bool pin) {
  return pin ? reader->RequestPin(step) : reader->RequestUnpin(step);
}

// Returns the changed steps.
template <typename StoreOrReader>
absl::StatusOr<std::vector<int64_t>> ChangeAll(
    const Context& context, StoreOrReader* store,
    const std::vector<std::string>& texts, bool pin) {
  // Resolves all steps before changing the first.
  auto records = ResolveSteps(*store, texts);
  if (!records.ok()) return WithPlace(records.status(), context.store);
  std::vector<int64_t> steps;
  for (const StepRecord& record : *records) {
    const int64_t step = record.version.step;
    const absl::Status status = Change(store, step, pin);
    if (!status.ok()) return WithPlace(ReadingStatus(status), StepName(step));
    steps.push_back(step);
  }
  return steps;
}

// Posts the requests to the store's owner.
absl::StatusOr<std::vector<int64_t>> PostAll(
    const Context& context, const std::vector<std::string>& texts, bool pin) {
  CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
  return ChangeAll(context, reader.get(), texts, pin);
}

}  // namespace

absl::Status PinSteps(const Context& context,
                      const std::vector<std::string>& texts, bool pin) {
  absl::StatusOr<std::unique_ptr<Store>> store = OpenOwner(context);
  // OpenOwner returns Unavailable only for a busy store.
  const bool posted = absl::IsUnavailable(store.status());
  if (!posted) CKPTDB_RETURN_IF_ERROR(store.status());
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<int64_t> steps,
                          posted
                              ? PostAll(context, texts, pin)
                              : ChangeAll(context, store->get(), texts, pin));
  const std::string verb = pin ? "pin" : "unpin";
  const std::string done = verb + "ned";
  if (context.json) {
    PrintJson({{"store", context.store},
               {"posted", posted},
               {done + "_steps", steps}},
              context.out);
    return absl::OkStatus();
  }
  for (const int64_t step : steps) {
    *context.out << (posted ? "posted: " + verb : done) << " step " << step
                 << '\n';
  }
  if (posted) {
    *context.out << "another process has the store open and will do it with "
                    "its next save\n";
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::tool
