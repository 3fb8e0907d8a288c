// SPDX-License-Identifier: Apache-2.0
#include "db/rocks/manifest_note.h"

#include "absl/strings/str_cat.h"
#include "tests/support/sim_file_system.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::internal {
namespace {

using ::ckptdb::testing::DataLoss;
using ::ckptdb::testing::SimFileSystem;

constexpr ManifestNote kNote{11, {22, 33, 44}};

TEST(ManifestNoteBytes, ComeBack) {
  const std::optional<ManifestNote> note =
      DecodeManifestNote(EncodeManifestNote(kNote));
  ASSERT_TRUE(note.has_value());
  EXPECT_EQ(note->sequence, kNote.sequence);
  EXPECT_EQ(note->manifest.number, kNote.manifest.number);
  EXPECT_EQ(note->manifest.bytes, kNote.manifest.bytes);
  EXPECT_EQ(note->manifest.hash, kNote.manifest.hash);
}

TEST(ManifestNoteBytes, AreNoNoteOfAnotherLengthOrWithAnyBitFlipped) {
  const std::string bytes = EncodeManifestNote(kNote);
  EXPECT_FALSE(DecodeManifestNote(bytes + '\0').has_value());
  for (size_t at = 0; at < bytes.size(); ++at) {
    EXPECT_FALSE(DecodeManifestNote(bytes.substr(0, at)).has_value()) << at;
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      EXPECT_FALSE(DecodeManifestNote(damaged).has_value())
          << at << ", " << bit;
    }
  }
}

class CheckManifestTest : public ::testing::Test {
 protected:
  CheckManifestTest() {
    EXPECT_TRUE(files_.CreateDir(kPath, rocksdb::IOOptions(), nullptr).ok());
    Write("MANIFEST-000012", bytes_);
    Write("CURRENT", "MANIFEST-000012\n");
    ManifestWatch watch;
    watch.Start(12);
    watch.Append(12, bytes_);
    watch.Sync(12);
    watch.Named();
    note_ = watch.Synced();
  }
  void Write(const std::string& name, const std::string& bytes) {
    EXPECT_TRUE(files_.WriteAll(absl::StrCat(kPath, "/", name), bytes));
  }
  absl::Status Check() { return CheckManifest(&files_, kPath, note_); }
  static constexpr char kPath[] = "/db";
  const std::string bytes_ = std::string(300'000, 'm') + "end";
  SimFileSystem files_;
  ManifestState note_;
};

TEST_F(CheckManifestTest, TheOneOfTheNoteOrANewerOne) {
  EXPECT_OK(Check());
  Write("MANIFEST-000012", bytes_ + "more");
  EXPECT_OK(Check());
  Write("MANIFEST-000013", "new");
  Write("CURRENT", "MANIFEST-000013\n");
  EXPECT_OK(Check());
}

TEST_F(CheckManifestTest, OneThatIsDamagedOrLostItsEnd) {
  for (const uint64_t at : {uint64_t{0}, uint64_t{290'000}, note_.bytes - 1}) {
    ASSERT_TRUE(files_.FlipBit("/db/MANIFEST-000012", at, 3));
    EXPECT_THAT(Check(), DataLoss("/db/MANIFEST-000012", "is damaged")) << at;
    ASSERT_TRUE(files_.FlipBit("/db/MANIFEST-000012", at, 3));
  }
  EXPECT_OK(Check());
  Write("MANIFEST-000012", bytes_.substr(0, bytes_.size() - 1));
  EXPECT_THAT(Check(), DataLoss("/db/MANIFEST-000012",
                                "is truncated: expected at least 300003 bytes",
                                "\"ckptdb backup\""));
  // A copy may have a CURRENT that is newer than its list of files.
  ASSERT_TRUE(files_.Remove("/db/MANIFEST-000012"));
  EXPECT_THAT(Check(),
              DataLoss("which CURRENT names, is missing", "\"ckptdb backup\""));
}

TEST_F(CheckManifestTest, AnOlderOneOrNone) {
  Write("MANIFEST-000011", bytes_);
  Write("CURRENT", "MANIFEST-000011\n");
  EXPECT_THAT(Check(), DataLoss("/db/CURRENT", "names \"MANIFEST-000011\"",
                                "MANIFEST 12 was in use"));
  for (const char* const current : {"", "\n", "x", "MANIFEST-\n"}) {
    Write("CURRENT", current);
    EXPECT_THAT(Check(), DataLoss("MANIFEST 12 was in use")) << current;
  }
  ASSERT_TRUE(files_.Remove("/db/CURRENT"));
  EXPECT_THAT(Check(), DataLoss("/db/CURRENT"));
}

}  // namespace
}  // namespace ckptdb::internal
