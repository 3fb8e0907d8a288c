// SPDX-License-Identifier: Apache-2.0
// Files that are read, and the tables in their arrays.
#include "tools/files/loaded_files.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/files/file_bytes.h"
#include "tools/files/import_state.h"
#include "tools/files/mapped_file.h"

namespace ckptdb::tool {
namespace {

using ::testing::ElementsAre;
using testing::TempDir;

TEST(MappedFileTest, RefusesWhatIsNoFile) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir.path() + "/fifo").c_str(), 0600), 0);
  ExpectError(MappedFile::Open(dir.path() + "/fifo"), kInvalid, "regular");
  ExpectError(MappedFile::Open(dir.path()), kInvalid, "regular");
  EXPECT_EQ(MappedFile::Open(dir.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(MappedFileTest, TruncatedFileEndsTheProcessWithAnError) {
  const TempDir dir;
  const std::string path = dir.path() + "/file";
  std::ofstream(path) << std::string(100'000, 'x');
  ASSERT_OK_AND_ASSIGN(const auto file, MappedFile::Open(path));
  std::filesystem::resize_file(path, 0);
  const pid_t child = fork();
  if (child == 0) {
    const MappedFileErrors errors;
    const volatile char last = file->bytes().back();
    _exit(last == 'x' ? 1 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 5);
}

TEST(LoadedFilesTest, LosesNoMetadataOrBlob) {
  LoadedFiles files;
  files.AddMetadata("a", {{"k", "1"}});
  files.AddMetadata("b", {{"k", "1"}, {"l", "2"}});
  files.AddMetadata("c", {{"k", "3"}});
  files.AddMetadata("c", {{"k", "4"}});
  EXPECT_THAT(files.metadata,
              ElementsAre(std::pair("c/k", "3"), std::pair("c/k+", "4"),
                          std::pair("k", "1"), std::pair("l", "2")));
  EXPECT_OK(files.AddBlob("b", "1"));
  EXPECT_EQ(files.AddBlob("b", "2").code(), kInvalid);
}

// --- Tables.

FileArray Array(const std::string& name, DType dtype, Shape shape) {
  FileArray array;
  array.spec = MakeArraySpec(name, dtype, std::move(shape)).value();
  return array;
}

std::vector<std::string> TableNames(
    const absl::StatusOr<std::vector<ArrayTable>>& tables) {
  std::vector<std::string> names;
  for (const ArrayTable& table : tables.value()) {
    names.push_back(absl::StrCat(table.name, ":", table.slots.size()));
  }
  return names;
}

TEST(FindTablesTest, FindsThemByName) {
  const std::vector<FileArray> arrays = {
      Array("user.ids", DType::kI64, {5}),
      Array("user.embedding", DType::kF32, {5, 4}),
      Array("user.x.ids", DType::kI64, {3}),
      Array("user.x.freq", DType::kU32, {3}),
      Array("alone.ids", DType::kI64, {5}),
      Array("other.ids", DType::kI64, {5}),
      Array("other.weight", DType::kF32, {4, 5}),
      Array("narrow.ids", DType::kI32, {5}),
      Array("narrow.weight", DType::kF32, {5}),
      Array("w", DType::kF32, {5})};
  EXPECT_THAT(TableNames(FindTables(arrays, {})),
              ElementsAre("user:1", "user.x:1"));
  EXPECT_THAT(TableNames(FindTables(arrays, {"narrow"})),
              ElementsAre("narrow:1", "user:1", "user.x:1"));
  ExpectError(FindTables(arrays, {"other"}), kInvalid,
              "\"other.weight\" is [4, 5], but \"other.ids\" is [5]");
  ExpectError(FindTables(arrays, {"w"}), kInvalid, "there is no table \"w\"");
}

TEST(SlotOfTest, HasOneRowOfTheArray) {
  EXPECT_EQ(SlotOf("s", Array("a", DType::kF32, {5, 2, 3}).spec)->elements, 6u);
  EXPECT_EQ(SlotOf("s", Array("a", DType::kF32, {0}).spec)->elements, 1u);
  for (const Shape& shape :
       {Shape{}, Shape{5, 0}, Shape{1, 65537}, Shape{0, 1L << 40, 1L << 40}}) {
    EXPECT_FALSE(SlotOf("s", Array("a", DType::kU8, shape).spec).ok())
        << ToString(shape);
  }
  EXPECT_OK(SlotOf("s", Array("a", DType::kU8, {1, 65536}).spec).status());
}

}  // namespace
}  // namespace ckptdb::tool
