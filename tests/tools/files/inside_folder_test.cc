// SPDX-License-Identifier: Apache-2.0
// Links of imported folders.
#include "tools/files/inside_folder.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/tools/files/file_bytes.h"
#include "tools/files/loaded_files.h"
#include "tools/files/safetensors.h"

namespace ckptdb::tool {
namespace {

namespace fs = std::filesystem;
using testing::TempDir;

constexpr char kOut[] = "is a link out of the folder";

class InsideFolderTest : public ::testing::Test {
 protected:
  std::string At(const std::string& name) const {
    return dir_.path() + "/" + name;
  }
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(At(name)).parent_path());
    std::ofstream(At(name), std::ios::binary) << text;
  }
  // Writes a file with one array of one byte.
  void WriteArray(const std::string& name) const {
    Write(name, SafetensorsHeader({{"w", DType::kU8, {1}, 1}}, {}) + "x");
  }
  void WriteIndex(const std::string& name, const std::string& file) const {
    Write(name, SafetensorsIndexJson({{"w", file}}, 1));
  }
  absl::Status Load(const std::string& name) const {
    LoadedFiles files;
    return LoadFile(At(name), &files);
  }

  const TempDir dir_;
};

TEST_F(InsideFolderTest, LinksMayNotLeaveTheFolder) {
  Write("in/file", "");
  Write("in/deep/file", "");
  Write("input/file", "");
  fs::create_symlink("file", At("in/near"));
  fs::create_symlink("deep/../deep/file", At("in/below"));
  fs::create_symlink("../input/file", At("in/beside"));
  fs::create_symlink("/etc/passwd", At("in/absolute"));
  fs::create_symlink("beside", At("in/chain"));
  fs::create_symlink("none", At("in/dangling"));
  fs::create_directory_symlink("in", At("link"));
  fs::create_directory_symlink("../input", At("in/folder"));
  for (const std::string folder : {"in", "in/", "link", "in/../in/."}) {
    for (const std::string name : {"file", "near", "below", "deep/file"}) {
      EXPECT_OK(CheckInside(At(folder), name));
    }
    for (const std::string name :
         {"beside", "absolute", "chain", "folder/file", "folder", ".."}) {
      const absl::Status status = CheckInside(At(folder), name);
      EXPECT_EQ(status.code(), kInvalid) << name;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(::testing::HasSubstr(kOut),
                        ::testing::HasSubstr("\"cp -rL\"")));
    }
  }
  EXPECT_EQ(CheckInside(At("in"), "dangling").code(),
            absl::StatusCode::kNotFound);
}

TEST_F(InsideFolderTest, FilesOfAnIndexMayNotBeLinksOutOfItsFolder) {
  WriteArray("other/w.safetensors");
  WriteArray("in/deep/w.safetensors");
  WriteIndex("in/a.safetensors.index.json", "a.safetensors");
  WriteIndex("in/b.safetensors.index.json", "b.safetensors");
  fs::create_symlink("../other/w.safetensors", At("in/a.safetensors"));
  fs::create_symlink("deep/w.safetensors", At("in/b.safetensors"));
  const absl::Status status = Load("in/a.safetensors.index.json");
  EXPECT_EQ(status.code(), kInvalid);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(kOut));
  EXPECT_OK(Load("in/b.safetensors.index.json"));
  // The user named this one.
  EXPECT_OK(Load("in/a.safetensors"));
}

// "snapshots/<revision>" has links to "blobs", also for the index.
TEST_F(InsideFolderTest, ReadsTheCacheOfHuggingFace) {
  WriteArray("cache/blobs/aa");
  WriteIndex("cache/blobs/bb", "w.safetensors");
  WriteArray("secret/aa");
  const std::string index = "cache/snapshots/main/w.safetensors.index.json";
  const std::string file = At("cache/snapshots/main/w.safetensors");
  fs::create_directories(At("cache/snapshots/main"));
  fs::create_symlink("../../blobs/bb", At(index));
  fs::create_symlink("../../blobs/aa", file);
  EXPECT_OK(Load(index));
  fs::create_directory(At("cache/blobs/deep"));
  for (const std::string target :
       {"../../../secret/aa", "../../blobs/../../secret/aa",
        "../../blobs/deep"}) {
    fs::remove(file);
    fs::create_symlink(target, file);
    EXPECT_FALSE(Load(index).ok()) << target;
  }
  fs::remove(file);
  fs::create_symlink("../../blobs/aa", file);
  fs::rename(At("cache/blobs"), At("cache/other"));
  fs::create_directory_symlink("../secret", At("cache/blobs"));
  fs::remove(At(index));
  WriteIndex(index, "w.safetensors");
  EXPECT_EQ(Load(index).code(), kInvalid);
}

// Links to files that would become a blob, or be quoted in an error.
TEST_F(InsideFolderTest, FilesOfRecisMayNotBeLinksOutOfItsFolder) {
  Write("secret", "root:x:0:0\n");
  for (const std::string name :
       {"extra.pt", "model.pt", "index", "tensorkey.json",
        "model-000000-of-000001.safetensors"}) {
    fs::remove_all(At("in"));
    WriteArray("in/ckpt/model-000001-of-000001.safetensors");
    fs::create_symlink("../../secret", At("in/ckpt/" + name));
    for (const std::string folder : {"in/ckpt", "in"}) {
      Write("in/checkpoint", "ckpt\n");
      const absl::Status status = Load(folder);
      EXPECT_EQ(status.code(), kInvalid) << name;
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(kOut));
    }
  }
  fs::remove_all(At("in"));
  WriteArray("elsewhere/model-000001-of-000001.safetensors");
  Write("in/checkpoint", "ckpt\n");
  fs::create_directory_symlink("../elsewhere", At("in/ckpt"));
  EXPECT_THAT(std::string(Load("in").message()), ::testing::HasSubstr(kOut));
  fs::remove(At("in/checkpoint"));
  fs::create_symlink("../secret", At("in/checkpoint"));
  const std::string text(Load("in").message());
  EXPECT_THAT(text, ::testing::HasSubstr(kOut));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("root:x")));
}

}  // namespace
}  // namespace ckptdb::tool
