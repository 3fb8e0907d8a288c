// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/ship_note.h"

#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "db/base/paths.h"
#include "db/transfer/shipped_note.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb {
namespace internal {
namespace {

constexpr char kUrlField[] = "url ";
constexpr char kTimeField[] = "written_at_micros ";
constexpr char kAttemptField[] = "last_attempt ";
constexpr char kSkippedField[] = "skipped ";
constexpr char kErrorField[] = "error ";

template <typename Number>
absl::Status ParseField(absl::string_view text, Number* number) {
  if (absl::SimpleAtoi(text, number)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("\"", text, "\" is not a number"));
}

absl::Status ParseLine(absl::string_view line, ShipNote* note) {
  if (absl::ConsumePrefix(&line, kUrlField)) note->url = std::string(line);
  if (absl::ConsumePrefix(&line, kErrorField)) note->error = std::string(line);
  if (absl::ConsumePrefix(&line, kTimeField)) {
    return ParseField(line, &note->written_at_micros);
  }
  if (absl::ConsumePrefix(&line, kAttemptField)) {
    return ParseField(line, &note->last_attempt);
  }
  if (!absl::ConsumePrefix(&line, kSkippedField)) return absl::OkStatus();
  for (const absl::string_view step : absl::StrSplit(line, ' ')) {
    CKPTDB_RETURN_IF_ERROR(ParseField(step, &note->skipped.emplace_back()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string FormatShipNote(const ShipNote& note) {
  std::string text = absl::StrCat(kUrlField, note.url, "\n", kTimeField,
                                  note.written_at_micros, "\n", kAttemptField,
                                  note.last_attempt, "\n");
  if (!note.skipped.empty()) {
    absl::StrAppend(&text, kSkippedField, absl::StrJoin(note.skipped, " "),
                    "\n");
  }
  if (!note.error.empty()) {
    absl::StrAppend(&text, kErrorField,
                    absl::StrReplaceAll(note.error, {{"\n", " "}}), "\n");
  }
  return text;
}

absl::StatusOr<ShipNote> ParseShipNote(absl::string_view text) {
  ShipNote note;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    CKPTDB_RETURN_IF_ERROR(ParseLine(line, &note));
  }
  if (note.url.empty()) return absl::DataLossError("no line has a URL");
  return note;
}

}  // namespace internal

absl::StatusOr<std::optional<ShipNote>> ReadShipNote(absl::string_view store) {
  const std::string path = internal::ShippedNotePath(store);
  CKPTDB_ASSIGN_OR_RETURN(const std::optional<std::string> text,
                          internal::ReadShippedNote(store));
  if (!text.has_value()) return std::nullopt;
  absl::StatusOr<ShipNote> note = internal::ParseShipNote(*text);
  CKPTDB_RETURN_IF_ERROR(internal::Annotate(note.status(), path));
  return *std::move(note);
}

}  // namespace ckptdb
