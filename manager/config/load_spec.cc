// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_cat.h"
#include "manager/config/json_reader.h"
#include "manager/config/json_text.h"
#include "manager/config/load_json.h"
#include "manager/load_rule.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::Json;
using internal::JsonText;

constexpr char kPlace[] = "load specification";

// Reads one rule. Missing keys keep the defaults of LoadRule; an unknown key is
// an error that names the nearest.
absl::StatusOr<LoadRule> ReadRule(size_t number, const Json& json) {
  LoadRule rule;
  internal::ObjectReader reader(absl::StrCat(kPlace, ", rule ", number), json);
  reader.Read("path", &rule.path);
  reader.Read("step", &rule.step);
  internal::ReadBestOf(&reader, "best", &rule.best);
  reader.Read("load", &rule.load);
  reader.Read("exclude", &rule.exclude);
  reader.Read("oname", &rule.oname);
  internal::ReadEvolutions(&reader, "tables", &rule.tables);
  reader.Read("strict", &rule.strict);
  reader.Read("hashtable_clear", &rule.hashtable_clear);
  reader.Read("cast", &rule.cast);
  bool is_dynamic = !rule.only_if_empty;
  reader.Read("is_dynamic", &is_dynamic);
  rule.only_if_empty = !is_dynamic;
  reader.Read("ignore_error", &rule.ignore_error);
  reader.Read("skip", &rule.skip);
  CKPTDB_RETURN_IF_ERROR(reader.Finish());
  return rule;
}

}  // namespace

absl::StatusOr<std::vector<LoadRule>> ParseLoadSpec(absl::string_view json) {
  CKPTDB_ASSIGN_OR_RETURN(const JsonText text, JsonText::Parse(kPlace, json));
  const Json& list = text.json();
  if (!list.is_array()) {
    return text.Locate(internal::Unexpected(absl::StrCat(kPlace, ": the value"),
                                            list, "a list of rules"));
  }
  std::vector<LoadRule> rules;
  for (size_t i = 0; i < list.size(); ++i) {
    // Errors are located while their value exists, because its address
    // identifies it.
    absl::StatusOr<LoadRule> rule = ReadRule(i, list[i]);
    if (!rule.ok()) return text.Locate(rule.status());
    rules.push_back(*std::move(rule));
  }
  return rules;
}

}  // namespace ckptdb
