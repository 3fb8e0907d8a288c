// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/page.h"

#include <cstring>
#include <random>

#include "absl/strings/escaping.h"
#include "schema/bytes/limits.h"
#include "schema/types.h"
#include "tests/schema/samples.h"
#include "tests/support/seed.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

auto IsBadHeader(const std::string& words) {
  return DataLoss(StartsWith("page header: "), words);
}

// Replaces a little-endian number of an entry and corrects the header's hash,
// so that only the number is wrong.
template <typename T>
std::string With(std::string entry, size_t at, T number) {
  std::memcpy(entry.data() + at, &number, sizeof(number));
  std::memset(entry.data() + 20, 0, 4);
  const auto hash = static_cast<uint32_t>(
      HashBytes(absl::string_view(entry).substr(0, kPageHeaderBytes)));
  std::memcpy(entry.data() + 20, &hash, sizeof(hash));
  return entry;
}

absl::StatusOr<std::string> Read(const std::string& entry,
                                 uint32_t element_bytes) {
  const auto page = ParsePage(entry);
  if (!page.ok()) return page.status();
  std::string scratch;
  const auto raw = ReadPage(*page, element_bytes, &scratch);
  if (!raw.ok()) return raw.status();
  std::string copied(page->raw_bytes, '?');
  EXPECT_OK(ReadPageTo(*page, element_bytes, copied.data()));
  EXPECT_EQ(copied, std::string(*raw));
  return std::string(*raw);
}

TEST(Page, HashIsXxh3) { EXPECT_EQ(HashBytes(""), 0x2d06800538d394c2u); }

TEST(Page, FirstBytes) {
  const std::string entry = MakePage("abc", Codec::kNone, 0x01020304);
  EXPECT_EQ(absl::BytesToHexString(entry.substr(0, 20)),
            "434b5450"    // "CKTP"
            "00000000"    // codec and reserved
            "04030201"    // count
            "03000000"    // raw bytes
            "03000000");  // stored bytes
  uint64_t hash = 0;
  std::memcpy(&hash, entry.data() + 24, sizeof(hash));
  EXPECT_EQ(hash, HashBytes("abc"));
  EXPECT_EQ(entry.substr(kPageHeaderBytes), "abc");
}

struct Case {
  std::string name;
  std::string raw;
  bool shrinks;
};

