// SPDX-License-Identifier: Apache-2.0
// Valid FlatBuffers that no encoder writes.
#include "ckptdb_generated.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/limits.h"
#include "schema/records/envelope.h"
#include "schema/records/records.h"
#include "schema/records/staged.h"
#include "schema/types.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using internal::RecordKind;

auto IsRecordLoss(const std::string& record, const std::string& words) {
  return DataLoss(StartsWith(record + ": "), words);
}

std::string Sealed(RecordKind kind, const FlatBufferBuilder& builder) {
  return internal::Seal(kind, absl::string_view(reinterpret_cast<const char*>(
                                                    builder.GetBufferPointer()),
                                                builder.GetSize()));
}

// A step record that is valid except for the test's change.
struct RawStep {
  uint32_t flags = 0;
  std::vector<std::string> metrics = {};
  std::vector<std::string> metadata = {};
  std::string metadata_value = "value";
};

std::string Encode(const RawStep& raw) {
  FlatBufferBuilder builder;
  std::vector<Offset<fbs::Metric>> metrics;
  for (const std::string& name : raw.metrics) {
    metrics.push_back(
        fbs::CreateMetric(builder, builder.CreateString(name), 1.5));
  }
  std::vector<Offset<fbs::Metadata>> metadata;
  for (const std::string& name : raw.metadata) {
    const auto added = builder.CreateString(name);
    metadata.push_back(fbs::CreateMetadata(
        builder, added,
        builder.CreateVector(
            reinterpret_cast<const uint8_t*>(raw.metadata_value.data()),
            raw.metadata_value.size())));
  }
  const std::vector<fbs::Version> chain = {{3, 4}};
  const auto chain_vector = builder.CreateVectorOfStructs(chain);
  const std::vector<fbs::Branch> branches = {{4, 4}};
  const auto branch_vector = builder.CreateVectorOfStructs(branches);
  const auto digests = builder.CreateVector(std::vector<uint64_t>{7});
  const auto library = builder.CreateString("0.1.0");
  const auto uuid = builder.CreateString("6f1c");
  const auto metric_vector = builder.CreateVector(metrics);
  const auto metadata_vector = builder.CreateVector(metadata);
  builder.Finish(fbs::CreateStepRecord(
      builder, 3, 4, /*kind=*/0, nullptr, chain_vector, 0, 1, 0, 0, 0,
      raw.flags, metric_vector, metadata_vector, digests, library, /*items=*/0,
      /*rows=*/0, /*raw_bytes=*/0, /*stored_bytes=*/0, uuid,
      /*parent_digest=*/0, /*increment=*/nullptr, /*base_bytes=*/0,
      /*delta_bytes=*/0, branch_vector));
  return Sealed(RecordKind::kStep, builder);
}

TEST(FlatStepRecord, DecodesAValidRecord) {
  ASSERT_OK_AND_ASSIGN(
      const StepRecord record,
      DecodeStepRecord(Encode({.metrics = {"a", "b"}, .metadata = {"c"}})));
  EXPECT_EQ(record.version, (Version{3, 4}));
  EXPECT_TRUE(record.slice_bounds.empty());  // the field is absent
  EXPECT_TRUE(record.references.empty());
}

TEST(FlatStepRecord, RejectsUnknownFlags) {
  EXPECT_THAT(DecodeStepRecord(Encode({.flags = 8})),
              IsRecordLoss("step record", "flags 8 have unknown bits"));
}

TEST(FlatStepRecord, RejectsDuplicateNames) {
  EXPECT_THAT(
      DecodeStepRecord(Encode({.metrics = {"auc", "x", "auc"}})),
      IsRecordLoss("step record", "metrics have duplicate name \"auc\""));
  EXPECT_THAT(
      DecodeStepRecord(Encode({.metadata = {"k", "k"}})),
      IsRecordLoss("step record", "user metadata have duplicate name \"k\""));
}

TEST(FlatStepRecord, RejectsAMissingField) {
  FlatBufferBuilder builder;
  const auto library = builder.CreateString("0.1.0");
  fbs::StepRecordBuilder step(builder);
  step.add_library_version(library);
  builder.Finish(Offset<fbs::StepRecord>(builder.EndTable(8)));
  EXPECT_THAT(DecodeStepRecord(Sealed(RecordKind::kStep, builder)),
              IsRecordLoss("step record", "body is not a valid FlatBuffer"));
}

// The stored numbers of an item of a rank record.
struct RawItem {
  uint8_t kind = 'T';
  bool has_data = true;
  uint8_t codec = 0;
  uint8_t run = 'B';
  uint8_t slot_dtype = 1;
  uint8_t slot_codec = 0;
};

Offset<fbs::Item> Add(const RawItem& raw, FlatBufferBuilder* builder) {
  const auto name = builder->CreateString("it");
  const auto slot_name = builder->CreateString("slot");
  const auto slots = builder->CreateVector(std::vector<Offset<fbs::Slot>>{
      fbs::CreateSlot(*builder, slot_name, raw.slot_dtype, 2, raw.slot_codec)});
  const fbs::Version data(3, 4);
  const uint64_t raw_bytes = raw.kind == 'T' ? 4 : 0;
  const auto hashes =
      builder->CreateVector(std::vector<uint64_t>(raw.kind == 'T' ? 1 : 0));
  return fbs::CreateItem(*builder, raw.kind, name,
                         raw.has_data ? &data : nullptr, /*placement=*/0,
                         raw_bytes, 0, 0, hashes, /*dtype=*/1, raw.codec, 0, 0,
                         0, slots, /*slice_hash=*/0, raw.run, 0, 0, 1);
}

