// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/codec.h"

#include <random>

#include "schema/bytes/limits.h"
#include "schema/types.h"
#include "tests/support/seed.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

std::string RandomBytes(size_t bytes, std::mt19937_64* random) {
  std::string out(bytes, '\0');
  for (char& c : out) c = static_cast<char>((*random)());
  return out;
}

// Elements with similar high bytes, such as counters.
std::string Counters(size_t elements, uint32_t element_bytes,
                     std::mt19937_64* random) {
  std::string out(elements * element_bytes, '\0');
  for (size_t i = 0; i < elements; ++i) {
    out[i * element_bytes] = static_cast<char>((*random)());
  }
  return out;
}

TEST(Codec, NamesAndNumbers) {
  const std::vector<std::string> names = {"none", "lz4", "shuffle-lz4", "bf16",
                                          "int8"};
  for (size_t number = 0; number < names.size(); ++number) {
    const Codec codec = CodecFromStored(static_cast<uint8_t>(number)).value();
    EXPECT_EQ(std::string(CodecName(codec)), names[number]);
    EXPECT_EQ(ParseCodec(names[number]).value(), codec);
  }
  EXPECT_EQ(ParseCodec("auto").value(), Codec::kAuto);
  EXPECT_EQ(std::string(CodecName(Codec::kAuto)), "auto");
}

TEST(Codec, RejectsUnknownNumbersAndNames) {
  for (int number = 5; number < 256; ++number) {
    EXPECT_THAT(CodecFromStored(static_cast<uint8_t>(number)),
                DataLoss("invalid stored codec " + std::to_string(number) +
                         "; expected 0 (none), 1 (lz4), 2 (shuffle-lz4), 3 "
                         "(bf16) or 4 (int8)"));
  }
  EXPECT_THAT(
      ParseCodec("zstd"),
      InvalidArgument("unknown codec \"zstd\"; expected one of none, lz4"));
}

TEST(Codec, RoundTripOfAllSizesAndElements) {
  for (const Codec codec : {Codec::kLz4, Codec::kShuffleLz4}) {
    for (const uint32_t element_bytes : {1u, 2u, 4u, 8u, 3u}) {
      for (const size_t bytes :
           {size_t{64}, size_t{65}, size_t{71}, size_t{4096},
            size_t{kPageBytes}, size_t{kChunkBytes}}) {
        std::string raw(bytes, '\0');
        for (size_t i = 0; i < bytes; ++i) {
          raw[i] = static_cast<char>(i % element_bytes == 0 ? i / 100 : 7);
        }
        std::string stored;
        ASSERT_TRUE(Compress(codec, raw, element_bytes, &stored));
        ASSERT_LT(stored.size(), raw.size());
        std::string back(bytes, '?');
        ASSERT_OK(Decompress(codec, stored, element_bytes, bytes, back.data()));
        ASSERT_EQ(back, raw);
      }
    }
  }
}

TEST(Codec, ShuffleHelpsForSimilarElements) {
  std::mt19937_64 random(TestSeed());
  const std::string raw = Counters(10000, 8, &random);
  std::string plain;
  std::string shuffled;
  ASSERT_TRUE(Compress(Codec::kLz4, raw, 8, &plain));
  ASSERT_TRUE(Compress(Codec::kShuffleLz4, raw, 8, &shuffled));
  EXPECT_LT(shuffled.size(), plain.size());
  EXPECT_LT(shuffled.size(), raw.size() / 7);
}

TEST(Codec, LeavesIncompressibleBytesUncompressed) {
  std::mt19937_64 random(TestSeed());
  std::string stored;
  for (const Codec codec : {Codec::kLz4, Codec::kShuffleLz4}) {
    EXPECT_FALSE(Compress(codec, "", 4, &stored));
    EXPECT_FALSE(Compress(codec, "a", 4, &stored));
    EXPECT_FALSE(Compress(codec, RandomBytes(100000, &random), 4, &stored));
  }
}

