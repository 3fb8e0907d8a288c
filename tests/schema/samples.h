// SPDX-License-Identifier: Apache-2.0
// One record of every kind, with a distinct value in every field.
#ifndef CKPTDB_TESTS_SCHEMA_SAMPLES_H_
#define CKPTDB_TESTS_SCHEMA_SAMPLES_H_

#include <string>

#include "schema/bytes/keys.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/page.h"
#include "schema/records/post.h"
#include "schema/records/records.h"
#include "schema/records/remote.h"
#include "schema/records/staged.h"
#include "schema/types.h"

namespace ckptdb::testing {

inline constexpr char kSampleUuid[] = "6f1c1a0e-90c4-4f3e-8f4b-0d6f3a1c2b7e";

// A page or chunk of `raw`, with elements of one byte.
inline std::string MakePage(const std::string& raw, Codec codec = Codec::kNone,
                            uint32_t count = 3, uint32_t element_bytes = 1) {
  PageBuilder builder;
  raw.copy(builder.Reset(raw.size()), raw.size());
  builder.Finish(codec, count, element_bytes);
  return std::string(builder.entry());
}

inline StepRecord SampleStep() {
  StepRecord record;
  record.store_uuid = kSampleUuid;
  record.version = {30, 9};
  record.kind = StepRecord::Kind::kDelta;
  record.has_parent = true;
  record.parent = {20, 5};
  record.parent_digest = 0xabcdef;
  record.chain = {{10, 2}, {20, 5}, {30, 9}};
  record.branches = {{2, 4}, {5, 9}};
  record.owners = {{2, 0x123456789}, {7, ~uint64_t{0}}};
  record.references = {{5, 1}, {7, 11}};
  record.world_size = 2;
  record.slice_bounds = {0, 30000, kSlices};
  record.save_micros = 1234567;
  record.committed_at_micros = 1700000000000000;
  record.ephemeral = true;
  record.pinned = true;
  record.quarantined = true;
  record.metrics = {{"auc", 0.75}, {"loss", -1.5e300}};
  record.user_metadata = {{"empty", ""}, {"model", std::string("\0\xff", 2)}};
  record.rank_digests = {0x0123456789abcdef, ~uint64_t{0}};
  record.library_version = "0.1.0";
  record.base_bytes = 1 << 30;
  record.delta_bytes = 77;
  return record;
}

inline Item SampleTensor() {
  Item item;
  item.kind = Item::Kind::kTensor;
  item.name = "mlp/weight";
  item.data_version = {20, 5};
  item.placement = Item::Placement::kInline;
  item.raw_bytes = 24;
  item.stored_bytes = 88;
  item.digest = 0xfeed;
  item.chunk_hashes = {0xbeef};
  item.dtype = DType::kBf16;
  item.codec = Codec::kShuffleLz4;
  item.shape = {3, 4};
  item.global_shape = {6, 4};
  item.offset = {3, 0};
  return item;
}

// Both halves of SampleTensor's tensor, on one rank.
inline std::vector<Item> SampleShards() {
  Item first = SampleTensor();
  first.offset = {0, 0};
  Item second = SampleTensor();
  second.first_chunk = 1;
  return {first, second};
}

inline Item SampleBlob() {
  Item item;
  item.kind = Item::Kind::kBlob;
  item.name = "reader";
  item.data_version = {30, 9};
  item.raw_bytes = kChunkBytes + 1;
  item.stored_bytes = 4096;
  item.digest = 77;
  item.chunk_hashes = {1, 2};
  item.codec = Codec::kLz4;
  return item;
}

inline Item SampleTable() {
  Item item;
  item.kind = Item::Kind::kRows;
  item.name = "users";
  item.data_version = {30, 9};
  item.raw_bytes = 1000 * (8 + 256 + 8) + 7 * 8;
  item.stored_bytes = 123456;
  item.digest = 99;
  item.slots = {{"embedding", DType::kF32, 64, Codec::kNone},
                {"freq", DType::kU64, 1, Codec::kShuffleLz4}};
  item.slice_hash = SliceHash::kMix;
  item.run = Item::Run::kDelta;
  item.rows = 1000;
  item.erased_rows = 7;
  item.rows_per_page = 1024;
  item.base_reason = "the parent has no such table";
  return item;
}

inline StepRecord::Rank SampleRank() {
  return {{30, 9}, 1, {SampleBlob(), SampleTable(), SampleTensor()}};
}

inline AttemptRecord SampleAttempt() {
  return {{30, 9}, AttemptState::kRetired, 1700000000000001, 8};
}

inline RootRecord SampleRoot() {
  RootRecord root = {kSampleUuid, 12, 3, 1600000000000000, {{"owner", "ads"}}};
  root.owners = {{2, 0x123456789}, {7, 5}, {12, ~uint64_t{0}}};
  return root;
}

inline Lease SampleLease() {
  return {kSampleUuid, 30, {{10, 2}, {20, 5}, {30, 9}}, 1700000000000002};
}

inline StepRecord::Evaluation SampleEvaluation() {
  return {1234,
          std::string("\0\xff", 2),
          "line 7",
          {30, 9},
          "test/day_7",
          "eval/ctr",
          1,
          2};
}

inline Post SamplePost() {
  return {"0f8fad5b-d9cb-469f-a165-70867728950e",
          kSampleUuid,
          {30, 9},
          1700000000000003,
          true,
          {{"auc", 0.75}, {"loss", -1}}};
}

inline internal::TicketRecord SampleTicket() {
  internal::TicketRecord ticket;
  ticket.uuid = kSampleUuid;
  ticket.version = {30, 9};
  ticket.world_size = 2;
  ticket.rank = 1;
  ticket.slices = SliceRange{30000, kSlices};
  ticket.staging = "staging/9/1";
  ticket.parent = std::make_shared<const StepRecord::Rank>(SampleRank());
  StepRecord::Rank tables;
  tables.version = {20, 8};
  ticket.parent_tables =
      std::make_shared<const StepRecord::Rank>(std::move(tables));
  return ticket;
}

inline std::string SampleEntryKey(const Version& version, uint32_t rank) {
  std::string key = ItemPrefix(version, rank, Item::Kind::kTensor, "bias");
  AppendChunk(0, &key);
  return key;
}

inline internal::StagedRecord SampleStagedRank() {
  internal::StagedRecord staged;
  staged.uuid = kSampleUuid;
  staged.version = {30, 9};
  staged.rank = 1;
  staged.world_size = 2;
  staged.files = {{"staging/9/1/0.sst", 4096, 17},
                  {"staging/9/1/1.sst", 1 << 30, 4097}};
  staged.inline_entries = {{SampleEntryKey({30, 9}, 1), MakePage("abc")}};
  staged.rank_record = EncodeRankRecord(SampleRank()).value();
  return staged;
}

inline internal::RemoteFormat SampleRemoteFormat() { return {"store-1", 5}; }

inline internal::RemoteVersion SampleRemoteVersion() {
  internal::RemoteVersion version;
  version.step_record = "step";
  version.rank_records = {"rank 0", "", "rank 2"};
  version.evaluations = {{"key", "value"}};
  version.inline_entries = {{"a", "1"}, {"b", std::string(1000, '\0')}};
  version.files = {{0, 10, 11, "a", "b"}, {2, 20, 21, "c", "c"}};
  return version;
}

inline internal::RemoteCatalog SampleRemoteCatalog() {
  internal::RemoteCatalog catalog;
  catalog.number = 12;
  catalog.epoch = 3;
  catalog.owner = "owner-1";
  catalog.token = "token-1";
  catalog.written_at_micros = 4;
  catalog.horizon_micros = 5;
  catalog.root.uuid = "store-1";
  catalog.root.next_attempt = 7;
  catalog.root.user_metadata = {{"run", "a"}};
  internal::RemoteEntry step;
  step.version = {200, 5};
  step.state = {200, 4};
  step.epoch = 2;
  step.revision = 1;
  step.object_bytes = 100;
  step.object_hash = 101;
  step.lineage = 102;
  step.record_hash = 103;
  step.data_bytes = 104;
  step.data_files = 2;
  step.committed_at_micros = 105;
  step.kind = StepRecord::Kind::kDelta;
  step.pinned = true;
  step.quarantined = true;
  step.needs = {{100, 2}, {200, 4}};
  step.owner = 0x123456789;
  internal::RemoteEntry dropped;
  dropped.version = dropped.state = {100, 2};
  dropped.use = internal::RemoteEntry::Use::kDropped;
  dropped.dropped_at_micros = 6;
  dropped.ephemeral = true;
  internal::RemoteEntry again = dropped;
  again.epoch = 2;
  again.use = internal::RemoteEntry::Use::kNeeded;
  catalog.entries = {dropped, again, step};
  catalog.forgotten = {{50, 1}};
  return catalog;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SCHEMA_SAMPLES_H_
