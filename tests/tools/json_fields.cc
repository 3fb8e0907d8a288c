// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/json_fields.h"

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace ckptdb::testing {
namespace {

using Json = nlohmann::json;

// "| `a[]` | *version* or null | meaning | always |"
DocumentedField ParseRow(const std::string& line) {
  const std::vector<std::string> cells = absl::StrSplit(line, " | ");
  DocumentedField field;
  field.path = absl::StrReplaceAll(cells[0], {{"| ", ""}, {"`", ""}});
  absl::string_view type = cells[1];
  field.nullable = absl::ConsumeSuffix(&type, " or null");
  field.shared = absl::ConsumePrefix(&type, "*");
  absl::ConsumeSuffix(&type, "*");
  field.type = std::string(type);
  field.always = cells.back() == "always |";
  field.unreached = absl::StartsWith(cells.back(), "not in the samples: ");
  return field;
}

bool IsFloat(const Json& value) {
  return value.is_number() || value == "nan" || value == "inf" ||
         value == "-inf";
}

bool HasType(const Json& value, const DocumentedField& field) {
  if (value.is_null()) return field.nullable;
  if (field.shared || field.type == "object" || field.type == "map") {
    return value.is_object();
  }
  if (field.type == "integer") return value.is_number_integer();
  if (field.type == "number") return value.is_number();
  if (field.type == "float") return IsFloat(value);
  if (field.type == "value") return IsFloat(value) || value.is_boolean();
  if (field.type == "string") return value.is_string();
  return field.type == "boolean" && value.is_boolean();
}

// Returns whether `path` is a direct field of the objects at `prefix`.
bool IsFieldOf(const std::string& path, const std::string& prefix) {
  return absl::StartsWith(path, prefix) &&
         path.find('.', prefix.size()) == std::string::npos;
}

}  // namespace

JsonDocs ReadJsonDocs(const std::string& path) {
  JsonDocs docs;
  std::string section;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "### ")) section = line.substr(4);
    if (!absl::StartsWith(line, "| `")) continue;
    docs[section].push_back(ParseRow(line));
  }
  return docs;
}

JsonFields::JsonFields(const JsonDocs& docs, const std::string& section) {
  Add(docs, section, "", /*unreached=*/false);
}

void JsonFields::Add(const JsonDocs& docs, const std::string& section,
                     const std::string& prefix, bool unreached) {
  const auto rows = docs.find(section);
  if (rows == docs.end()) {
    errors_.push_back(absl::StrCat("there is no section \"", section, "\""));
    return;
  }
  for (const DocumentedField& row : rows->second) {
    const std::string path = prefix + row.path;
    const bool skipped = unreached || row.unreached;
    if (absl::EndsWith(path, "*")) {
      Add(docs, row.type, path.substr(0, path.size() - 1), skipped);
      continue;
    }
    fields_[path] = row;
    fields_[path].unreached = skipped;
    // The array itself exists, even if it is empty.
    if (row.unreached) reached_[path] = true;
    if (row.shared) Add(docs, row.type, path + ".", skipped);
  }
}

void JsonFields::Check(const Json& document) { CheckObject(document, ""); }

void JsonFields::CheckObject(const Json& object, const std::string& prefix) {
  for (const auto& [path, field] : fields_) {
    if (!field.always || !IsFieldOf(path, prefix)) continue;
    std::string name = path.substr(prefix.size());
    if (absl::EndsWith(name, "[]")) name.resize(name.size() - 2);
    if (object.contains(name)) continue;
    errors_.push_back(path + " is missing");
  }
  for (const auto& [name, value] : object.items()) {
    const std::string path = prefix + name;
    if (!value.is_array()) {
      CheckValue(value, path);
      continue;
    }
    if (value.empty()) reached_[path + "[]"] = true;
    for (const Json& element : value) CheckValue(element, path + "[]");
  }
}

void JsonFields::CheckValue(const Json& value, const std::string& path) {
  const auto field = fields_.find(path);
  if (field == fields_.end()) {
    errors_.push_back(path + " is not documented");
    return;
  }
  reached_[path] = true;
  if (!HasType(value, field->second)) {
    errors_.push_back(absl::StrCat(path, " is ", value.dump(), " and not ",
                                   field->second.type));
  }
  const bool has_fields =
      field->second.shared || field->second.type == "object";
  if (has_fields && value.is_object()) CheckObject(value, path + ".");
}

std::vector<std::string> JsonFields::Unreached() const {
  std::vector<std::string> paths;
  for (const auto& [path, field] : fields_) {
    if (!field.unreached && !reached_.contains(path)) paths.push_back(path);
  }
  return paths;
}

}  // namespace ckptdb::testing
