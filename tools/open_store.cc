#include "ckptdb/tools/open_store.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ckptdb/tools/progress_line.h"
#include "ckptdb/tools/step_argument.h"

namespace ckptdb::tool {
namespace {

absl::Status OpenError(const Context& context, const absl::Status& status) {
  absl::Status placed = WithPlace(status, context.store);
  if (context.store_given || !absl::IsNotFound(status)) return placed;
  return absl::NotFoundError(absl::StrCat(
      placed.message(), "; name a store with --store or CKPTDB_STORE"));
}

// The store is of use without them, and yet nobody should overlook it.
void WarnOf(const std::vector<std::string>& bad_files, const Context& context) {
  for (const std::string& file : bad_files) {
    context.PrintError(absl::DataLossError(absl::StrCat(
        context.store, "/db/", file,
        " is damaged or gone; \"verify\" names the steps that need it")));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Reader>> OpenReader(const Context& context) {
  const ProgressLine progress(context.terminal,
                              absl::StrCat(context.command, ": opening"));
  auto reader = Reader::Open(context.store);
  if (!reader.ok()) return OpenError(context, ReadingStatus(reader.status()));
  WarnOf((*reader)->BadFiles(), context);
  return reader;
}

absl::StatusOr<std::unique_ptr<Store>> OpenOwner(const Context& context) {
  const ProgressLine progress(context.terminal,
                              absl::StrCat(context.command, ": opening"));
  StoreOptions options;
  options.create_if_missing = false;
  options.background_sweep = false;
  auto store = Store::Open(context.store, options);
  if (!store.ok()) return OpenError(context, store.status());
  WarnOf((*store)->BadFiles(), context);
  return store;
}

absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(const Context& context,
                                                     Reader* reader,
                                                     const std::string& text) {
  constexpr int kTries = 100;
  for (int i = 0;; ++i) {
    auto record = ResolveStep(*reader, text);
    if (!record.ok()) return WithPlace(record.status(), context.store);
    const int64_t number = record->version.step;
    auto step = reader->OpenStep(number);
    if (step.ok()) return step;
    // A trainer has retired it meanwhile: there is a later one.
    if (text == kLatest && absl::IsNotFound(step.status()) && i < kTries) {
      continue;
    }
    return WithPlace(ReadingStatus(step.status()), StepName(number));
  }
}

absl::Status WithPlace(const absl::Status& status, absl::string_view place) {
  if (status.ok() || absl::StrContains(status.message(), place)) return status;
  return {status.code(), absl::StrCat(place, ": ", status.message())};
}

absl::Status ReadingStatus(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return status;
  return absl::InternalError(status.message());
}

std::string StepName(int64_t step) { return absl::StrCat("step ", step); }

}  // namespace ckptdb::tool
