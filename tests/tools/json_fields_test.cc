// SPDX-License-Identifier: Apache-2.0
// docs/json.md documents exactly the fields that the commands and the manager's
// statistics print.
#include <unistd.h>

#include <cctype>
#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "db/state.h"
#include "manager/config/statistics.h"
#include "schema/status.h"
#include "tests/support/source_folder.h"
#include "tests/tools/json_fields.h"
#include "tests/tools/tool_fixture.h"
#include "tools/command.h"

namespace ckptdb::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Json = nlohmann::json;
using Commands = std::vector<std::vector<std::string>>;

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

class JsonFieldsTest : public ToolFixture {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> MakeStore() const override {
    CKPTDB_RETURN_IF_ERROR(MakeDeltaStore(deltas()).status());
    return MakeSampleStore(path());
  }
  std::string deltas() const { return dir_.path() + "/deltas"; }

  // Checks the command's output for the sample store and for the delta store.
  void ExpectDocumentedFor(const Commands& sample, const Commands& delta) {
    std::vector<Json> documents;
    std::string section;
    for (const auto& command : sample) {
      section = command.front();
      documents.push_back(RunJson(command));
    }
    for (std::vector<std::string> command : delta) {
      section = command.front();
      command.insert(command.end(), {"--json", "--store", deltas()});
      const ToolResult result = RunTool(command);
      EXPECT_EQ(result.code, 0) << result.err;
      documents.push_back(result.Json());
    }
    ExpectDocumented(section, documents);
  }

  // Adds files that do not belong to the store.
  void PutForeignFiles() const {
    for (const std::string& store : {path(), deltas()}) {
      std::ofstream(store + "/leases/notes.txt") << "not a lease";
    }
  }

  // Saves only a table "user" whose slots differ from those of the samples.
  void SaveOtherSlots(int64_t step) {
    const std::vector<int64_t> ids = {1};
    const std::vector<float> values(4, 0.5F);
    const RowSource::Arrays rows(
        ids, {{values.data(), 2 * sizeof(float)}, {values.data(), 4}});
    RankState state;
    state.AddTable("user",
                   {{"embedding", DType::kF32, 2}, {"score", DType::kF32, 1}},
                   &rows);
    Own();
    ASSERT_OK(store_->Save({.step = step}, state).status());
    Disown();
  }
  // Saves a table and a tensor with lossy codecs.
  void SaveLossy(int64_t step) {
    const std::vector<int64_t> ids = {1};
    const std::vector<float> values = {0.1F, 0.2F, 0.35F, 0.4F, 7, 8, 9, 1};
    const RowSource::Arrays rows(ids, {{values.data(), 32}});
    RankState state;
    state.AddTable("user", {{"embedding", DType::kF32, 8, Codec::kInt8}},
                   &rows);
    state.AddTensor("w", TensorView::Of(values.data(), {8}), Codec::kBf16);
    Own();
    ASSERT_OK(store_->Save({.step = step}, state).status());
    Disown();
  }
};

TEST_F(JsonFieldsTest, Ls) { ExpectDocumentedFor({{"ls"}}, {{"ls"}}); }

TEST_F(JsonFieldsTest, Show) {
  ASSERT_EQ(RunTool({"fold", "400", "-s", deltas()}).code, 0);
  SaveLossy(900);
  ExpectDocumentedFor(
      {{"show", "100"}, {"show", "200"}, {"show", "300"}, {"show", "900"}},
      {{"show", "200"}, {"show", "400"}});
}

TEST_F(JsonFieldsTest, Items) {
  SaveLossy(900);
  ExpectDocumentedFor({{"items", "200"}, {"items", "300"}, {"items", "900"}},
                      {{"items", "300"}});
}

TEST_F(JsonFieldsTest, Chain) {
  ASSERT_EQ(RunTool({"rm", "200", "-s", deltas()}).code, 0);
  const auto chain = [this](const char* step) {
    return RunTool({"chain", step, "--tables", "--json", "-s", deltas()})
        .Json();
  };
  const Json before = chain("400");
  ASSERT_EQ(RunTool({"fold", "400", "-s", deltas()}).code, 0);
  ExpectDocumented("chain", {before, chain("400"), chain("100")});
}

TEST_F(JsonFieldsTest, Diff) {
  SaveOtherSlots(900);
  ExpectDocumentedFor({{"diff", "100", "200"},
                       {"diff", "200", "300"},
                       {"diff", "200", "900"},
                       {"diff", "900", "100"}},
                      {{"diff", "100", "300"}});
}

TEST_F(JsonFieldsTest, Plan) {
  ExpectDocumentedFor(
      {{"plan", "200"}, {"plan", "300", "--world", "3"}},
      {{"plan", "400", "--from", "100"}, {"plan", "100", "--from", "400"}});
}

