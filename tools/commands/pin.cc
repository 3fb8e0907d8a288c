// SPDX-License-Identifier: Apache-2.0
// ckptdb pin: protects steps from removal; and ckptdb unpin.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "schema/status.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/step_argument.h"

namespace ckptdb::tool {
namespace {

constexpr char kNotes[] =
    "While another process has the store open, the request is posted, and that "
    "process\ncarries it out with its next save.\n";

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

// Pins or unpins the steps, or posts the request if another process has the
// store open, and prints which. Changes nothing if one of them does not exist.
class PinCommand : public Command {
 public:
  PinCommand(Help help, bool pin) : Command(std::move(help)), pin_(pin) {}
  void AddArguments(CLI::App* app) override { AddSteps(app, &steps_); }
  absl::Status Run(const Context& context) override;

 private:
  const bool pin_;
  std::vector<std::string> steps_;
};

absl::Status PinCommand::Run(const Context& context) {
  absl::StatusOr<std::unique_ptr<Store>> store = OpenOwner(context);
  // OpenOwner returns Unavailable only for a busy store.
  const bool posted = absl::IsUnavailable(store.status());
  if (!posted) CKPTDB_RETURN_IF_ERROR(store.status());
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<int64_t> steps,
                          posted
                              ? PostAll(context, steps_, pin_)
                              : ChangeAll(context, store->get(), steps_, pin_));
  const std::string verb = pin_ ? "pin" : "unpin";
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

}  // namespace

std::unique_ptr<Command> NewPin() {
  return std::make_unique<PinCommand>(
      Command::Help{
          .name = "pin",
          .summary = "Pin steps, so that retention and rm do not remove them",
          .notes = kNotes,
          .examples = "  ckptdb pin 1000 --store /checkpoints/ctr\n"},
      /*pin=*/true);
}

std::unique_ptr<Command> NewUnpin() {
  return std::make_unique<PinCommand>(
      Command::Help{
          .name = "unpin",
          .summary = "Unpin steps, so that they can be removed",
          .notes = kNotes,
          .examples = "  ckptdb unpin 1000 --store /checkpoints/ctr\n"},
      /*pin=*/false);
}

}  // namespace ckptdb::tool
