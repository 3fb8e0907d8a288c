// SPDX-License-Identifier: Apache-2.0
// import: files of other systems as a step.
#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "db/store.h"
#include "tests/support/forked.h"
#include "tests/support/name_space.h"
#include "tests/tools/export_fixture.h"
#include "tools/files/safetensors.h"
#include "tools/new_store.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

class ToolImport : public ToolExport {};

// Ranks, files and the place of a table's rows in them differ, but not the
// rows.
TEST_F(ToolImport, RecisRoundTripsAreExact) {
  std::string from = path();
  std::string step = "100";
  for (const std::string world : {"1", "3", "7"}) {
    const std::string folder = out() + world;
    const std::string store = other() + world;
    const ToolResult exported = RunTool(
        {"export", step, "--recis", folder, "--world", world, "-s", from});
    EXPECT_EQ(exported.code, 0) << exported.err;
    const ToolResult imported =
        RunTool({"import", folder, "--step", "9", "-s", store, "--json"});
    EXPECT_EQ(imported.Json()["rows"], 15) << imported.err;
    for (const std::string table : {"user", "item", "types"}) {
      EXPECT_EQ(RowsOf(path(), "100", table), RowsOf(store, "9", table));
    }
    EXPECT_EQ(TensorOf(path(), "100"), TensorOf(store, "9"));
    from = store;
    step = "9";
  }
  EXPECT_EQ(TextOf(out() + "7/checkpoint"), "ckpt_9\n");
}

TEST_F(ToolImport, RecisBlocksMustBeWhole) {
  ASSERT_EQ(Run("export 400 --recis " + out() + " --world 2").code, 0);
  const std::string folder = out() + "/ckpt_400";
  const std::string data = folder + "/model-000001-of-000008.safetensors";
  ASSERT_TRUE(fs::exists(data));
  // Files of other checkpoints are ignored.
  fs::copy_file(data, folder + "/model-000009-of-000010.safetensors");
  EXPECT_EQ(RunTool({"import", out(), "--step", "1", "-s", other()}).code, 0);
  fs::rename(data, out() + "/hidden");
  ExpectFails("import " + out() + " --step 9", 3, HasSubstr("is in no file"));
  fs::remove(folder + "/index");
  ExpectFails("import " + folder + " --step 9", 3, HasSubstr("index"));
  std::ofstream(out() + "/checkpoint") << "../else\n";
  ExpectFails("import " + out() + " --step 9", 1, HasSubstr("../else"));
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300, 400));
}

TEST_F(ToolImport, CommitsAtOnce) {
  ASSERT_EQ(Run("export 100 --npz " + out()).code, 0);
  const std::string file = out() + "/step-100.npz";
  EXPECT_THAT(RunJson("import " + file + " --step 900"),
              Includes(R"({"step": 900, "tensors": 1, "tables": 3, "rows": 15,
                           "blobs": 0})"));
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300, 400, 900));
  EXPECT_EQ(RunJson("diff 100 900")["same"], false);  // the blob
  ExpectFails("import " + file + " --step 900", 5, HasSubstr("900"));
  EXPECT_EQ(Run("import " + file + " --step 900 --force").code, 0);
  EXPECT_EQ(Run("verify").code, 0);
}

TEST_F(ToolImport, BadFileImportsNothing) {
  ASSERT_EQ(Run("export 100 --npz " + out()).code, 0);
  const std::string file = out() + "/step-100.npz";
  std::string bytes = TextOf(file);
  // An element of a table, which only the CRC protects.
  bytes[bytes.find("user.embedding.npy") + 300] ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
  ExpectFails("import " + file + " --step 900", 3,
              AllOf(HasSubstr(file), HasSubstr("user.embedding.npy")));
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300, 400));
  EXPECT_EQ(RunJson("gc")["swept_versions"].size(), 0u);
  ExpectFails("import " + out() + "/none.npz --step 900", 2,
              HasSubstr("none.npz"));
  ExpectFails("import " + out() + " --step 900", 1, HasSubstr("RecIS"));
  ExpectFails("import " + path() + "/LOCK --step 900", 1,
              HasSubstr("the name has no known ending"));
  EXPECT_EQ(Run("import " + file + " --step latest").code, 1);
  EXPECT_EQ(RunTool({"import", file, "--step", "1"}).code, 1);
}

