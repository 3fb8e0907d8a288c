#include "ckptdb/tools/pin_steps.h"

#include <cstdint>

#include "ckptdb/schema/status.h"
#include "ckptdb/tools/json.h"
#include "ckptdb/tools/open_store.h"
#include "ckptdb/tools/step_argument.h"

namespace ckptdb::tool {

absl::Status PinSteps(const Context& context,
                      const std::vector<std::string>& steps, bool pin) {
  CKPTDB_ASSIGN_OR_RETURN(auto store, OpenOwner(context));
  // All steps are looked up before the first is changed.
  auto records = ResolveSteps(*store, steps);
  if (!records.ok()) return WithPlace(records.status(), context.store);
  const std::string done = pin ? "pinned" : "unpinned";
  const std::string field = done + "_steps";
  Json document = {{"store", context.store}, {field, Json::array()}};
  for (const StepRecord& record : *records) {
    const int64_t step = record.version.step;
    const absl::Status status = pin ? store->Pin(step) : store->Unpin(step);
    if (!status.ok()) return WithPlace(ReadingStatus(status), StepName(step));
    document[field].push_back(step);
    if (!context.json) *context.out << done << " step " << step << '\n';
  }
  if (context.json) PrintJson(document, context.out);
  return absl::OkStatus();
}

}  // namespace ckptdb::tool
