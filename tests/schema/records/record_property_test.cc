// SPDX-License-Identifier: Apache-2.0
// Exactly the records that can be encoded can be decoded: for every kind of
// record, at, below and above every limit, and with random combinations.
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "schema/bytes/limits.h"
#include "schema/bytes/lossy.h"
#include "schema/records/evaluation.h"
#include "schema/records/record_checks.h"
#include "schema/records/records.h"
#include "schema/types.h"
#include "tests/schema/samples.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"

namespace ckptdb {
namespace {

using testing::SampleBlob;
using testing::SampleTable;
using testing::SampleTensor;
using ::testing::StartsWith;
using testing::StatusIs;

// A change of a record, and whether the changed sample is valid.
template <typename Record>
struct RuleChange {
  std::string name;
  bool good;
  std::function<void(Record*)> apply;
};
template <typename Record>
using RuleChanges = std::vector<RuleChange<Record>>;

template <typename Record>
struct RecordCodec {
  absl::StatusOr<std::string> (*encode)(const Record&);
  absl::StatusOr<Record> (*decode)(absl::string_view);
};

// Checks that the record encodes if and only if its bytes decode to the same
// record.
template <typename Record>
bool ExpectAlike(const RecordCodec<Record>& codec, const Record& record) {
  const absl::StatusOr<std::string> encoded = codec.encode(record);
  const std::string bytes = internal::EncodeUnchecked(record);
  const absl::StatusOr<Record> decoded = codec.decode(bytes);
  EXPECT_EQ(encoded.ok(), decoded.ok() && *decoded == record)
      << encoded.status() << " but " << decoded.status();
  if (encoded.ok()) {
    EXPECT_EQ(*encoded, bytes);
  } else {
    EXPECT_EQ(encoded.status().code(), absl::StatusCode::kInvalidArgument);
  }
  return encoded.ok();
}

template <typename Record>
void CheckAll(const RecordCodec<Record>& codec,
              const std::vector<Record>& samples,
              const RuleChanges<Record>& changes) {
  std::mt19937_64 random(testing::TestSeed());
  for (const Record& sample : samples) {
    EXPECT_TRUE(ExpectAlike(codec, sample));
  }
  for (const RuleChange<Record>& change : changes) {
    SCOPED_TRACE(change.name);
    Record record = samples[0];
    change.apply(&record);
    EXPECT_EQ(ExpectAlike(codec, record), change.good);
  }
  constexpr int kMixtures = 100;
  for (int i = 0; i < kMixtures && !::testing::Test::HasFailure(); ++i) {
    Record record = samples[random() % samples.size()];
    std::string names;
    for (uint64_t n = random() % 4; n > 0; --n) {
      const RuleChange<Record>& change = changes[random() % changes.size()];
      change.apply(&record);
      names += change.name + "; ";
    }
    SCOPED_TRACE(names);
    ExpectAlike(codec, record);
  }
}

// Sets a number at, below and above a limit.
template <typename Record>
void AddAround(const std::string& name, uint64_t limit,
               const std::function<void(Record*, uint64_t)>& apply,
               RuleChanges<Record>* changes) {
  for (const uint64_t value : {limit - 1, limit, limit + 1}) {
    changes->push_back(
        {name + " " + std::to_string(value), value <= limit,
         [apply, value](Record* record) { apply(record, value); }});
  }
}

Metrics SomeMetrics(uint64_t count) {
  Metrics metrics;
  for (uint64_t i = 0; i < count; ++i) metrics["m" + std::to_string(i)] = 1;
  return metrics;
}

// Sets invalid names, and a valid one.
template <typename Record>
void AddNames(const std::string& field,
              const std::function<void(Record*, std::string)>& apply,
              RuleChanges<Record>* changes) {
  AddAround<Record>(
      field + " bytes", kMaxNameBytes,
      [apply](Record* r, uint64_t bytes) { apply(r, std::string(bytes, 'n')); },
      changes);
  const std::vector<std::pair<std::string, bool>> names = {
      {"\xc3\xa9", true},
      {"", false},
      {"\xff", false},
      {std::string("a\0b", 3), false}};
  for (const auto& [name, good] : names) {
    changes->push_back({field + " \"" + name + "\"", good,
                        [apply, text = name](Record* r) { apply(r, text); }});
  }
}

template <typename Record>
void AddUuids(RuleChanges<Record>* changes, std::string Record::*uuid) {
  AddAround<Record>(
      "uuid bytes", kMaxUuidBytes,
      [uuid](Record* r, uint64_t bytes) { r->*uuid = std::string(bytes, 'a'); },
      changes);
  changes->push_back(
      {"empty uuid", false, [uuid](Record* r) { (r->*uuid).clear(); }});
  changes->push_back(
      {"uuid with a slash", false, [uuid](Record* r) { r->*uuid = "a/b"; }});
}

template <typename Record>
void AddMetadata(RuleChanges<Record>* changes) {
  AddAround<Record>(
      "metadata bytes", kMaxMetadataBytes,
      [](Record* r, uint64_t bytes) {
        r->user_metadata = {{"m", std::string(bytes - 1, 'x')}};
      },
      changes);
  AddNames<Record>(
      "metadata name",
      [](Record* r, std::string name) {
        r->user_metadata = {{std::move(name), "x"}};
      },
      changes);
}

template <typename Record>
void AddVersions(RuleChanges<Record>* changes) {
  changes->push_back(
      {"attempt 0", false, [](Record* r) { r->version.attempt = 0; }});
  changes->push_back(
      {"step -1", false, [](Record* r) { r->version.step = -1; }});
}

template <typename Record>
void AddWorlds(RuleChanges<Record>* changes) {
  AddAround<Record>(
      "world size", kMaxWorldSize,
      [](Record* r, uint64_t size) {
        r->world_size = static_cast<uint32_t>(size);
      },
      changes);
  changes->push_back(
      {"rank outside", false, [](Record* r) { r->rank = r->world_size; }});
  changes->push_back({"no ranks", false, [](Record* r) { r->world_size = 0; }});
}

StepRecord FullStep() {
  StepRecord record = testing::SampleStep();
  record.kind = StepRecord::Kind::kFull;
  record.chain = {record.version};
  record.references.clear();
  return record;
}

RuleChanges<StepRecord> StepChanges() {
  RuleChanges<StepRecord> changes;
  AddUuids(&changes, &StepRecord::store_uuid);
  AddMetadata(&changes);
  AddAround<StepRecord>(
      "metrics", kMaxMetrics,
      [](StepRecord* r, uint64_t count) { r->metrics = SomeMetrics(count); },
      &changes);
  AddNames<StepRecord>(
      "metric name",
      [](StepRecord* r, std::string name) {
        r->metrics = {{std::move(name), 1}};
      },
      &changes);
  AddAround<StepRecord>(
      "ranks", kMaxWorldSize,
      [](StepRecord* r, uint64_t size) {
        r->world_size = static_cast<uint32_t>(size);
        r->rank_digests.assign(size, 7);
        r->slice_bounds.clear();
      },
      &changes);
  AddAround<StepRecord>(
      "branches", kMaxBranches,
      [](StepRecord* r, uint64_t count) {
        const auto last = static_cast<uint32_t>(count);
        r->branches.clear();
        for (uint32_t i = 1; i <= last; ++i) r->branches.push_back({i, i});
        r->version.attempt = last;
        if (!r->chain.empty()) r->chain.back().attempt = last;
      },
      &changes);
  const auto add = [&](const std::string& name, bool good, auto apply) {
    changes.push_back({name, good, apply});
  };
  using R = StepRecord*;
  add("no metadata", true, [](R r) { r->user_metadata.clear(); });
  add("unknown kind", false,
      [](R r) { r->kind = static_cast<StepRecord::Kind>(2); });
  add("parent without one", false, [](R r) { r->has_parent = false; });
  add("increment without one", false, [](R r) { r->folded_from = {30, 8}; });
  add("increment of a delta", false, [](R r) {
    r->folded = true;
    r->folded_from = {30, 8};
  });
  add("a version twice", false, [](R r) {
    r->chain.insert(r->chain.begin(), 2, {1, 1});
  });
  add("refers to itself", false,
      [](R r) { r->references.push_back(r->version); });
  add("no chain", false, [](R r) { r->chain.clear(); });
  add("no branches", false, [](R r) { r->branches.clear(); });
  add("bounds that fall", false, [](R r) {
    r->slice_bounds = {0, kSlices + 1, kSlices};
  });
  add("a digest too many", false, [](R r) { r->rank_digests.push_back(1); });
  add("library version", false, [](R r) { r->library_version = "\xff"; });
  add("no library version", true, [](R r) { r->library_version.clear(); });
  return changes;
}

TEST(RecordProperty, StepEncodesIfItDecodes) {
  CheckAll<StepRecord>({EncodeStepRecord, DecodeStepRecord},
                       {testing::SampleStep(), FullStep()}, StepChanges());
}

Item& LastItem(StepRecord::Rank* record) { return record->items.back(); }

RuleChanges<StepRecord::Rank> RankChanges() {
  RuleChanges<StepRecord::Rank> changes;
  AddVersions(&changes);
  AddAround<StepRecord::Rank>(
      "rank", kMaxWorldSize - 1,
      [](StepRecord::Rank* r, uint64_t rank) {
        r->rank = static_cast<uint32_t>(rank);
      },
      &changes);
  const auto in_item = [&](const std::string& name, const Item& sample,
                           bool good, std::function<void(Item*)> apply) {
    changes.push_back({name, good, [sample, apply](StepRecord::Rank* r) {
                         r->items = {sample};
                         apply(&LastItem(r));
                       }});
  };
  AddNames<StepRecord::Rank>(
      "item name",
      [](StepRecord::Rank* r, std::string name) {
        r->items = {SampleBlob()};
        LastItem(r).name = std::move(name);
      },
      &changes);
  AddNames<StepRecord::Rank>(
      "slot name",
      [](StepRecord::Rank* r, std::string name) {
        r->items = {SampleTable()};
        LastItem(r).slots[0].name = std::move(name);
      },
      &changes);
  AddAround<StepRecord::Rank>(
      "slots", kMaxSlots,
      [](StepRecord::Rank* r, uint64_t slots) {
        r->items = {SampleTable()};
        Item& item = LastItem(r);
        item.slots.clear();
        for (uint64_t i = 0; i < slots; ++i) {
          item.slots.push_back({"s" + std::to_string(i), DType::kU8, 1});
        }
        item.raw_bytes = item.rows * (8 + slots) + item.erased_rows * 8;
      },
      &changes);
  AddAround<StepRecord::Rank>(
      "slot bytes", kMaxSlotBytes,
      [](StepRecord::Rank* r, uint64_t bytes) {
        r->items = {SampleTable()};
        Item& item = LastItem(r);
        item.slots = {{"s", DType::kU8, static_cast<uint32_t>(bytes)}};
        item.rows_per_page = 1;
        item.raw_bytes = item.rows * (8 + bytes) + item.erased_rows * 8;
      },
      &changes);
  AddAround<StepRecord::Rank>(
      "dimensions", kMaxDimensions,
      [](StepRecord::Rank* r, uint64_t dimensions) {
        r->items = {SampleTensor()};
        Item& item = LastItem(r);
        item.shape = item.global_shape = Shape(dimensions, 1);
        item.offset = Shape(dimensions, 0);
        item.raw_bytes = 2;
      },
      &changes);
  in_item("kind", SampleBlob(), false,
          [](Item* i) { i->kind = static_cast<Item::Kind>('X'); });
  in_item("placement", SampleBlob(), false,
          [](Item* i) { i->placement = static_cast<Item::Placement>(2); });
  in_item("slice hash", SampleTable(), false,
          [](Item* i) { i->slice_hash = static_cast<SliceHash>(2); });
  in_item("run", SampleTable(), false,
          [](Item* i) { i->run = static_cast<Item::Run>('X'); });
  in_item("sharding", SampleTable(), false,
          [](Item* i) { i->sharding = static_cast<Item::Sharding>(5); });
  in_item("sharding of a tensor", SampleTensor(), false,
          [](Item* i) { i->sharding = Item::Sharding::kByModulo; });
  in_item("sharding without a name", SampleTable(), false,
          [](Item* i) { i->sharding = Item::Sharding::kCustom; });
  in_item("sharding with a name", SampleTable(), true, [](Item* i) {
    i->sharding = Item::Sharding::kCustom;
    i->sharding_name = "hash_v2";
  });
  in_item("sharding name of none", SampleTable(), false,
          [](Item* i) { i->sharding_name = "hash_v2"; });
  in_item("dtype", SampleTensor(), false,
          [](Item* i) { i->dtype = static_cast<DType>(kDTypes); });
  in_item("codec", SampleTensor(), false,
          [](Item* i) { i->codec = Codec::kAuto; });
  in_item("errors of a tensor", SampleTensor(), true, [](Item* i) {
    i->errors = {{0.5, 1}};
  });
  in_item("two errors of a tensor", SampleTensor(), false, [](Item* i) {
    i->errors = {{0.5, 1}, {0.5, 1}};
  });
  in_item("errors of a table", SampleTable(), true, [](Item* i) {
    i->errors = {{0, 0}, {1, 1}};
  });
  in_item("error of one of two slots", SampleTable(), false, [](Item* i) {
    i->errors = {{0, 0}};
  });
  in_item("errors of a blob", SampleBlob(), false, [](Item* i) {
    i->errors = {{0, 0}};
  });
  in_item("error above its bound", SampleTensor(), false, [](Item* i) {
    i->errors = {{1.5, 1}};
  });
  in_item("error below 0", SampleTensor(), false, [](Item* i) {
    i->errors = {{-1e-300, 1}};
  });
  in_item("error that is no number", SampleTensor(), false, [](Item* i) {
    i->errors = {{std::nan(""), 1}};
  });
  in_item("bound that is no number", SampleTensor(), false, [](Item* i) {
    i->errors = {{0, std::nan("")}};
  });
  in_item("lossy tensor of f32", SampleTensor(), true, [](Item* i) {
    i->dtype = DType::kF32;
    i->raw_bytes = 48;
    i->codec = Codec::kInt8;
    i->errors = {{0, 1}};
  });
  in_item("lossy tensor of bf16", SampleTensor(), false, [](Item* i) {
    i->codec = Codec::kBf16;
    i->errors = {{0, 1}};
  });
  in_item("lossy tensor without errors", SampleTensor(), false, [](Item* i) {
    i->dtype = DType::kF32;
    i->raw_bytes = 48;
    i->codec = Codec::kBf16;
  });
  in_item("lossy slot", SampleTable(), true, [](Item* i) {
    i->slots[0].codec = Codec::kInt8;
    i->errors = {{0, 1}, {0, 0}};
  });
  in_item("lossy slot without errors", SampleTable(), false,
          [](Item* i) { i->slots[0].codec = Codec::kInt8; });
  in_item("lossy slot of u64", SampleTable(), false, [](Item* i) {
    i->slots[1].codec = Codec::kBf16;
    i->errors = {{0, 1}, {0, 0}};
  });
  in_item("int8 of rows that are too short", SampleTable(), false, [](Item* i) {
    i->slots[0].elements = kLeastInt8Elements - 1;
    i->raw_bytes = 1000 * (8 + 12 + 8) + 7 * 8;
    i->slots[0].codec = Codec::kInt8;
    i->errors = {{0, 1}, {0, 0}};
  });
  in_item("lossy ids", SampleTable(), false, [](Item* i) {
    i->codec = Codec::kBf16;
    i->errors = {{0, 1}, {0, 0}};
  });
  in_item("lossy blob", SampleBlob(), false,
          [](Item* i) { i->codec = Codec::kBf16; });
  in_item("slot dtype", SampleTable(), false,
          [](Item* i) { i->slots[0].dtype = static_cast<DType>(kDTypes); });
  in_item("slot codec", SampleTable(), false,
          [](Item* i) { i->slots[0].codec = Codec::kAuto; });
  in_item("slot twice", SampleTable(), false,
          [](Item* i) { i->slots[1] = i->slots[0]; });
  in_item("no slots", SampleTable(), false, [](Item* i) { i->slots.clear(); });
  in_item("data", SampleBlob(), false,
          [](Item* i) { i->data_version.attempt = 0; });
  in_item("rows per page", SampleTable(), false,
          [](Item* i) { i->rows_per_page = 0; });
  in_item("erased of a base", SampleTable(), false,
          [](Item* i) { i->run = Item::Run::kBase; });
  in_item("raw bytes", SampleTensor(), false, [](Item* i) { ++i->raw_bytes; });
  in_item("a hash too many", SampleBlob(), false,
          [](Item* i) { i->chunk_hashes.push_back(1); });
  in_item("a shape of a blob", SampleBlob(), true, [](Item* i) {
    i->shape = {1, 2};
  });
  in_item("box outside", SampleTensor(), false, [](Item* i) {
    i->offset = {4, 0};
  });
  changes.push_back(
      {"no items", true, [](StepRecord::Rank* r) { r->items.clear(); }});
  changes.push_back({"an item twice", false, [](StepRecord::Rank* r) {
                       r->items = {SampleBlob(), SampleBlob()};
                     }});
  changes.push_back({"items out of order", false, [](StepRecord::Rank* r) {
                       r->items = {SampleTensor(), SampleBlob()};
                     }});
  return changes;
}

TEST(RecordProperty, RankEncodesIfItDecodes) {
  CheckAll<StepRecord::Rank>({EncodeRankRecord, DecodeRankRecord},
                             {testing::SampleRank(), {{1, 1}, 0, {}}},
                             RankChanges());
}

TEST(RecordProperty, AttemptEncodesIfItDecodes) {
  using R = AttemptRecord*;
  RuleChanges<AttemptRecord> changes = {
      {"state", false, [](R r) { r->state = static_cast<AttemptState>(3); }},
      {"folds itself", false, [](R r) { r->folds = r->version.attempt; }},
      {"folds the one before", true,
       [](R r) { r->folds = r->version.attempt - 1; }},
      {"folds none", true, [](R r) { r->folds = 0; }}};
  AddVersions(&changes);
  CheckAll<AttemptRecord>({EncodeAttemptRecord, DecodeAttemptRecord},
                          {testing::SampleAttempt()}, changes);
}

TEST(RecordProperty, RootEncodesIfItDecodes) {
  RuleChanges<RootRecord> changes = {
      {"next attempt", false, [](RootRecord* r) { r->next_attempt = 0; }}};
  AddUuids(&changes, &RootRecord::uuid);
  AddMetadata(&changes);
  CheckAll<RootRecord>({EncodeRootRecord, DecodeRootRecord},
                       {testing::SampleRoot()}, changes);
}

TEST(RecordProperty, LeaseEncodesIfItDecodes) {
  using R = Lease*;
  RuleChanges<Lease> changes = {
      {"step", false, [](R r) { r->step = -1; }},
      {"a version twice", false,
       [](R r) {
         r->versions = {{10, 2}, {30, 9}, {10, 2}};
       }},
      {"attempt 0", false,
       [](R r) {
         r->versions = {{10, 0}};
       }},
      {"no versions", true, [](R r) { r->versions.clear(); }}};
  AddUuids(&changes, &Lease::uuid);
  CheckAll<Lease>({EncodeLease, DecodeLease}, {testing::SampleLease()},
                  changes);
}

TEST(RecordProperty, EvaluationEncodesIfItDecodes) {
  using Record = StepRecord::Evaluation;
  RuleChanges<Record> changes;
  AddVersions(&changes);
  AddWorlds(&changes);
  AddNames<Record>(
      "evaluation",
      [](Record* r, std::string name) { r->evaluation = std::move(name); },
      &changes);
  AddNames<Record>(
      "group", [](Record* r, std::string name) { r->group = std::move(name); },
      &changes);
  AddAround<Record>(
      "bytes", kMaxEvaluationBytes,
      [](Record* r, uint64_t bytes) {
        r->part.meters.assign(bytes / 2, 'm');
        r->part.loader.assign(bytes - bytes / 2, 'l');
      },
      &changes);
  CheckAll<Record>({EncodeEvaluationRecord, DecodeEvaluationRecord},
                   {testing::SampleEvaluation()}, changes);
}

TEST(RecordProperty, PostEncodesIfItDecodes) {
  RuleChanges<Post> changes;
  AddVersions(&changes);
  AddUuids(&changes, &Post::uuid);
  AddUuids(&changes, &Post::store_uuid);
  AddNames<Post>(
      "metric",
      [](Post* p, std::string name) {
        p->metrics = {{std::move(name), 1}};
      },
      &changes);
  AddAround<Post>(
      "metrics", kMaxMetrics,
      [](Post* p, uint64_t count) {
        p->metrics.clear();
        for (uint64_t i = 0; i < count; ++i) {
          p->metrics["m" + std::to_string(i)] = 1;
        }
      },
      &changes);
  changes.push_back({"both", false, [](Post* p) { p->unpin = true; }});
  changes.push_back({"unpin", true, [](Post* p) {
                       p->pin = false;
                       p->unpin = true;
                     }});
  changes.push_back({"nothing", false, [](Post* p) {
                       p->metrics.clear();
                       p->pin = false;
                     }});
  CheckAll<Post>({EncodePost, DecodePost}, {testing::SamplePost()}, changes);
}

template <typename Record>
void AddPaths(const std::function<void(Record*, std::string)>& apply,
              RuleChanges<Record>* changes) {
  const std::vector<std::pair<std::string, bool>> paths = {
      {"staging/9/1/0.sst", true},
      {"", false},
      {"/etc", false},
      {"a/../b", false},
      {std::string("a\0", 2), false}};
  for (const auto& [path, good] : paths) {
    changes->push_back({"path \"" + path + "\"", good,
                        [apply, text = path](Record* r) { apply(r, text); }});
  }
}

TEST(RecordProperty, TicketEncodesIfItDecodes) {
  RuleChanges<internal::TicketRecord> changes;
  AddVersions(&changes);
  AddWorlds(&changes);
  AddUuids(&changes, &internal::TicketRecord::uuid);
  AddPaths<internal::TicketRecord>(
      [](internal::TicketRecord* r, std::string path) {
        r->staging = std::move(path);
      },
      &changes);
  AddAround<internal::TicketRecord>(
      "slices", kSlices,
      [](internal::TicketRecord* r, uint64_t end) {
        r->slices = SliceRange{0, static_cast<uint32_t>(end)};
      },
      &changes);
  changes.push_back({"slices that fall", false, [](internal::TicketRecord* r) {
                       r->slices = SliceRange{2, 1};
                     }});
  changes.push_back({"any slices", true, [](internal::TicketRecord* r) {
                       r->slices = std::nullopt;
                     }});
  changes.push_back({"no parent", true,
                     [](internal::TicketRecord* r) { r->parent.reset(); }});
  CheckAll<internal::TicketRecord>({EncodeTicket, DecodeTicket},
                                   {testing::SampleTicket()}, changes);
}

TEST(RecordProperty, StagedRankEncodesIfItDecodes) {
  RuleChanges<internal::StagedRecord> changes;
  AddVersions(&changes);
  AddWorlds(&changes);
  AddUuids(&changes, &internal::StagedRecord::uuid);
  AddPaths<internal::StagedRecord>(
      [](internal::StagedRecord* r, std::string path) {
        r->files = {{std::move(path), 1, 2, 3}};
      },
      &changes);
  using R = internal::StagedRecord*;
  changes.push_back({"no record", false, [](R r) { r->rank_record.clear(); }});
  changes.push_back({"a key that is none", false, [](R r) {
                       r->inline_entries = {{"key", "value"}};
                     }});
  changes.push_back(
      {"an entry of another rank", false, [](R r) {
         r->inline_entries = {{testing::SampleEntryKey({30, 9}, 0), ""}};
       }});
  changes.push_back({"nothing", true, [](R r) {
                       r->files.clear();
                       r->inline_entries.clear();
                     }});
  CheckAll<internal::StagedRecord>({EncodeStagedRank, DecodeStagedRank},
                                   {testing::SampleStagedRank()}, changes);
}

TEST(RecordProperty, BytesOfARecordAreLimited) {
  using internal::CheckBodyBytes;
  using internal::RecordKind;
  for (const RecordKind kind :
       {RecordKind::kStep, RecordKind::kRank, RecordKind::kAttempt,
        RecordKind::kRoot, RecordKind::kLease, RecordKind::kEvaluation,
        RecordKind::kPost, RecordKind::kTicket, RecordKind::kStagedRank}) {
    const bool carries =
        kind == RecordKind::kTicket || kind == RecordKind::kStagedRank;
    const uint64_t limit = carries ? kMaxTransferBytes : kMaxRecordBytes;
    EXPECT_OK(CheckBodyBytes(kind, limit - 1));
    EXPECT_OK(CheckBodyBytes(kind, limit));
    EXPECT_THAT(CheckBodyBytes(kind, limit + 1),
                StatusIs(absl::StatusCode::kDataLoss,
                         ::testing::HasSubstr(std::to_string(limit + 1) +
                                              " exceeds the limit of " +
                                              std::to_string(limit))));
  }
}

// The size is checked before building a FlatBuffer, which aborts at 2 GiB.
TEST(RecordProperty, RejectsATooLargeRecordBeforeBuildingIt) {
  StepRecord::Rank record = testing::SampleRank();
  record.items[1].base_reason.assign(kMaxRecordBytes, 'x');
  EXPECT_GT(internal::LeastBytes(record), kMaxRecordBytes);
  EXPECT_THAT(EncodeRankRecord(record),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("rank record: size ")));
}

}  // namespace
}  // namespace ckptdb
