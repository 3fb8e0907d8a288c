// SPDX-License-Identifier: Apache-2.0
// The fields documented in docs/json.md, to compare with real documents.
//
//   JsonFields fields(docs_path, "ls");
//   fields.Check(RunJson({"ls"}));
//   EXPECT_THAT(fields.Unreached(), IsEmpty());
#ifndef CKPTDB_TESTS_TOOLS_JSON_FIELDS_H_
#define CKPTDB_TESTS_TOOLS_JSON_FIELDS_H_

#include <map>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace ckptdb::testing {

// The tables of docs/json.md: the rows of each section by its heading.
struct DocumentedField {
  std::string path;     // "steps[].step"; "*" stands for the fields of `type`
  std::string type;     // "integer", or the name of another section
  bool shared = false;  // the type is another section
  bool nullable = false;
  bool always = false;     // present in every object that may have it
  bool unreached = false;  // missing from the samples; the row says why
};
using JsonDocs = std::map<std::string, std::vector<DocumentedField>>;

JsonDocs ReadJsonDocs(const std::string& path);

// The fields of one section, with shared objects expanded.
class JsonFields {
 public:
  JsonFields(const JsonDocs& docs, const std::string& section);

  // Appends to errors() each field that is undocumented, has another type, or
  // is
  // missing although it is always present.
  void Check(const nlohmann::json& document);

  const std::vector<std::string>& errors() const { return errors_; }
  // Returns documented fields that no checked document contained.
  std::vector<std::string> Unreached() const;

 private:
  void Add(const JsonDocs& docs, const std::string& section,
           const std::string& prefix, bool unreached);
  void CheckObject(const nlohmann::json& object, const std::string& prefix);
  void CheckValue(const nlohmann::json& value, const std::string& path);

  std::map<std::string, DocumentedField> fields_;  // by full path
  std::map<std::string, bool> reached_;
  std::vector<std::string> errors_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_TOOLS_JSON_FIELDS_H_