TEST_F(ToolImport, TablesAreTensorsIfAskedFor) {
  ASSERT_EQ(Run("export 100 user --npz " + out()).code, 0);
  const std::string file = out() + "/step-100.npz";
  EXPECT_THAT(RunJson("import " + file + " --step 900 --no-tables"),
              Includes(R"({"tensors": 3, "tables": 0})"));
  EXPECT_THAT(RunJson("import " + file + " --step 901 --table user"),
              Includes(R"({"tensors": 0, "tables": 1})"));
  ExpectFails("import " + file + " --step 902 --table item", 1,
              HasSubstr("no table \"item\""));
}

TEST_F(ToolImport, KeepsMetadataOfSafetensors) {
  ASSERT_EQ(Run("export 100 w --safetensors " + out()).code, 0);
  ASSERT_EQ(Run("import " + out() + "/model.safetensors --step 900").code, 0);
  EXPECT_EQ(RunJson("show 900")["user_metadata"], Json({{"format", "pt"}}));
}

// Writes a file of safetensors with one tensor of a byte.
std::string Safetensors(const std::string& path, const std::string& name,
                        const std::map<std::string, std::string>& metadata) {
  std::ofstream(path, std::ios::binary)
      << tool::SafetensorsHeader({{name, DType::kU8, {1}, 1}}, metadata) << 'x';
  return path;
}

TEST_F(ToolImport, ManagersKeysOfMetadataAreRenamed) {
  const std::map<std::string, std::string> metadata = {
      {"ckptdb.retention", "not JSON"},
      {"ckptdb.saved_because", "step 50 is a multiple of 10"},
      {"imported.saved_because", "older"},
      {"run", "7"}};
  const std::string file =
      Safetensors(dir_.path() + "/a.safetensors", "w", metadata);
  ASSERT_EQ(Run("import " + file + " --step 900").code, 0);
  EXPECT_EQ(RunJson("show 900")["user_metadata"],
            Json({{"imported.retention", "not JSON"},
                  {"imported.saved_because", "older"},
                  {"imported.saved_because+", "step 50 is a multiple of 10"},
                  {"run", "7"}}));
  EXPECT_EQ(RunJson("explain 900")["saved_reason"], Json());
}

TEST_F(ToolImport, FailuresLeaveAStoreThatAnotherBegan) {
  const std::string path = dir_.path() + "/began";
  std::unique_ptr<Store> began;
  {
    const tool::NewStore failed(path);
    ASSERT_OK_AND_ASSIGN(began, Store::Open(path));
  }
  ASSERT_OK(began->Save({.step = 1}, RankState()).status());
  began.reset();
  { const tool::NewStore ended(path); }
  EXPECT_EQ(RunLine("verify -s " + path).code, 0);
}

TEST_F(ToolImport, FailuresLeaveNoNewStore) {
  ASSERT_EQ(Run("export 100 --npz " + out()).code, 0);
  const std::string npz = out() + "/step-100.npz";
  std::string bytes = TextOf(npz);
  bytes[bytes.find("user.embedding.npy") + 300] ^= 1;
  std::ofstream(npz, std::ios::binary) << bytes;
  const std::string bad_name =
      Safetensors(dir_.path() + "/a.safetensors", std::string("a\0b", 3), {});
  fs::create_directory(dir_.path() + "/empty");
  for (const std::string& file : {npz, bad_name}) {
    for (const std::string store : {"/new", "/new/deep/store", "/empty"}) {
      const ToolResult failed =
          RunTool({"import", file, "--step", "1", "-s", dir_.path() + store});
      EXPECT_EQ(failed.code, file == npz ? 3 : 1) << failed.err;
      EXPECT_FALSE(fs::exists(dir_.path() + "/new"));
      EXPECT_THAT(NamesIn(dir_.path() + "/empty"), IsEmpty());
    }
    EXPECT_EQ(Run("import " + file + " --step 900").code, file == npz ? 3 : 1);
    EXPECT_THAT(Steps(), ElementsAre(100, 200, 300, 400));
  }
  // The message is escaped once.
  ExpectFails("import " + bad_name + " --step 900", 1,
              HasSubstr(R"(name "a\x00\x62" has a NUL)"));
  // An existing store stays, although it has no steps.
  const std::string existing = dir_.path() + "/existing";
  ASSERT_OK(Store::Open(existing).status());
  EXPECT_EQ(RunTool({"import", npz, "--step", "1", "-s", existing}).code, 3);
  EXPECT_OK(Store::Open(existing, {.create_if_missing = false}).status());
}

