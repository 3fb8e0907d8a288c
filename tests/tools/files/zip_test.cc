// SPDX-License-Identifier: Apache-2.0
// Archives: written ones are read back, and hostile ones are refused.
#include "tools/files/zip.h"

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/files/file_bytes.h"
#include "tools/files/mapped_file.h"

namespace ckptdb::tool {
namespace {

using testing::TempDir;

// An archive of stored members with these contents.
std::string Zip(const std::vector<std::pair<std::string, std::string>>& parts) {
  std::string file;
  std::vector<ZipMember> members;
  for (const auto& [name, bytes] : parts) {
    ZipMember member;
    member.name = name;
    member.header_at = file.size();
    member.bytes = bytes.size();
    PieceCrc crc;
    crc.Add(0, bytes);
    member.crc = crc.Value();
    file += ZipHeader(member) + bytes;
    members.push_back(member);
  }
  return file + ZipEnd(members, file.size());
}

absl::StatusOr<std::string> ReadMember(const std::string& file,
                                       const ZipMember& member) {
  std::string bytes;
  const absl::Status read =
      ReadZipMember(file, member, [&](absl::string_view piece) {
        bytes.append(piece.data(), piece.size());
        return absl::OkStatus();
      });
  if (!read.ok()) return read;
  return bytes;
}

TEST(ZipTest, MembersComeBack) {
  const std::string file = Zip({{"a.npy", "first"}, {"b", ""}, {"c/d", "3"}});
  ASSERT_OK_AND_ASSIGN(const std::vector<ZipMember> members, ParseZip(file));
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[2].name, "c/d");
  EXPECT_EQ(ReadMember(file, members[0]).value(), "first");
  EXPECT_EQ(ReadMember(file, members[1]).value(), "");
  for (const ZipMember& member : members) EXPECT_EQ(member.data_at % 64, 0u);
}

TEST(ZipTest, PieceCrcsOfAnyOrderAreEqual) {
  const std::string bytes(100'000, 'x');
  PieceCrc whole;
  whole.Add(0, bytes);
  PieceCrc pieces;
  pieces.Add(70'000, absl::string_view(bytes).substr(70'000));
  pieces.Add(0, absl::string_view(bytes).substr(0, 1));
  pieces.Add(1, absl::string_view(bytes).substr(1, 69'999));
  EXPECT_EQ(whole.Value(), pieces.Value());
}

// The records that begin with these bytes, in order.
size_t Find(const std::string& file, const char* record, size_t from = 0) {
  return file.find(record, from);
}
std::string With(std::string file, size_t at, const std::string& bytes) {
  return file.replace(at, bytes.size(), bytes);
}

TEST(ZipTest, RefusesBadArchives) {
  const std::string good = Zip({{"a", "first"}, {"b", "second"}});
  const size_t central = Find(good, "PK\x01\x02");
  const size_t second = Find(good, "PK\x01\x02", central + 1);
  const size_t end = Find(good, "PK\x05\x06");
  const std::string huge(4, '\xfe');
  ExpectError(ParseZip(""), kDataLoss, "has 0 bytes");
  ExpectError(ParseZip(std::string(1000, 'x')), kDataLoss, "central directory");
  ExpectError(ParseZip(good.substr(0, good.size() - 1)), kDataLoss,
              "truncated");
  // The directory's place and size, and the number of members.
  ExpectError(ParseZip(With(good, end + 16, huge)), kInvalid, "outside");
  ExpectError(ParseZip(With(good, end + 12, huge)), kInvalid, "outside");
  ExpectError(ParseZip(With(good, end + 10, "\xfe\xfe")), kInvalid,
              "number of members, 65278,");
  ExpectError(ParseZip(With(good, end + 10, "\xff\xff")), kInvalid, "Zip64");
  // A member's sizes, method, flags and place.
  ExpectError(ParseZip(With(good, central + 20, huge)), kInvalid,
              "that takes 4278124286");
  ExpectError(ParseZip(With(good, central + 20, huge + huge)), kDataLoss,
              "beyond the archive");
  ExpectError(ParseZip(With(good, central + 10, "\x0c")), kInvalid,
              "compression method 12");
  ExpectError(ParseZip(With(good, central + 8, "\x01")), kInvalid, "encrypted");
  ExpectError(ParseZip(With(good, central + 42, huge)), kInvalid, "outside");
  ExpectError(ParseZip(With(good, central + 42, "\x01")), kInvalid,
              "no header");
  ExpectError(ParseZip(With(good, central + 28, "\xff\xff")), kInvalid, "cut");
  ExpectError(ParseZip(With(good, second + 46, "a")), kInvalid, "differs");
  ExpectError(ParseZip(Zip({{"a", "1"}, {"a", "2"}})), kInvalid,
              "a second member \"a\"");
  // Both entries lead to the same data.
  ExpectError(
      ParseZip(With(With(good, second + 42, good.substr(central + 42, 4)),
                    second + 46, "a")),
      kInvalid, "second member");
}

TEST(ZipTest, DetectsDamage) {
  const std::string good = Zip({{"a", "first"}});
  ASSERT_OK_AND_ASSIGN(const std::vector<ZipMember> members, ParseZip(good));
  ExpectError(ReadMember(With(good, members[0].data_at, "F"), members[0]),
              kDataLoss, "with CRC");
  ZipMember deflated = members[0];
  deflated.deflated = true;
  ExpectError(ReadMember(good, deflated), kDataLoss, "decompressed");
}

// A member that begins beyond 4 GiB, in a file with a hole.
TEST(ZipTest, Zip64) {
  ZipMember large;
  large.name = "large";
  large.bytes = uint64_t{5} << 30;
  large.data_at = ZipHeader(large).size();
  ZipMember late;
  late.name = "late";
  late.header_at = large.data_at + large.bytes;
  late.bytes = 3;
  PieceCrc crc;
  crc.Add(0, "abc");
  late.crc = crc.Value();
  const std::string header = ZipHeader(late);
  late.data_at = late.header_at + header.size();
  const uint64_t end_at = late.data_at + late.bytes;
  const TempDir dir;
  const std::string path = dir.path() + "/large.zip";
  std::ofstream file(path, std::ios::binary);
  file << ZipHeader(large);
  file.seekp(static_cast<std::streamoff>(late.header_at));
  file << header << "abc" << ZipEnd({large, late}, end_at);
  file.close();
  ASSERT_TRUE(file.good());
  ASSERT_OK_AND_ASSIGN(const auto mapped, MappedFile::Open(path));
  ASSERT_OK_AND_ASSIGN(const std::vector<ZipMember> members,
                       ParseZip(mapped->bytes()));
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].bytes, large.bytes);
  EXPECT_EQ(members[1].data_at, late.data_at);
  EXPECT_EQ(mapped->bytes().substr(members[1].data_at, 3), "abc");
}

}  // namespace
}  // namespace ckptdb::tool
