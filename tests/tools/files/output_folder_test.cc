// SPDX-License-Identifier: Apache-2.0
// Folders of outputs, and writers of files in them.
#include "tools/files/output_folder.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/as_nobody.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/files/file_bytes.h"
#include "tools/files/array_writer.h"
#include "tools/files/loaded_files.h"

namespace ckptdb::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TempDir;

std::vector<std::string> Entries(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(OutputFolderTest, FilesAppearTogether) {
  const TempDir dir;
  ASSERT_OK_AND_ASSIGN(auto folder,
                       OutputFolder::Open(dir.path() + "/out", false));
  ASSERT_OK_AND_ASSIGN(OutputFile * a, folder->Create("a", 2));
  ASSERT_OK_AND_ASSIGN(OutputFile * b, folder->Create("b", 1));
  ASSERT_OK(a->Write(1, "y"));
  ASSERT_OK(a->Write(0, "x"));
  EXPECT_EQ(folder->Commit().code(), absl::StatusCode::kInternal);
  ASSERT_OK(b->Write(0, "z"));
  ASSERT_OK(folder->Commit());
  EXPECT_THAT(Entries(dir.path() + "/out"), ElementsAre("a", "b"));
}

TEST(OutputFolderTest, LeavesNothingUnlessCommitted) {
  const TempDir dir;
  for (const bool exists : {false, true}) {
    if (exists) std::filesystem::create_directory(dir.path() + "/out");
    ASSERT_OK_AND_ASSIGN(auto folder,
                         OutputFolder::Open(dir.path() + "/out", false));
    ASSERT_OK_AND_ASSIGN(OutputFile * a, folder->Create("a", 2));
    ASSERT_OK(a->Write(0, "x"));
    EXPECT_THAT(Entries(dir.path() + "/out"), ElementsAre(".a.ckptdb-part"));
    folder.reset();
    EXPECT_EQ(std::filesystem::exists(dir.path() + "/out"), exists);
  }
  EXPECT_THAT(Entries(dir.path() + "/out"), IsEmpty());
}

TEST(OutputFolderTest, RemovesWhatKilledExportsLeft) {
  const TempDir dir;
  const std::string below = dir.path() + "/step";
  std::filesystem::create_directory(below);
  for (const std::string& folder : {dir.path(), below}) {
    std::ofstream(folder + "/.old.npy.ckptdb-part") << "half";
    std::ofstream(folder + "/.notes") << "mine";
    std::ofstream(folder + "/x.ckptdb-part") << "mine";
  }
  ASSERT_OK_AND_ASSIGN(auto folder, OutputFolder::Open(dir.path(), false));
  EXPECT_THAT(Entries(dir.path()),
              ElementsAre(".notes", "step", "x.ckptdb-part"));
  ASSERT_OK_AND_ASSIGN(OutputFile * a, folder->Create("step/a", 1));
  ASSERT_OK(a->Write(0, "x"));
  // The second file of a folder does not remove the first.
  ASSERT_OK_AND_ASSIGN(OutputFile * b, folder->Create("step/b", 1));
  ASSERT_OK(b->Write(0, "y"));
  ASSERT_OK(folder->Commit());
  EXPECT_THAT(Entries(below), ElementsAre(".notes", "a", "b", "x.ckptdb-part"));
}

TEST(OutputFolderTest, ReplacesFilesOnlyIfForced) {
  const TempDir dir;
  std::ofstream(dir.path() + "/a") << "old";
  ASSERT_OK_AND_ASSIGN(auto folder, OutputFolder::Open(dir.path(), false));
  EXPECT_EQ(folder->Create("a", 1).status().code(),
            absl::StatusCode::kAlreadyExists);
  // The name is taken meanwhile.
  ASSERT_OK_AND_ASSIGN(OutputFile * b, folder->Create("b", 1));
  ASSERT_OK(b->Write(0, "x"));
  std::ofstream(dir.path() + "/b") << "old";
  EXPECT_EQ(folder->Commit().code(), absl::StatusCode::kAlreadyExists);
  folder.reset();
  EXPECT_THAT(Entries(dir.path()), ElementsAre("a", "b"));
  ASSERT_OK_AND_ASSIGN(auto forced, OutputFolder::Open(dir.path(), true));
  ASSERT_OK_AND_ASSIGN(OutputFile * a, forced->Create("a", 1));
  ASSERT_OK(a->Write(0, "n"));
  ASSERT_OK(forced->Commit());
  EXPECT_EQ(std::filesystem::file_size(dir.path() + "/a"), 1u);
}

TEST(OutputFolderTest, DoesNotFollowALinkOrShareAFolder) {
  const TempDir dir;
  std::filesystem::create_symlink("target", dir.path() + "/.a.ckptdb-part");
  ASSERT_OK_AND_ASSIGN(auto folder, OutputFolder::Open(dir.path(), false));
  ASSERT_OK_AND_ASSIGN(OutputFile * a, folder->Create("a", 1));
  EXPECT_FALSE(a->Write(0, "x").ok());
  ExpectError(OutputFolder::Open(dir.path(), false),
              absl::StatusCode::kFailedPrecondition,
              "another export is writing to");
  folder.reset();
  EXPECT_OK(OutputFolder::Open(dir.path(), false).status());
}

TEST(OutputFolderTest, NamesTheFileThatItMayNotWrite) {
  const TempDir dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0755));
  const testing::AsNobody nobody;
  if (nobody.failed()) GTEST_SKIP() << "cannot become another user";
  if (geteuid() == getuid()) {
    std::filesystem::permissions(dir.path(), std::filesystem::perms(0555));
  }
  ASSERT_OK_AND_ASSIGN(auto folder, OutputFolder::Open(dir.path(), false));
  ASSERT_OK_AND_ASSIGN(OutputFile * a, folder->Create("a", 1));
  ExpectError(absl::StatusOr<int>(a->Write(0, "x")),
              absl::StatusCode::kPermissionDenied, dir.path());
}

