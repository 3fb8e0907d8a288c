// SPDX-License-Identifier: Apache-2.0
// The initial inputs of the fuzz targets, checked in under tests/fuzz/corpus,
// must match the current encoders' output. After a change of the format,
//
//   CKPTDB_WRITE_CORPUS=1 build/release/bin/corpus_test
//
// rewrites them.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "schema/bytes/codec.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/lossy.h"
#include "schema/records/envelope.h"
#include "schema/records/evaluation.h"
#include "schema/records/records.h"
#include "schema/records/remote.h"
#include "schema/types.h"
#include "tests/schema/samples.h"
#include "tests/support/source_folder.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

constexpr size_t kMostFileBytes = 4096;
constexpr size_t kFewestFiles = 12;

using Corpus = std::map<std::string, std::string>;  // by file name

std::string Body(const std::string& record) {
  return record.substr(internal::kEnvelopeBytes);
}

// Adds a record of kind `pick`, its FlatBuffer, and damaged ones.
void AddRecord(char pick, const std::string& name, const std::string& record,
               Corpus* corpus) {
  const std::string first(1, pick);
  std::string flipped = Body(record);
  flipped[flipped.size() / 2] ^= 0x40;
  (*corpus)[name] = first + record;
  (*corpus)[name + "_body"] = first + Body(record);
  (*corpus)[name + "_cut"] = first + Body(record).substr(0, 40);
  (*corpus)[name + "_flipped"] = first + flipped;
}

Corpus RecordCorpus() {
  Corpus corpus;
  AddRecord(0, "step", EncodeStepRecord(SampleStep()).value(), &corpus);
  AddRecord(1, "rank", EncodeRankRecord(SampleRank()).value(), &corpus);
  AddRecord(2, "attempt", EncodeAttemptRecord(SampleAttempt()).value(),
            &corpus);
  AddRecord(3, "root", EncodeRootRecord(SampleRoot()).value(), &corpus);
  AddRecord(4, "lease", EncodeLease(SampleLease()).value(), &corpus);
  AddRecord(5, "evaluation", EncodeEvaluationRecord(SampleEvaluation()).value(),
            &corpus);
  AddRecord(6, "post", EncodePost(SamplePost()).value(), &corpus);
  AddRecord(7, "remote_format",
            internal::EncodeRemoteFormat(SampleRemoteFormat()).value(),
            &corpus);
  AddRecord(8, "remote_version",
            internal::EncodeRemoteVersion(SampleRemoteVersion()).value(),
            &corpus);
  AddRecord(9, "remote_catalog",
            internal::EncodeRemoteCatalog(SampleRemoteCatalog()).value(),
            &corpus);
  AddRecord(1, "rank_shards",
            EncodeRankRecord({{30, 9}, 0, SampleShards()}).value(), &corpus);
  Item ranged = SampleTable();
  ranged.sharding = Item::Sharding::kByRange;
  ranged.first_id = -5;
  ranged.end_id = 500;
  AddRecord(1, "rank_range", EncodeRankRecord({{30, 9}, 0, {ranged}}).value(),
            &corpus);
  StepRecord::Rank one = SampleRank();
  for (Item& item : one.items) {
    const std::string kind(ItemKindName(item.kind));
    corpus["rank_" + kind] =
        std::string(1, 1) +
        Body(EncodeRankRecord({{30, 9}, 0, {item}}).value());
  }
  return corpus;
}

Corpus StagedCorpus() {
  Corpus corpus;
  AddRecord(0, "ticket", EncodeTicket(SampleTicket()).value(), &corpus);
  AddRecord(1, "staged", EncodeStagedRank(SampleStagedRank()).value(), &corpus);
  internal::TicketRecord least = SampleTicket();
  least.slices.reset();
  least.parent.reset();
  least.parent_tables.reset();
  AddRecord(0, "ticket_least", EncodeTicket(least).value(), &corpus);
  return corpus;
}

std::string Counters(size_t bytes) {
  std::string raw(bytes, '\0');
  for (size_t i = 0; i < bytes; i += 4) raw[i] = static_cast<char>(i / 64);
  return raw;
}

