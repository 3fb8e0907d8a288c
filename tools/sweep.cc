#include "ckptdb/tools/sweep.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ckptdb/tools/format.h"
#include "ckptdb/tools/open_store.h"
#include "ckptdb/tools/progress_line.h"

namespace ckptdb::tool {

absl::StatusOr<Store::SweepResult> Sweep(const Context& context, Store* store) {
  const ProgressLine progress(context.terminal,
                              absl::StrCat(context.command, ": sweeping"));
  auto swept = store->Sweep();
  if (swept.ok()) return swept;
  return WithPlace(ReadingStatus(swept.status()), context.store);
}

// Inline bytes have a number of their own, as they are in the database's files
// and not in those that were removed.
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
         << ": its data is there, but its record is lost\n";
  }
  if (!swept.inline_retained_reason.empty()) {
    *out << "the space of small saves cannot be freed: "
         << Printable(swept.inline_retained_reason) << '\n';
  }
  if (!swept.inline_postponed_reason.empty()) {
    *out << "the space of small saves is freed by a later sweep: "
         << Printable(swept.inline_postponed_reason) << '\n';
  }
  PrintUnswept(swept.unswept, out);
}

void PrintUnswept(const std::vector<Usage::Unswept>& unswept,
                  std::ostream* out) {
  for (const Usage::Unswept& entry : unswept) {
    *out << (entry.foreign ? "not the store's: " : "not removed: ")
         << Printable(entry.path) << ": " << Printable(entry.reason) << '\n';
  }
}

// Entries that do not belong to the store stay, and are no failure. Only an
// entry of the store's own that stays makes `ckptdb gc` fail.
absl::Status UnsweptStatus(const std::string& store,
                           const std::vector<Usage::Unswept>& unswept) {
  const auto own =
      std::count_if(unswept.begin(), unswept.end(),
                    [](const Usage::Unswept& entry) { return !entry.foreign; });
  if (own == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      store, ": ", own,
      " of its entries cannot be removed; see \"not removed\" above"));
}

void SetUnswept(const std::vector<Usage::Unswept>& unswept, Json* json) {
  (*json)["unswept"] = Json::array();
  for (const Usage::Unswept& entry : unswept) {
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