std::string Encode(const RawItem& raw) {
  FlatBufferBuilder builder;
  const auto item = Add(raw, &builder);
  const auto items = builder.CreateVector(std::vector<Offset<fbs::Item>>{item});
  builder.Finish(fbs::CreateRankRecord(builder, 3, 4, 0, items));
  return Sealed(RecordKind::kRank, builder);
}

TEST(FlatRankRecord, DecodesAValidRecord) {
  EXPECT_OK(DecodeRankRecord(Encode(RawItem{})));
  EXPECT_OK(DecodeRankRecord(Encode(RawItem{.kind = 'R'})));
  EXPECT_OK(DecodeRankRecord(Encode(RawItem{.kind = 'B'})));
}

TEST(FlatRankRecord, RejectsUnknownNumbers) {
  const std::vector<std::pair<RawItem, std::string>> bad = {
      {{.kind = 0}, "has unknown kind 0"},
      {{.kind = 'C'}, "has unknown kind 67"},
      {{.has_data = false}, "has no data version"},
      {{.codec = 5}, "invalid stored codec 5; expected 0 (none)"},
      {{.kind = 'R', .run = 0}, "has unknown run 0"},
      {{.run = 'R'}, "has unknown run 82"},
      {{.kind = 'R', .slot_dtype = 255},
       "invalid stored dtype 255; expected less than 15"},
      {{.kind = 'R', .slot_codec = 9},
       "invalid stored codec 9; expected 0 (none)"}};
  for (const auto& [item, words] : bad) {
    EXPECT_THAT(DecodeRankRecord(Encode(item)),
                IsRecordLoss("rank record", words));
  }
}

// A vector whose offsets all point to one table: small, but without a limit
// very expensive to read.
TEST(FlatRankRecord, RejectsARepeatedItem) {
  FlatBufferBuilder builder;
  const auto item = Add({}, &builder);
  const auto items =
      builder.CreateVector(std::vector<Offset<fbs::Item>>(10000, item));
  builder.Finish(fbs::CreateRankRecord(builder, 3, 4, 0, items));
  EXPECT_THAT(DecodeRankRecord(Sealed(RecordKind::kRank, builder)),
              IsRecordLoss("rank record", "body is not a valid FlatBuffer"));
}

TEST(FlatRankRecord, RejectsSharedChunkHashes) {
  FlatBufferBuilder builder;
  const auto hashes = builder.CreateVector(std::vector<uint64_t>(1024));
  const fbs::Version data(3, 4);
  std::vector<Offset<fbs::Item>> items;
  for (int i = 100; i < 300; ++i) {
    const auto name = builder.CreateString(std::to_string(i));
    items.push_back(fbs::CreateItem(builder, 'B', name, &data, 0,
                                    1024 * kChunkBytes, 0, 0, hashes, 0, 0, 0,
                                    0, 0, 0, 0, 'B'));
  }
  builder.Finish(
      fbs::CreateRankRecord(builder, 3, 4, 0, builder.CreateVector(items)));
  EXPECT_THAT(
      DecodeRankRecord(Sealed(RecordKind::kRank, builder)),
      IsRecordLoss("rank record", "items reference more bytes than the "));
}

TEST(FlatStagedRank, RejectsSharedValues) {
  FlatBufferBuilder builder;
  std::string key = ItemPrefix({3, 4}, 0, Item::Kind::kBlob, "b");
  AppendChunk(0, &key);
  const auto key_vector = builder.CreateVector(
      reinterpret_cast<const uint8_t*>(key.data()), key.size());
  const auto value = builder.CreateVector(std::vector<uint8_t>(20000));
  std::vector<Offset<fbs::InlineEntry>> entries(100);
  for (Offset<fbs::InlineEntry>& entry : entries) {
    entry = fbs::CreateInlineEntry(builder, key_vector, value);
  }
  const auto uuid = builder.CreateString("u");
  const auto entry_vector = builder.CreateVector(entries);
  builder.Finish(
      fbs::CreateStagedRank(builder, uuid, 3, 4, 0, 1, 0, entry_vector, value));
  EXPECT_THAT(
      DecodeStagedRank(Sealed(RecordKind::kStagedRank, builder)),
      IsRecordLoss("staged rank", "parts reference more bytes than the "));
}

TEST(FlatAttemptRecord, RejectsAbsentFields) {
  FlatBufferBuilder builder;
  builder.Finish(fbs::CreateAttemptRecord(builder));
  EXPECT_THAT(DecodeAttemptRecord(Sealed(RecordKind::kAttempt, builder)),
              IsRecordLoss("attempt record", "version has attempt 0"));
}

}  // namespace
}  // namespace ckptdb::testing