// Numbers of each size; a few rows contain a NaN.
std::string FloatBytes(size_t count) {
  std::string raw;
  for (size_t i = 0; i < count; ++i) {
    const float number = i % 200 == 99 ? std::numeric_limits<float>::quiet_NaN()
                                       : static_cast<float>(i * i) / 64 - 7;
    raw.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  return raw;
}

Corpus PageCorpus() {
  Corpus corpus;
  for (const Codec codec : {Codec::kNone, Codec::kLz4, Codec::kShuffleLz4}) {
    const std::string name(CodecName(codec));
    for (const size_t bytes :
         {size_t{0}, size_t{1}, size_t{64}, size_t{1022}}) {
      corpus[name + "_" + std::to_string(bytes)] =
          std::string(1, 2) + MakePage(Counters(bytes), codec, 16, 4);
    }
  }
  for (const Codec codec : {Codec::kBf16, Codec::kInt8}) {
    for (const size_t rows : {1, 16}) {
      corpus[std::string(CodecName(codec)) + "_" + std::to_string(rows)] =
          std::string(1, 2) + MakePage(FloatBytes(rows * 16), codec,
                                       static_cast<uint32_t>(rows), 4);
    }
  }
  corpus["zeros"] = std::string(1, 3) +
                    MakePage(std::string(200000, '\0'), Codec::kLz4, 1, 8);
  return corpus;
}

void AddLossy(Corpus* corpus) {
  for (const Codec codec : {Codec::kBf16, Codec::kInt8}) {
    for (const int numbers : {16, 256}) {
      std::string stored;
      Item::Error error;
      Quantize(codec, FloatBytes(numbers), 16, Rounding::kNearest, &stored,
               &error);
      const int bytes = numbers * 4;
      const std::string head = {codec == Codec::kBf16 ? '\2' : '\3', 15,
                                static_cast<char>(bytes % 256),
                                static_cast<char>(bytes / 256)};
      const std::string name =
          std::string(CodecName(codec)) + "_" + std::to_string(numbers);
      (*corpus)[name] = head + stored;
      (*corpus)[name + "_raw"] = head + FloatBytes(numbers);
    }
  }
}

Corpus CodecCorpus() {
  Corpus corpus;
  for (const Codec codec : {Codec::kLz4, Codec::kShuffleLz4}) {
    const char pick = codec == Codec::kLz4 ? 0 : 1;
    for (const size_t bytes : {100, 1000, 2000}) {
      std::string stored;
      Compress(codec, Counters(bytes), 4, &stored);
      const std::string head = {pick, 3, static_cast<char>(bytes % 256),
                                static_cast<char>(bytes / 256)};
      const std::string name =
          std::string(CodecName(codec)) + "_" + std::to_string(bytes);
      corpus[name] = head + stored;
      corpus[name + "_raw"] = head + Counters(bytes);
    }
  }
  AddLossy(&corpus);
  return corpus;
}

Corpus KeyCorpus() {
  Corpus corpus;
  const std::vector<Item::Kind> chunked = {Item::Kind::kBlob,
                                           Item::Kind::kTensor};
  for (const Item::Kind kind : chunked) {
    std::string key = ItemPrefix({7, 3}, 1, kind, "net/w\xc3\xa9");
    corpus[std::string(ItemKindName(kind)) + "_prefix"] = key;
    AppendChunk(5, &key);
    corpus[std::string(ItemKindName(kind))] = key;
  }
  for (const uint16_t slot : {kIdSlot, uint16_t{1}, kErasedSlot}) {
    std::string key =
        ItemPrefix({int64_t{1} << 62, 9}, 0, Item::Kind::kRows, "users");
    AppendStream(slot == 0 ? Item::Run::kBase : Item::Run::kDelta, slot, &key);
    corpus["stream_" + std::to_string(slot)] = key;
    AppendPosition({65535, ~uint64_t{0}}, &key);
    corpus["page_" + std::to_string(slot)] = key;
  }
  corpus["version"] = VersionPrefix({7, 3});
  corpus["step"] = StepKey(7);
  corpus["rank"] = RankKey({7, 3}, 1);
  corpus["attempt"] = AttemptKey(3);
  corpus["evaluation"] = EvaluationKey({7, 3}, "test/day_7", 1);
  corpus["root"] = RootKey();
  return corpus;
}

Corpus NameCorpus() {
  return {{"letter", "a"},
          {"path", "model/dense_1/kernel"},
          {"two_bytes", "\xc3\xa9"},
          {"three_bytes", "\xe2\x82\xac"},
          {"four_bytes", "\xf0\x9f\x98\x80"},
          {"longest", std::string(kMaxNameBytes, 'n')},
          {"too_long", std::string(kMaxNameBytes + 1, 'n')},
          {"nul", std::string("a\0b", 3)},
          {"lone_tail", "a\x80"},
          {"overlong", "\xc0\x80"},
          {"surrogate", "\xed\xa0\x80"},
          {"beyond", "\xf4\x90\x80\x80"},
          {"cut", "\xe2\x82"}};
}

std::map<std::string, Corpus> Corpora() {
  return {
      {"codec_fuzzer", CodecCorpus()},    {"keys_fuzzer", KeyCorpus()},
      {"names_fuzzer", NameCorpus()},     {"page_fuzzer", PageCorpus()},
      {"records_fuzzer", RecordCorpus()}, {"staged_fuzzer", StagedCorpus()}};
}

void Write(const std::filesystem::path& folder, const Corpus& corpus) {
  std::filesystem::create_directories(folder);
  for (const auto& [name, bytes] : corpus) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
}

TEST(Corpus, MatchesTheEncoders) {
  const std::filesystem::path root = SourcePath("tests/fuzz/corpus");
  for (const auto& [target, corpus] : Corpora()) {
    if (std::getenv("CKPTDB_WRITE_CORPUS") != nullptr) {
      Write(root / target, corpus);
    }
    EXPECT_GE(corpus.size(), kFewestFiles) << target;
    for (const auto& [name, bytes] : corpus) {
      EXPECT_LT(bytes.size(), kMostFileBytes) << target << " " << name;
      std::ifstream file(root / target / name, std::ios::binary);
      ASSERT_TRUE(file.is_open()) << target << " " << name;
      const std::string stored{std::istreambuf_iterator<char>(file), {}};
      EXPECT_EQ(stored, bytes) << target << " " << name;
    }
  }
}

}  // namespace
}  // namespace ckptdb::testing
