#include "ckptdb/manager/load_spec.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

using Json = nlohmann::json;

constexpr const char* kKeys[] = {
    "path",       "step",        "load", "oname",
    "exclude",    "strict",      "skip", "hashtable_clear",
    "is_dynamic", "ignore_error"};

// How many letters must be changed, added or left out.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

absl::string_view NearestKey(absl::string_view key) {
  return *std::min_element(std::begin(kKeys), std::end(kKeys),
                           [&](const char* a, const char* b) {
                             return Distance(key, a) < Distance(key, b);
                           });
}

absl::Status Bad(size_t rule, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("load specification, rule ", rule, ": ", why));
}

// Reads the keys of one rule; the first error stays.
class RuleReader {
 public:
  RuleReader(size_t number, const Json& json) : number_(number), json_(json) {}

  void Read(const char* key, std::string* value) {
    if (const Json* found = Find(key, Json::value_t::string, "a string")) {
      *value = found->get<std::string>();
    }
  }
  void Read(const char* key, bool* value) {
    if (const Json* found = Find(key, Json::value_t::boolean, "a boolean")) {
      *value = found->get<bool>();
    }
  }
  void Read(const char* key, std::optional<int64_t>* value) {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return;
    if (!found->is_number_integer() ||
        (found->is_number_unsigned() &&
         found->get<uint64_t>() >
             static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) ||
        found->get<int64_t>() < 0) {
      return Fail(key, "a step, 0 to 2^63 - 1", *found);
    }
    *value = found->get<int64_t>();
  }
  void Read(const char* key, std::vector<std::string>* values) {
    const Json* found = Find(key, Json::value_t::array, "a list of strings");
    if (found == nullptr) return;
    values->clear();
    for (const Json& each : *found) {
      if (!each.is_string()) return Fail(key, "a list of strings", *found);
      values->push_back(each.get<std::string>());
    }
  }
  void Read(const char* key, std::map<std::string, std::string>* values) {
    constexpr char kWhat[] = "an object of strings";
    const Json* found = Find(key, Json::value_t::object, kWhat);
    if (found == nullptr) return;
    for (const auto& [name, value] : found->items()) {
      if (!value.is_string()) return Fail(key, kWhat, *found);
      (*values)[name] = value.get<std::string>();
    }
  }
  void CheckKeys() {
    for (const auto& [key, value] : json_.items()) {
      if (std::find(std::begin(kKeys), std::end(kKeys), key) !=
          std::end(kKeys)) {
        continue;
      }
      status_.Update(Bad(number_, absl::StrCat("no key \"", key, "\"; is \"",
                                               NearestKey(key), "\" meant?")));
    }
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json* Find(const char* key, Json::value_t type, const char* what) {
    const auto found = json_.find(key);
    if (found == json_.end()) return nullptr;
    if (found->type() == type) return &*found;
    Fail(key, what, *found);
    return nullptr;
  }
  void Fail(const char* key, const char* what, const Json& value) {
    status_.Update(Bad(
        number_,
        absl::StrCat("\"", key, "\" is ",
                     value.dump(-1, ' ', true, Json::error_handler_t::replace),
                     ", not ", what)));
  }

  const size_t number_;
  const Json& json_;
  absl::Status status_;
};

absl::StatusOr<LoadRule> ReadRule(size_t number, const Json& json) {
  if (!json.is_object()) return Bad(number, "it is no object");
  LoadRule rule;
  RuleReader reader(number, json);
  reader.CheckKeys();
  reader.Read("path", &rule.path);
  reader.Read("step", &rule.step);
  reader.Read("load", &rule.load);
  reader.Read("exclude", &rule.exclude);
  reader.Read("oname", &rule.oname);
  reader.Read("strict", &rule.strict);
  reader.Read("hashtable_clear", &rule.hashtable_clear);
  reader.Read("is_dynamic", &rule.is_dynamic);
  reader.Read("ignore_error", &rule.ignore_error);
  reader.Read("skip", &rule.skip);
  CKPTDB_RETURN_IF_ERROR(reader.status());
  return rule;
}

absl::string_view OutcomeName(LoadedItem::Outcome outcome) {
  switch (outcome) {
    case LoadedItem::Outcome::kLoaded:
      return "loaded";
    case LoadedItem::Outcome::kMissing:
      return "missing";
    case LoadedItem::Outcome::kMisfit:
      return "does not fit";
  }
  return "unknown";
}

template <typename Field>
uint64_t Sum(const std::vector<LoadedRule>& rules, Field field) {
  uint64_t sum = 0;
  for (const LoadedRule& rule : rules) {
    for (const LoadedItem& item : rule.items) {
      if (item.outcome == LoadedItem::Outcome::kLoaded) sum += item.*field;
    }
  }
  return sum;
}

}  // namespace

absl::StatusOr<std::vector<LoadRule>> ParseLoadSpec(absl::string_view json) {
  const Json parsed = Json::parse(json.begin(), json.end(), nullptr,
                                  /*allow_exceptions=*/false);
  if (!parsed.is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "load specification: ",
        parsed.is_discarded() ? "it is not JSON" : "it is no list of rules"));
  }
  std::vector<LoadRule> rules;
  for (size_t i = 0; i < parsed.size(); ++i) {
    CKPTDB_ASSIGN_OR_RETURN(rules.emplace_back(), ReadRule(i, parsed[i]));
  }
  return rules;
}

uint64_t LoadSummary::bytes() const { return Sum(rules, &LoadedItem::bytes); }
uint64_t LoadSummary::rows() const { return Sum(rules, &LoadedItem::rows); }

std::string LoadSummary::ToString() const {
  std::string text;
  for (const LoadedRule& rule : rules) {
    absl::StrAppend(&text, rule.path, ", ",
                    rule.step ? absl::StrCat("step ", *rule.step) : "no step",
                    "\n");
    for (const LoadedItem& item : rule.items) {
      absl::StrAppend(&text, "  ", OutcomeName(item.outcome), ": ",
                      item.category, " \"", item.name, "\"");
      if (item.source != item.name) {
        absl::StrAppend(&text, " from \"", item.source, "\"");
      }
      if (item.rows > 0) absl::StrAppend(&text, ", ", item.rows, " rows");
      if (item.bytes > 0) absl::StrAppend(&text, ", ", item.bytes, " bytes");
      if (!item.detail.empty()) absl::StrAppend(&text, ": ", item.detail);
      absl::StrAppend(&text, "\n");
    }
    for (const std::string& name : rule.unexpected) {
      absl::StrAppend(&text, "  unexpected: ", name, "\n");
    }
    if (!rule.note.empty()) absl::StrAppend(&text, "  ", rule.note, "\n");
  }
  return text;
}

}  // namespace ckptdb