TEST(Codec, DecompressRejectsWrongSizes) {
  const std::string raw(1000, 'r');
  for (const Codec codec : {Codec::kLz4, Codec::kShuffleLz4}) {
    std::string stored;
    ASSERT_TRUE(Compress(codec, raw, 4, &stored));
    std::string back(2000, '\0');
    for (const uint64_t bytes : {999, 1001, 2000}) {
      EXPECT_THAT(Decompress(codec, stored, 4, bytes, back.data()),
                  DataLoss("do not decompress to " + std::to_string(bytes)));
    }
    for (size_t bytes = 0; bytes < stored.size(); ++bytes) {
      EXPECT_THAT(Decompress(codec, stored.substr(0, bytes), 4, raw.size(),
                             back.data()),
                  DataLoss(std::to_string(bytes) + " bytes of " +
                           std::string(CodecName(codec)) +
                           " do not decompress to 1000 bytes"));
    }
    EXPECT_THAT(Decompress(codec, stored, 4, stored.size(), back.data()),
                DataLoss("expected fewer bytes than raw bytes"));
    EXPECT_THAT(Decompress(codec, stored, 4, 0, nullptr),
                DataLoss("expected fewer bytes than raw bytes"));
    EXPECT_THAT(Decompress(codec, stored, 4, kChunkBytes + 1, nullptr),
                DataLoss("at most " + std::to_string(kChunkBytes)));
  }
  EXPECT_THAT(Decompress(Codec::kNone, raw, 4, 999, nullptr),
              DataLoss("1000 stored bytes without a codec; expected 999"));
  EXPECT_OK(Decompress(Codec::kNone, "", 4, 0, nullptr));
}

// Random bytes and a run of zeros, which LZ4 stores in a few bytes: together
// the size is about `percent` of 100,000.
std::string Compressible(int percent, std::mt19937_64* random) {
  const size_t noise = static_cast<size_t>(percent) * 1000;
  return RandomBytes(noise, random) + std::string(100000 - noise, '\0');
}

TEST(ChooseCodec, KeepsNoneUnlessItSavesFivePercent) {
  std::mt19937_64 random(TestSeed());
  EXPECT_EQ(ChooseCodec(Compressible(100, &random), 1), Codec::kNone);
  EXPECT_EQ(ChooseCodec(Compressible(96, &random), 1), Codec::kNone);
  EXPECT_EQ(ChooseCodec(Compressible(94, &random), 1), Codec::kLz4);
  EXPECT_EQ(ChooseCodec(Compressible(0, &random), 1), Codec::kLz4);
}

// At the threshold: the largest sample part that LZ4 reduces to 95 % or less.
TEST(ChooseCodec, ThresholdIsFivePercentOfTheSample) {
  std::mt19937_64 random(TestSeed());
  const std::string noise = RandomBytes(95000, &random);
  int kept = 0;
  int taken = 0;
  for (size_t zeros = 4900; zeros < 5600; ++zeros) {
    const std::string sample = noise + std::string(zeros, '\0');
    std::string stored;
    ASSERT_TRUE(Compress(Codec::kLz4, sample, 1, &stored));
    const bool worthwhile = stored.size() * 100 <= sample.size() * 95;
    ++(worthwhile ? taken : kept);
    ASSERT_EQ(ChooseCodec(sample, 1), worthwhile ? Codec::kLz4 : Codec::kNone)
        << stored.size() << " of " << sample.size();
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(taken, 0);
}

TEST(ChooseCodec, TakesTheSmallest) {
  std::mt19937_64 random(TestSeed());
  EXPECT_EQ(ChooseCodec(Counters(10000, 8, &random), 8), Codec::kShuffleLz4);
  // With a period of three bytes, shuffling by four does not help.
  std::string periodic;
  const std::string period = RandomBytes(3000, &random);
  while (periodic.size() < 60000) periodic += period;
  EXPECT_EQ(ChooseCodec(periodic, 4), Codec::kLz4);
}

TEST(ChooseCodec, LeavesShortSamplesUncompressed) {
  EXPECT_EQ(ChooseCodec("", 4), Codec::kNone);
  EXPECT_EQ(ChooseCodec("a", 4), Codec::kNone);
}

}  // namespace
}  // namespace ckptdb::testing