std::vector<Case> Cases() {
  std::mt19937_64 random(TestSeed());
  std::string noise(kPageBytes, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  return {{"empty", "", false},
          {"one byte", "x", false},
          {"odd", std::string(1021, 'q'), true},
          {"page of zeros", std::string(kPageBytes, '\0'), true},
          {"below the limit", std::string(kChunkBytes - 1, '\0'), true},
          {"at the limit", std::string(kChunkBytes, '\0'), true},
          {"noise", noise, false}};
}

TEST(Page, RoundTripOfAllCodecsAndSizes) {
  PageBuilder builder;  // reused for all pages, as by writers
  for (const Case& each : Cases()) {
    for (const Codec codec : {Codec::kNone, Codec::kLz4, Codec::kShuffleLz4}) {
      for (const uint32_t element_bytes : {1u, 2u, 4u, 8u}) {
        SCOPED_TRACE(each.name + " " + std::string(CodecName(codec)));
        each.raw.copy(builder.Reset(each.raw.size()), each.raw.size());
        builder.Finish(codec, 17, element_bytes);
        EXPECT_EQ(builder.raw_hash(), HashBytes(each.raw));
        const std::string entry(builder.entry());
        ASSERT_OK_AND_ASSIGN(const PageView page, ParsePage(entry));
        EXPECT_EQ(page.codec, each.shrinks ? codec : Codec::kNone);
        EXPECT_EQ(page.count, 17u);
        EXPECT_EQ(page.raw_bytes, each.raw.size());
        EXPECT_EQ(page.raw_hash, HashBytes(each.raw));
        EXPECT_LE(entry.size(), kPageHeaderBytes + each.raw.size());
        ASSERT_OK_AND_ASSIGN(const std::string raw, Read(entry, element_bytes));
        ASSERT_EQ(raw, each.raw);
      }
    }
  }
}

TEST(Page, FinishWithHashStoresTheGivenHash) {
  PageBuilder builder;
  std::memcpy(builder.Reset(3), "abc", 3);
  builder.FinishWithHash(Codec::kNone, 3, 1, HashBytes("abc"));
  EXPECT_EQ(std::string(builder.entry()), MakePage("abc"));
  builder.FinishWithHash(Codec::kNone, 3, 1, 1234);
  EXPECT_EQ(builder.raw_hash(), 1234u);
  EXPECT_THAT(Read(std::string(builder.entry()), 1),
              DataLoss("does not match the stored hash 4d2"));
}

TEST(Page, NamesTheWrongHeaderField) {
  const std::string entry = MakePage("abc");
  const std::string packed =
      MakePage(std::string(1000, 'p'), Codec::kLz4, 1000);
  ASSERT_OK(Read(With(entry, 8, uint32_t{3}), 1));  // With() is correct
  EXPECT_THAT(ParsePage(With(entry, 0, uint32_t{7})),
              IsBadHeader("magic 7, expected 1347701571"));
  EXPECT_THAT(ParsePage(With(entry, 4, uint8_t{5})),
              DataLoss("invalid stored codec 5; expected 0 (none)"));
  EXPECT_THAT(ParsePage(With(entry, 4, uint8_t{255})),
              DataLoss("stored codec 255"));
  EXPECT_THAT(ParsePage(With(entry, 5, uint8_t{2})),
              IsBadHeader("reserved 2, expected 0"));
  EXPECT_THAT(ParsePage(With(entry, 6, uint16_t{512})),
              IsBadHeader("reserved 512, expected 0"));
  EXPECT_THAT(ParsePage(With(entry, 12, uint32_t{4})),
              IsBadHeader("raw bytes 4, expected 3 under codec none"));
  EXPECT_THAT(ParsePage(With(entry, 16, uint32_t{4})),
              IsBadHeader("stored bytes 4, expected 3"));
  EXPECT_THAT(ParsePage(With(entry, 12, uint32_t{kChunkBytes + 1})),
              IsBadHeader("raw bytes " + std::to_string(kChunkBytes + 1) +
                          ", expected at most " + std::to_string(kChunkBytes)));
  EXPECT_THAT(Read(With(entry, 24, uint64_t{5}), 1),
              DataLoss("does not match the stored hash 5"));
  EXPECT_THAT(ParsePage(With(packed, 4, uint8_t{0})),
              IsBadHeader("raw bytes 1000, expected"));
  EXPECT_THAT(ParsePage(With(entry, 4, uint8_t{1})),
              IsBadHeader("raw bytes 3, expected more than 3 under codec lz4"));
  EXPECT_THAT(Read(With(packed, 12, uint32_t{1001}), 1),
              DataLoss("bytes of lz4 do not decompress to 1001 bytes"));
  EXPECT_THAT(Read(With(packed, 24, uint64_t{5}), 1),
              DataLoss("does not match the stored hash 5"));
  std::string unhashed = entry;
  unhashed[8] = 9;  // the count: only the hash reveals the error
  EXPECT_THAT(ParsePage(unhashed), IsBadHeader("hash "));
}

TEST(Page, HashDetectsTheWrongShuffle) {
  std::string raw(1000, '\0');
  for (size_t i = 0; i < raw.size(); i += 4) raw[i] = static_cast<char>(i);
  const std::string entry = MakePage(raw, Codec::kShuffleLz4, 250, 4);
  EXPECT_EQ(Read(entry, 4).value(), raw);
  EXPECT_THAT(Read(entry, 8), DataLoss("page hash "));
  EXPECT_THAT(Read(With(entry, 4, uint8_t{1}), 4), DataLoss("page hash "));
}

std::vector<std::string> Entries() {
  std::string counters(1200, '\0');
  for (size_t i = 0; i < counters.size(); i += 4) {
    counters[i] = static_cast<char>(i / 4);
  }
  return {MakePage(""), MakePage("abcdefgh"),
          MakePage(counters, Codec::kLz4, 300, 4),
          MakePage(counters, Codec::kShuffleLz4, 300, 4)};
}

TEST(Page, EveryFlippedBitIsAnErrorOrChangesNothing) {
  for (const std::string& entry : Entries()) {
    ASSERT_OK_AND_ASSIGN(const std::string raw, Read(entry, 4));
    for (size_t bit = 0; bit < entry.size() * 8; ++bit) {
      std::string flipped = entry;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      const auto read = Read(flipped, 4);
      // LZ4 can store some bytes in more than one form.
      if (read.ok() && bit >= kPageHeaderBytes * 8) {
        EXPECT_EQ(*read, raw) << "bit " << bit;
      } else {
        EXPECT_THAT(read, DataLoss("")) << "bit " << bit;
      }
    }
  }
}

TEST(Page, DetectsEveryTruncation) {
  for (const std::string& entry : Entries()) {
    for (size_t bytes = 0; bytes < entry.size(); ++bytes) {
      EXPECT_THAT(
          ParsePage(entry.substr(0, bytes)),
          DataLoss(
              bytes < kPageHeaderBytes
                  ? "entry of " + std::to_string(bytes) +
                        " bytes is too short; a page header alone has 32 bytes"
                  : "page header: stored bytes "));
    }
    EXPECT_THAT(ParsePage(entry + "x"),
                IsBadHeader("stored bytes " +
                            std::to_string(entry.size() - 32) + ", expected"));
  }
}

}  // namespace
}  // namespace ckptdb::testing