TEST_F(ToolImport, NoStoreIsMadeWithinAStore) {
  const std::string file = Safetensors(dir_.path() + "/a.safetensors", "w", {});
  fs::create_directory_symlink(path(), dir_.path() + "/link");
  for (const std::string& store :
       {path() + "/db", path() + "/db/x/y", path() + "/new",
        dir_.path() + "/link/staging"}) {
    const ToolResult failed =
        RunTool({"import", file, "--step", "1", "-s", store});
    EXPECT_EQ(failed.code, 1);
    EXPECT_THAT(failed.err, HasSubstr("lies inside it"));
    EXPECT_FALSE(fs::exists(store + "/db"));
  }
  EXPECT_EQ(RunTool({"import", file, "--step", "9", "-s", other()}).code, 0);
}

TEST_F(ToolImport, FilesWithoutContentAreErrors) {
  const std::string folder = dir_.path() + "/files";
  fs::create_directories(folder + "/recis");
  std::ofstream(folder + "/a.safetensors.index.json") << R"({"weight_map":{}})";
  std::ofstream(folder + "/a.npz") << "PK\5\6" << std::string(18, '\0');
  std::ofstream(folder + "/a.safetensors", std::ios::binary)
      << tool::SafetensorsHeader({}, {{"k", "v"}});
  std::ofstream(folder + "/recis/model-000000-of-000001.safetensors",
                std::ios::binary)
      << tool::SafetensorsHeader({}, {});
  std::ofstream(folder + "/recis/index") << R"({"block_index":{}})";
  std::ofstream(folder + "/recis/extra.txt") << "7";
  for (const std::string name :
       {"a.safetensors.index.json", "a.npz", "a.safetensors", "recis"}) {
    ExpectFails(
        "import " + folder + "/" + name + " --step 900", 1,
        AllOf(HasSubstr(folder + "/" + name), HasSubstr("nothing to import")));
  }
  ExpectFails("import " + folder + "/none/dir --step 900", 2,
              HasSubstr("No such file"));
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300, 400));
}

// Errors recommend only options that the command has.
TEST_F(ToolImport, StepsThatExistAreNamedWithTheirRemedies) {
  const std::string file = dir_.path() + "/a.safetensors";
  const std::string line = "import " + file + " --older --step 300";
  ASSERT_EQ(Run("export 300 --safetensors " + dir_.path() + "/out").code, 0);
  for (const auto& each : fs::directory_iterator(dir_.path() + "/out")) {
    if (each.path().extension() == ".safetensors") fs::copy(each.path(), file);
  }
  ExpectFails(line, 5, HasSubstr("--force"));
  ASSERT_EQ(Run("pin 300").code, 0);
  ExpectFails(line + " --force", 5, HasSubstr("is pinned; unpin it first"));
  ASSERT_EQ(Run("unpin 300").code, 0);
  EXPECT_EQ(Run(line + " --force").code, 0);
}

TEST_F(ToolImport, FullDisksAreNamed) {
  const std::string small = dir_.path() + "/small";
  fs::create_directory(small);
  const std::string file = Safetensors(dir_.path() + "/a.safetensors", "w", {});
  ExpectInChild([&]() -> std::string {
    if (!EnterNameSpace().ok() ||
        mount("none", small.c_str(), "tmpfs", 0, "size=20M") != 0) {
      return "";  // may not mount
    }
    const ToolResult failed =
        RunTool({"import", file, "--step", "1", "-s", small + "/store"});
    const bool named =
        failed.code == 5 && NamesIn(small).empty() &&
        failed.err.find("are free; free some space\n") != std::string::npos;
    return named ? "" : failed.err;
  });
}

}  // namespace
}  // namespace ckptdb::testing