TEST_F(JsonFieldsTest, Row) {
  ExpectDocumentedFor({{"row", "user", "1"}},
                      {{"row", "types", "7", "--step", "100"}});
}

TEST_F(JsonFieldsTest, History) {
  ExpectDocumentedFor({{"history", "user", "1"}}, {{"history", "user", "-2"}});
}

TEST_F(JsonFieldsTest, Verify) {
  ExpectDocumentedFor({{"verify"}, {"verify", "100"}}, {{"verify"}});
}

TEST_F(JsonFieldsTest, VerifyOfADamagedStep) {
  DamageLargestFile();
  const ToolResult verify = Run({"verify", "--json"});
  EXPECT_EQ(verify.code, 3);
  ExpectDocumented("verify", {verify.Json()});
}

TEST_F(JsonFieldsTest, Du) {
  ASSERT_EQ(RunTool({"rm", "200", "-s", deltas()}).code, 0);
  PutForeignFiles();
  ExpectDocumentedFor({{"du"}}, {{"du", "--tables"}});
}

TEST_F(JsonFieldsTest, Fold) {
  ASSERT_EQ(RunTool({"rm", "100", "200", "300", "-s", deltas()}).code, 0);
  PutForeignFiles();
  ExpectDocumentedFor({{"fold", "100"}}, {{"fold", "400"}});
}

TEST_F(JsonFieldsTest, Rm) {
  PutForeignFiles();
  ExpectDocumentedFor({{"rm", "300"}}, {{"rm", "100"}});
}

TEST_F(JsonFieldsTest, Gc) {
  PutForeignFiles();
  Own();
  ASSERT_OK(store_->Delete(300));
  Disown();
  ExpectDocumentedFor({{"gc"}}, {{"gc"}});
}

TEST_F(JsonFieldsTest, Pin) { ExpectDocumentedFor({{"pin", "100"}}, {}); }

TEST_F(JsonFieldsTest, Unpin) { ExpectDocumentedFor({{"unpin", "200"}}, {}); }

TEST_F(JsonFieldsTest, Metrics) {
  ExpectDocumentedFor({{"metrics", "100", "auc=0.5"}}, {});
}

TEST_F(JsonFieldsTest, Doctor) {
  ExpectDocumentedFor({{"doctor", dir_.path(), "--speed-mib", "1"}}, {});
}

// Add a section and a test here for each new command.
TEST(JsonDocsTest, EachCommandHasASection) {
  std::set<std::string> tested;
  const auto* const suite = [] {
    const auto* const unit = ::testing::UnitTest::GetInstance();
    for (int i = 0; i < unit->total_test_suite_count(); ++i) {
      const auto* const each = unit->GetTestSuite(i);
      if (each->name() == std::string("JsonFieldsTest")) return each;
    }
    return static_cast<const ::testing::TestSuite*>(nullptr);
  }();
  ASSERT_NE(suite, nullptr);
  for (int i = 0; i < suite->total_test_count(); ++i) {
    std::string name = suite->GetTestInfo(i)->name();
    name.front() = static_cast<char>(std::tolower(name.front()));
    tested.insert(name);
  }
  for (const auto& command : tool::AllCommands()) {
    EXPECT_TRUE(Docs().contains(command->name())) << command->name();
    EXPECT_TRUE(tested.contains(command->name())) << command->name();
  }
}

TEST(JsonDocsTest, StatisticsOfSaves) {
  SaveReport saved;
  saved.retired_steps = {1};
  saved.metrics = {{"auc", 0.75},
                   {"loss", std::numeric_limits<double>::infinity()}};
  SaveReport failed;
  failed.status = absl::UnavailableError("no space");
  failed.sweep_status = absl::UnavailableError("no space");
  ExpectDocumented("save", {Json::parse(internal::StatisticsLine(saved)),
                            Json::parse(internal::StatisticsLine(failed))});
}

TEST(JsonDocsTest, StatisticsNameProcessAndTime) {
  SaveReport report;
  report.metrics = {{"auc", 0.75},
                    {"loss", std::numeric_limits<double>::infinity()}};
  const Json line = Json::parse(internal::StatisticsLine(report));
  EXPECT_EQ(line["metrics"], Json({{"auc", 0.75}, {"loss", "inf"}}));
  EXPECT_EQ(line["pid"], getpid());
  EXPECT_FALSE(line["host"].get<std::string>().empty());
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full,
                              line["time"].get<std::string>(), &time, &error))
      << error;
}

TEST(JsonDocsTest, StatisticsOfRestores) {
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
