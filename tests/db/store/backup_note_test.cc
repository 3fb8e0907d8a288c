// SPDX-License-Identifier: Apache-2.0
// The list of a backup's files: every damage is found, and no name leads out of
// the backup.
#include "db/store/backup_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "schema/bytes/page.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::internal {
namespace {

using ::testing::HasSubstr;

BackupNote SampleNote() {
  BackupNote note;
  note.backup.store_uuid = "u-1";
  note.backup.made_at_micros = 17;
  note.backup.named = true;
  note.backup.steps = 2;
  note.backup.latest_step = 200;
  note.backup.new_bytes = 5;
  note.backup.bad_files = {"db/000009.sst"};
  note.files = {{"db/000012.sst", 4096, std::nullopt},
                {"db/CURRENT", 16, 0x0123456789abcdef}};
  return note;
}

// Gives a changed text the hash that belongs to it.
std::string WithHash(std::string text) {
  text.resize(text.rfind("hash "));
  return absl::StrCat(text, "hash ",
                      absl::Hex(HashBytes(text), absl::kZeroPad16), "\n");
}

TEST(BackupNoteTest, DecodesWhatItEncodes) {
  const std::string text = EncodeBackupNote(SampleNote());
  ASSERT_OK_AND_ASSIGN(const BackupNote note, DecodeBackupNote(text));
  EXPECT_EQ(note.files, SampleNote().files);
  EXPECT_EQ(note.backup.bytes, 4112);
  EXPECT_EQ(note.backup.bad_files, SampleNote().backup.bad_files);
  EXPECT_EQ(EncodeBackupNote(note), text);
}

TEST(BackupNoteTest, FindsEachChangedAndMissingByte) {
  const std::string text = EncodeBackupNote(SampleNote());
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(DecodeBackupNote(text.substr(0, i)).ok()) << i;
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    EXPECT_FALSE(DecodeBackupNote(flipped).ok()) << i;
  }
}

TEST(BackupNoteTest, RefusesNamesThatLeadOutOfTheBackup) {
  const std::string text = EncodeBackupNote(SampleNote());
  for (const char* path :
       {"../x", "/etc/x", "db/../../x", "db//x", "db/.", ""}) {
    const std::string bad =
        WithHash(absl::StrReplaceAll(text, {{"db/CURRENT", path}}));
    const auto note = DecodeBackupNote(bad);
    EXPECT_EQ(note.status().code(), absl::StatusCode::kDataLoss) << path;
    EXPECT_THAT(std::string(note.status().message()),
                HasSubstr("invalid line"));
  }
}

TEST(BackupNoteTest, RefusesALaterVersion) {
  const std::string text =
      WithHash(absl::StrReplaceAll(EncodeBackupNote(SampleNote()),
                                   {{"ckptdb backup 1", "ckptdb backup 2"}}));
  EXPECT_EQ(DecodeBackupNote(text).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace ckptdb::internal
