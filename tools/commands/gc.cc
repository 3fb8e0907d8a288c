// SPDX-License-Identifier: Apache-2.0
// ckptdb gc: removes data that no step, lease or save in progress needs.
#include <memory>
#include <string>

#include "schema/status.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/sweep.h"

namespace ckptdb::tool {
namespace {

class Gc : public Command {
 public:
  Gc()
      : Command({.name = "gc",
                 .summary = "Remove the data that no step and no reader needs",
                 .examples = "  ckptdb gc --store /checkpoints/ctr\n"}) {}
  absl::Status Run(const Context& context) override {
    CKPTDB_ASSIGN_OR_RETURN(auto store, OpenOwner(context));
    CKPTDB_ASSIGN_OR_RETURN(const Store::SweepResult swept,
                            Sweep(context, store.get()));
    if (context.json) {
      Json document = {{"store", context.store}};
      SetSwept(swept, &document);
      PrintJson(document, context.out);
    } else {
      PrintSwept(swept, /*inline_bytes=*/0, context.out);
    }
    return UnsweptStatus(context.store, swept.unswept);
  }
};

}  // namespace

std::unique_ptr<Command> NewGc() { return std::make_unique<Gc>(); }

}  // namespace ckptdb::tool