TEST(OutputFolderTest, RefusesNamesTooLongForAFile) {
  const TempDir dir;
  ASSERT_OK_AND_ASSIGN(auto folder, OutputFolder::Open(dir.path(), false));
  EXPECT_OK(folder->Create(std::string(242, 'x'), 1).status());
  ExpectError(folder->Create(std::string(243, 'x'), 1), kInvalid,
              "the limit is 242");
}

TEST(ArrayWriterTest, SafetensorsAreSharded) {
  const TempDir dir;
  ASSERT_OK_AND_ASSIGN(auto folder, OutputFolder::Open(dir.path(), false));
  const std::vector<ArraySpec> arrays = {{"a", DType::kU8, {4}, 4},
                                         {"b", DType::kI64, {1}, 8},
                                         {"c", DType::kU8, {9}, 9},
                                         {"d", DType::kU8, {1}, 1}};
  ASSERT_OK_AND_ASSIGN(auto writer,
                       NewSafetensorsWriter(folder.get(), arrays, {}, 12));
  for (size_t i = 0; i < arrays.size(); ++i) {
    ASSERT_OK(writer->Write(i, 0, std::string(arrays[i].bytes, 'x')));
  }
  ASSERT_OK(writer->Finish());
  ASSERT_OK(folder->Commit());
  EXPECT_THAT(Entries(dir.path()),
              ElementsAre("model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json"));
  LoadedFiles files;
  ASSERT_OK(LoadFile(dir.path() + "/model.safetensors.index.json", &files));
  ASSERT_EQ(files.arrays.size(), 4u);
  // Its array is not in the index any more.
  std::filesystem::copy_file(dir.path() + "/model-00001-of-00002.safetensors",
                             dir.path() + "/model-00002-of-00002.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  LoadedFiles swapped;
  EXPECT_EQ(
      LoadFile(dir.path() + "/model.safetensors.index.json", &swapped).code(),
      kInvalid);
}

}  // namespace
}  // namespace ckptdb::tool
