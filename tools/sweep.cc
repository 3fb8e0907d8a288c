// SPDX-License-Identifier: Apache-2.0
#include "tools/sweep.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/format.h"
#include "tools/open_store.h"
#include "tools/progress_line.h"

namespace ckptdb::tool {

absl::StatusOr<Store::SweepResult> Sweep(const Context& context, Store* store) {
  const ProgressLine progress(context.terminal,
                              absl::StrCat(context.command, ": sweeping"));
  auto swept = store->Sweep();
  if (swept.ok()) return swept;
  return WithPlace(ReadingStatus(swept.status()), context.store);
}

// Inline bytes are reported separately, because they are in the database's
// files and not in removed files.
void PrintSwept(const Store::SweepResult& swept, uint64_t inline_bytes,
                std::ostream* out) {
  for (const Version& version : swept.swept_versions) {
    *out << "swept " << ToString(version) << '\n';
  }
  *out << "freed " << FormatBytes(swept.freed_bytes) << " of data files";
  if (inline_bytes > 0) {
    *out << " and " << FormatBytes(inline_bytes) << " that was stored inline";
  }
  *out << '\n';
  for (const Version& version : swept.quarantined_versions) {
    *out << "quarantined " << ToString(version)
         << ": its data exists, but its record is lost\n";
  }
  if (!swept.inline_retained_reason.empty()) {
    *out << "the space of small saves cannot be freed: "
         << Printable(swept.inline_retained_reason) << '\n';
  }
  if (!swept.inline_postponed_reason.empty()) {
    *out << "the space of small saves will be freed by a later sweep: "
         << Printable(swept.inline_postponed_reason) << '\n';
  }
  PrintUnswept(swept.unswept, out);
}

void PrintUnswept(const std::vector<Usage::SkippedEntry>& unswept,
                  std::ostream* out) {
  for (const Usage::SkippedEntry& entry : unswept) {
    *out << (entry.foreign ? "not the store's: " : "not removed: ")
         << Printable(entry.path) << ": " << Printable(entry.reason) << '\n';
  }
}

// Foreign entries stay, which is not an error. `ckptdb gc` fails only if an
// entry that belongs to the store cannot be removed.
absl::Status UnsweptStatus(const std::string& store,
                           const std::vector<Usage::SkippedEntry>& unswept) {
  const auto own = std::count_if(
      unswept.begin(), unswept.end(),
      [](const Usage::SkippedEntry& entry) { return !entry.foreign; });
  if (own == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      store, ": ", own,
      " of its entries could not be removed; see \"not removed\" above"));
}

void SetUnswept(const std::vector<Usage::SkippedEntry>& unswept, Json* json) {
  (*json)["unswept"] = Json::array();
  for (const Usage::SkippedEntry& entry : unswept) {
    (*json)["unswept"].push_back({{"path", entry.path},
                                  {"reason", entry.reason},
                                  {"foreign", entry.foreign}});
  }
}

void SetSwept(const Store::SweepResult& swept, Json* json) {
  (*json)["swept_versions"] = Json::array();
  for (const Version& version : swept.swept_versions) {
    (*json)["swept_versions"].push_back(ToJson(version));
  }
  (*json)["freed_bytes"] = swept.freed_bytes;
  (*json)["quarantined_versions"] = Json::array();
  for (const Version& version : swept.quarantined_versions) {
    (*json)["quarantined_versions"].push_back(ToJson(version));
  }
  (*json)["inline_retained_reason"] = ReasonJson(swept.inline_retained_reason);
  (*json)["inline_postponed_reason"] =
      ReasonJson(swept.inline_postponed_reason);
  SetUnswept(swept.unswept, json);
}

}  // namespace ckptdb::tool
