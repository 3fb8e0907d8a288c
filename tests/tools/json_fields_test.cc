// SPDX-License-Identifier: Apache-2.0
// docs/json.md documents exactly the fields that the commands and the manager's
// statistics print.
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "db/backup.h"
#include "db/reader.h"
#include "db/state.h"
#include "manager/config/statistics.h"
#include "schema/status.h"
#include "tests/support/source_folder.h"
#include "tests/tools/tool_fixture.h"
#include "tools/command.h"

namespace ckptdb::testing {
namespace {

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

// The fields of one section, with shared objects expanded.
class JsonFields {
 public:
  JsonFields(const JsonDocs& docs, const std::string& section);

  // Appends to errors() each field that is undocumented, has another type, or
  // is missing although it is always present.
  void Check(const Json& document) { CheckObject(document, ""); }

  const std::vector<std::string>& errors() const { return errors_; }
  // Returns documented fields that no checked document contained.
  std::vector<std::string> Unreached() const;

 private:
  void Add(const JsonDocs& docs, const std::string& section,
           const std::string& prefix, bool unreached);
  void CheckObject(const Json& object, const std::string& prefix);
  void CheckValue(const Json& value, const std::string& path);

  std::map<std::string, DocumentedField> fields_;  // by full path
  std::map<std::string, bool> reached_;
  std::vector<std::string> errors_;
};

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

const JsonDocs& Docs() {
  static const JsonDocs* const kDocs =
      new JsonDocs(ReadJsonDocs(SourcePath("docs/json.md")));
  return *kDocs;
}

void ExpectDocumented(const std::string& section,
                      const std::vector<Json>& documents) {
  JsonFields fields(Docs(), section);
  for (const Json& document : documents) fields.Check(document);
  EXPECT_THAT(fields.errors(), IsEmpty()) << section;
  EXPECT_THAT(fields.Unreached(), IsEmpty()) << section;
}

// Commands whose output has all fields of a section: on the sample store, and
// on the store with deltas, after some that change it.
struct SectionCase {
  std::string section;
  Words sample;
  Words deltas = {};
  Words before = {};
};

// Add a section and a row here for each new command.
const SectionCase kSectionCases[] = {
    {"ls", {"ls"}, {"ls"}},
    {"show",
     {"show 100", "show 200", "show 300", "show 800"},
     {"show 200", "show 400"},
     {"fold 400"}},
    {"items", {"items 200", "items 300", "items 800"}, {"items 300"}},
    {"chain",
     {},
     {"chain 400 -t", "fold 400", "chain 400 -t", "chain 100 -t"},
     {"rm 200"}},
    {"diff",
     {"diff 100 200", "diff 200 300", "diff 200 900", "diff 900 100",
      "diff 100 300 --full", "diff 800 900 --full"},
     {"diff 100 300", "diff 100 400 --ids 9 --movers 9"}},
    {"plan",
     {"plan 200", "plan 300 --world 3"},
     {"plan 400 --from 100", "plan 100 --from 400"}},
    {"row", {"row user 1 --step 300"}, {"row types 7 --step 100"}},
    {"cat",
     {"cat mlp.weight --step 300", "cat reader --step 200",
      "cat reader --step 200 --hex"}},
    {"history", {"history user 1"}, {"history user -2"}},
    {"rows",
     {"rows user --step 300 --where freq>3 --sort freq --limit 2"},
     {"rows user --ids 1,99"}},
    {"nan", {"nan --step 800"}, {"nan --step 100", "nan --no-first-step"}},
    {"digest", {"digest 100"}, {"digest 400"}},
    {"verify", {"verify", "verify 100"}, {"verify"}},
    {"du", {"du"}, {"du --tables --steps"}, {"rm 200"}},
    {"report", {"report"}, {"report"}},
    {"fold", {"fold 100"}, {"fold 400"}, {"rm 100 200 300"}},
    {"rm", {"rm 300"}, {"rm 100"}},
    {"gc", {"gc"}, {"gc"}},
    {"pin", {"pin 100"}},
    {"unpin", {"unpin 200"}},
    {"metrics", {"metrics 100 auc=0.5"}},
    {"export", {"export 100 --npz DIR/npz"}, {"export 400 --csv DIR/csv"}},
    {"import",
     {"import DIR/npz/step-100.npz --step 1000"},
     {},
     {"export 100 --npz DIR/npz"}},
    {"doctor", {"doctor --speed-mib 1"}, {"doctor file://DIR --speed-mib 0"}},
    {"completion", {"completion bash", "completion zsh", "completion fish"}},
    {"man", {"man"}},
    {"backup", {"backup DIR/backups --keep 1", "backup DIR/backups --list"}},
    {"restore-backup", {"restore-backup DIR/backup DIR/restored"}},
    {"remote",
     {"remote push file://DIR/remote", "remote ls file://DIR/remote",
      "remote fetch file://DIR/remote DIR/fetched --step 100",
      "remote fetch file://DIR/remote DIR/fetched --update --keep 1",
      "remote verify file://DIR/remote --data",
      "remote gc file://DIR/remote --keep 1"}},
    {"copy", {"copy DIR/store:100 DIR/copy"}},
    {"repair", {"repair"}},
    {"quarantine", {"quarantine 300", "quarantine --undo 300"}},
    {"promote", {"promote 300"}},
    {"demote", {"demote 100"}},
    {"explain", {"explain 100", "explain latest"}, {"explain 200"}},
    {"stats", {"stats"}, {"stats"}},
    {"watch", {"watch --count 1"}}};

class JsonFieldsTest : public ToolFixture,
                       public ::testing::WithParamInterface<SectionCase> {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> MakeStore() const override {
    CKPTDB_RETURN_IF_ERROR(MakeDeltaStore(deltas()).status());
    return MakeSampleStore(path());
  }
  std::string deltas() const { return dir_.path() + "/deltas"; }

  // Adds steps with other slots and codecs, files that do not belong to the
  // store, and for gc a deleted step.
  void Prepare() {
    const std::vector<int64_t> ids = {1};
    const std::vector<float> values = {0.1F, 0.2F, 0.35F, 0.4F, 7, 8, 9, 1};
    const RowSource::Arrays lossy(ids, {{values.data(), 32}});
    RankState state;
    state.AddTable("user", {{"embedding", DType::kF32, 8, Codec::kInt8}},
                   &lossy);
    state.AddTensor("w", TensorView::Of(values.data(), {8}), Codec::kBf16);
    const RowSource::Arrays rows(ids, {{values.data(), 8}, {values.data(), 4}});
    const std::vector<float> infinite = {INFINITY};
    state.AddTensor("bad", TensorView::Of(infinite.data(), {1}));
    const std::vector<float> moved = {1, 2, 3, 4, 5, 6, 7, 8};
    RankState other;
    other.AddTensor("w", TensorView::Of(moved.data(), {8}));
    other.AddTable("user",
                   {{"embedding", DType::kF32, 2}, {"score", DType::kF32, 1}},
                   &rows);
    Own();
    ASSERT_OK(store_->Save({.step = 800}, state).status());
    SaveSpec spec = {.step = 900};
    spec.user_metadata["ckptdb.retention"] = R"({"keep": {"latest_n": 2}})";
    ASSERT_OK(store_->Save(spec, other).status());
    if (GetParam().section == "gc") {
      ASSERT_OK(store_->Delete(300));
    }
    Disown();
    if (GetParam().section == "explain") {
      ASSERT_OK_AND_ASSIGN(reader_, Reader::Open(path()));
      ASSERT_OK_AND_ASSIGN(leased_, reader_->OpenStep(100));
    }
    if (GetParam().section == "restore-backup") {
      ASSERT_OK(MakeBackup(path(), dir_.path() + "/backup"));
    }
    for (const std::string& store : {path(), deltas()}) {
      std::ofstream(store + "/leases/notes.txt") << "not a lease";
    }
  }
  // "DIR" in a command stands for the test's folder.
  Json Document(const std::string& command, const Words& more) const {
    const ToolResult result = RunLine(
        absl::StrReplaceAll(command, {{"DIR", dir_.path()}}) + " --json", more);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result.Json();
  }

  std::unique_ptr<Reader> reader_;
  std::unique_ptr<StepReader> leased_;
};

TEST_P(JsonFieldsTest, AreDocumented) {
  const auto& [section, sample, delta, before] = GetParam();
  Prepare();
  const Words at_deltas = {"--store", deltas()};
  const Words at_sample =
      section == "doctor" ? Words{dir_.path()} : Words{"--store", path()};
  for (const std::string& command : before) Document(command, at_deltas);
  std::vector<Json> documents;
  for (const std::string& command : sample) {
    documents.push_back(Document(command, at_sample));
  }
  for (const std::string& command : delta) {
    const Json document = Document(command, at_deltas);
    if (absl::StartsWith(command, section)) documents.push_back(document);
  }
  ExpectDocumented(section, documents);
}

INSTANTIATE_TEST_SUITE_P(
    Sections, JsonFieldsTest, ::testing::ValuesIn(kSectionCases),
    [](const auto& row) {
      return absl::StrReplaceAll(row.param.section, {{"-", "_"}});
    });

class DamagedJsonFieldsTest : public ToolFixture {};

TEST_F(DamagedJsonFieldsTest, OfVerifyAreDocumented) {
  DamageLargestFile();
  const ToolResult verify = Run("verify --json");
  EXPECT_EQ(verify.code, 3);
  ExpectDocumented("verify", {verify.Json()});
}

TEST(JsonDocsTest, EachCommandHasASection) {
  std::set<std::string> tested;
  for (const SectionCase& row : kSectionCases) tested.insert(row.section);
  for (const auto& command : tool::AllCommands()) {
    EXPECT_TRUE(Docs().contains(command->name())) << command->name();
    EXPECT_TRUE(tested.contains(command->name())) << command->name();
  }
}

TEST(JsonDocsTest, Statistics) {
  SaveReport saved;
  saved.retired_steps = {1};
  saved.metrics = {{"auc", 0.75},
                   {"loss", std::numeric_limits<double>::infinity()}};
  const Json line = Json::parse(internal::StatisticsLine(saved));
  EXPECT_EQ(line["metrics"], Json({{"auc", 0.75}, {"loss", "inf"}}));
  EXPECT_EQ(line["pid"], getpid());
  EXPECT_FALSE(line["host"].get<std::string>().empty());
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full,
                              line["time"].get<std::string>(), &time, &error))
      << error;
  SaveReport failed;
  failed.status = absl::UnavailableError("no space");
  failed.sweep_status = absl::UnavailableError("no space");
  failed.shipping.emplace();
  failed.shipping->waiting = {1};
  failed.shipping->last_error = absl::UnavailableError("no network");
  ExpectDocumented("save",
                   {line, Json::parse(internal::StatisticsLine(failed))});
  ShipReport shipped;
  shipped.steps = {1};
  ExpectDocumented("ship", {Json::parse(internal::StatisticsLine(shipped))});
  RestoreReport report;
  report.damaged_steps = {1};
  ExpectDocumented("restore", {Json::parse(internal::StatisticsLine(report))});
}

TEST(JsonDocsTest, ReportsUndocumentedFields) {
  const JsonDocs docs = {
      {"point", {{.path = "x", .type = "integer", .always = true}}},
      {"root",
       {{.path = "at[]", .type = "point", .shared = true, .always = true},
        {.path = "name", .type = "string", .nullable = true, .always = true},
        {.path = "note", .type = "string"}}}};
  JsonFields fields(docs, "root");
  fields.Check(Json::parse(R"({"at": [{"x": 1}], "name": null})"));
  EXPECT_THAT(fields.errors(), IsEmpty());
  EXPECT_THAT(fields.Unreached(), ElementsAre("note"));
  fields.Check(Json::parse(R"({"at": [{"x": "1", "y": 2}], "note": "n"})"));
  EXPECT_THAT(fields.errors(),
              ElementsAre("name is missing", "at[].x is \"1\" and not integer",
                          "at[].y is not documented"));
  EXPECT_THAT(fields.Unreached(), IsEmpty());
}

}  // namespace
}  // namespace ckptdb::testing
