// SPDX-License-Identifier: Apache-2.0
#include "db/base/option_checks.h"
#include "db/reader.h"

#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "db/base/call_guard.h"
#include "db/base/cancelled.h"
#include "db/disk/rocks_status.h"
#include "db/meta/catalog.h"
#include "db/read/chunk_reader.h"
#include "db/read/step_reader_impl.h"
#include "db/read/table_runs.h"
#include "db/read/table_scan.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/shape.h"
#include "schema/records/store_parts.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb {

// Loads the records of all ranks of all members. Moves the hold first, so that
// it can explain a load error.
absl::StatusOr<std::unique_ptr<StepReader>> StepReader::Impl::Load(
    const internal::Database* database, std::vector<StepRecord> chain,
    ReadHold hold, const Impl** loaded) {
  std::unique_ptr<Impl> impl(new Impl(std::move(hold)));
  impl->database_ = database;
  CKPTDB_RETURN_IF_ERROR(impl->hold_.Explain(impl->LoadAll(std::move(chain))));
  if (loaded != nullptr) *loaded = impl.get();
  return std::make_unique<StepReader>(std::move(impl));
}

absl::Status StepReader::Impl::LoadAll(std::vector<StepRecord> chain) {
  CKPTDB_ASSIGN_OR_RETURN(parts_, internal::LoadParts(*database_));
  for (StepRecord& record : chain) {
    CKPTDB_ASSIGN_OR_RETURN(std::vector<StepRecord::Rank> ranks,
                            internal::LoadRanks(*database_, record));
    chain_.push_back({std::move(record), std::move(ranks)});
  }
  // Indexes the items of the step itself, which is last in its chain. RunsOf
  // finds a table's older runs from these.
  const ChainMember& own = chain_.back();
  for (const StepRecord::Rank& rank : own.ranks) {
    for (const Item& item : rank.items) {
      items_[{item.kind, item.name}].push_back({rank.rank, &item, &own.record});
    }
  }
  return absl::OkStatus();
}

const std::vector<RankItem>* StepReader::Impl::FindOrNull(
    Item::Kind kind, absl::string_view name) const {
  const auto found = items_.find({kind, std::string(name)});
  return found == items_.end() ? nullptr : &found->second;
}

absl::StatusOr<std::vector<RankItem>> StepReader::Impl::Find(
    Item::Kind kind, absl::string_view name) const {
  const std::vector<RankItem>* const found = FindOrNull(kind, name);
  if (found != nullptr) return *found;
  return absl::NotFoundError(absl::StrCat("step ", record().version.step,
                                          " has no ", ItemKindName(kind), " \"",
                                          name, "\""));
}

absl::Status StepReader::Impl::NotFetched(absl::string_view what) const {
  return absl::FailedPreconditionError(absl::StrCat(
      "step ", record().version.step, " ", what,
      " was not fetched: the store has only ", internal::Describe(*parts_),
      "; fetch it with \"ckptdb remote fetch\" to another store"));
}

absl::Status StepReader::Impl::CheckFetched(Item::Kind kind,
                                            absl::string_view name) const {
  if (!parts_.has_value() || internal::HasItem(*parts_, kind, name)) {
    return absl::OkStatus();
  }
  return NotFetched(absl::StrCat(ItemKindName(kind), " \"", name, "\""));
}

absl::Status StepReader::Impl::CheckFetched(absl::string_view table,
                                            absl::Span<const Slot> slots,
                                            const SliceRange& slices) const {
  if (!parts_.has_value()) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(CheckFetched(Item::Kind::kRows, table));
  const std::string what = absl::StrCat("table \"", table, "\"");
  for (const Slot& slot : slots) {
    if (internal::HasSlot(*parts_, slot.name)) continue;
    return NotFetched(absl::StrCat(what, " slot \"", slot.name, "\""));
  }
  const SliceRange& own = parts_->slices;
  if (own.begin <= slices.begin && slices.end <= own.end) {
    return absl::OkStatus();
  }
  return NotFetched(
      absl::StrCat("slices ", slices.begin, "-", slices.end - 1, " of ", what));
}

absl::Status StepReader::Impl::CheckWhole(absl::string_view doing) const {
  if (!parts_.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "step ", record().version.step,
      " was fetched without some "
      "of its parts, which ",
      doing, " needs: the store has only ", internal::Describe(*parts_)));
}

namespace internal {

bool IsReadAhead(const Item& item) {
  return item.placement == Item::Placement::kBulk &&
         item.stored_bytes > kPageBytes;
}

std::string PlaceOf(const RankItem& item) {
  return absl::StrCat("step ", item.step->version.step, " rank ", item.rank,
                      " ", ItemKindName(item.item->kind), " \"",
                      item.item->name, "\"");
}

}  // namespace internal

namespace {

// The size must be exact: a buffer of another size was made for another tensor.
absl::Status CheckBytes(absl::string_view name, uint64_t given,
                        uint64_t needed) {
  if (given == needed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor \"", name, "\" takes ", needed,
                   " bytes; the buffer has ", given));
}

// Checks what calls that read have in common.
absl::Status CheckRead(const StepReader::Impl& step, absl::string_view call,
                       const ReadOptions& options) {
  CKPTDB_RETURN_IF_ERROR(step.home().CheckAlive(call));
  CKPTDB_RETURN_IF_ERROR(
      internal::CheckThreads("ReadOptions::threads", options.threads));
  return internal::CheckCancelled(options.cancelled);
}

// Adds the part of a tensor at `offset`, or all of it if `shape` is null, to
// *reads unless it has no elements. Returns the errors of the arguments.
absl::Status AddRead(const StepReader::Impl& step, absl::string_view name,
                     const Box* part, void* out, uint64_t bytes,
                     std::vector<internal::BoxRead>* reads) {
  const std::vector<RankItem>* const shards =
      step.FindOrNull(Item::Kind::kTensor, name);
  if (shards == nullptr) return step.Find(Item::Kind::kTensor, name).status();
  CKPTDB_RETURN_IF_ERROR(step.CheckFetched(Item::Kind::kTensor, name));
  const Item& item = *shards->front().item;
  Box box = part != nullptr
                ? *part
                : Box{Shape(item.global_shape.size(), 0), item.global_shape};
  const std::string what = absl::StrCat("tensor \"", name, "\"");
  CKPTDB_RETURN_IF_ERROR(
      internal::Annotate(CheckBoxWithin(box, item.global_shape), what));
  const uint32_t element_bytes = DTypeBytes(item.dtype);
  CKPTDB_ASSIGN_OR_RETURN(const int64_t elements,
                          ElementCount(box.shape, element_bytes));
  CKPTDB_RETURN_IF_ERROR(
      CheckBytes(name, bytes, static_cast<uint64_t>(elements) * element_bytes));
  // An empty part needs no buffer, so a null pointer is valid.
  if (elements == 0) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(internal::CheckTarget(out, what));
  reads->push_back({shards, std::move(box), static_cast<char*>(out)});
  return absl::OkStatus();
}

}  // namespace

absl::Status internal::CheckTarget(const void* target, absl::string_view name) {
  if (target != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " cannot be read into a null pointer"));
}

StepReader::StepReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StepReader::~StepReader() {
  if (impl_ != nullptr) impl_->home().KeepInChild(&impl_);
}

const StepRecord& StepReader::record() const { return impl_->record(); }
const std::vector<StepRecord::Rank>& StepReader::ranks() const {
  return impl_->ranks();
}

absl::StatusOr<Item> StepReader::FindTensor(absl::string_view name) const {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankItem> shards,
                          impl_->Find(Item::Kind::kTensor, name));
  Item spec;
  spec.kind = Item::Kind::kTensor;
  spec.name = std::string(name);
  spec.dtype = shards[0].item->dtype;
  spec.shape = shards[0].item->global_shape;
  spec.global_shape = spec.shape;
  spec.offset = Shape(spec.shape.size(), 0);
  CKPTDB_ASSIGN_OR_RETURN(const int64_t elements,
                          ElementCount(spec.shape, DTypeBytes(spec.dtype)));
  spec.raw_bytes = static_cast<uint64_t>(elements) * DTypeBytes(spec.dtype);
  return spec;
}

absl::StatusOr<StepReader::TableSpec> StepReader::FindTable(
    absl::string_view name) const {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankItem> parts,
                          impl_->Find(Item::Kind::kRows, name));
  StepReader::TableSpec spec;
  spec.slots = parts[0].item->slots;
  spec.slice_hash = parts[0].item->slice_hash;
  spec.sharding = parts[0].item->sharding;
  spec.sharding_name = parts[0].item->sharding_name;
  // With delta runs, the sum counts an id once for each run that contains it.
  spec.exact = parts[0].item->run == Item::Run::kBase;
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankItem> runs,
                          internal::RunsOf(*impl_, name));
  std::vector<std::set<Codec>> codecs(spec.slots.size());
  for (const RankItem& run : runs) {
    spec.rows += run.item->rows;
    for (size_t i = 0; i < codecs.size(); ++i) {
      codecs[i].insert(run.item->slots[i].codec);
    }
  }
  for (const std::set<Codec>& of_slot : codecs) {
    spec.codecs.emplace_back(of_slot.begin(), of_slot.end());
  }
  return spec;
}

absl::Status StepReader::ReadTensor(absl::string_view name, void* out,
                                    uint64_t bytes,
                                    const ReadOptions& options) const {
  const TensorRead read{name, out, bytes};
  return ReadTensors({&read, 1}, options);
}

absl::Status StepReader::ReadTensors(absl::Span<const TensorRead> reads,
                                     const ReadOptions& options) const {
  CKPTDB_RETURN_IF_ERROR(CheckRead(*impl_, "StepReader::ReadTensors", options));
  return internal::CallGuarded(
      "StepReader::ReadTensors", [&]() -> absl::Status {
        std::vector<internal::BoxRead> boxes;
        boxes.reserve(reads.size());
        for (const TensorRead& read : reads) {
          CKPTDB_RETURN_IF_ERROR(AddRead(*impl_, read.name, /*part=*/nullptr,
                                         read.out, read.bytes, &boxes));
        }
        return impl_->hold().Explain(
            internal::ReadBoxes(*impl_, boxes, options));
      });
}

absl::Status StepReader::ReadTensorPart(absl::string_view name,
                                        const Shape& offset, const Shape& shape,
                                        void* out, uint64_t bytes,
                                        const ReadOptions& options) const {
  CKPTDB_RETURN_IF_ERROR(
      CheckRead(*impl_, "StepReader::ReadTensorPart", options));
  return internal::CallGuarded(
      "StepReader::ReadTensorPart", [&]() -> absl::Status {
        const Box part{offset, shape};
        std::vector<internal::BoxRead> boxes;
        CKPTDB_RETURN_IF_ERROR(
            AddRead(*impl_, name, &part, out, bytes, &boxes));
        return impl_->hold().Explain(
            internal::ReadBoxes(*impl_, boxes, options));
      });
}

absl::StatusOr<std::string> StepReader::ReadBlob(
    uint32_t rank, absl::string_view name, const ReadOptions& options) const {
  CKPTDB_RETURN_IF_ERROR(CheckRead(*impl_, "StepReader::ReadBlob", options));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankItem> all,
                          impl_->Find(Item::Kind::kBlob, name));
  CKPTDB_RETURN_IF_ERROR(impl_->CheckFetched(Item::Kind::kBlob, name));
  for (const RankItem& blob : all) {
    if (blob.rank != rank) continue;
    std::string bytes;
    // The size comes from a record and may be 4 GiB, so the allocation may
    // fail.
    if (!internal::CallGuarded("", [&] {
           bytes.resize(blob.item->raw_bytes);
         }).ok()) {
      return absl::ResourceExhaustedError(
          absl::StrCat(internal::PlaceOf(blob), ": cannot allocate its ",
                       blob.item->raw_bytes, " bytes"));
    }
    CKPTDB_RETURN_IF_ERROR(impl_->hold().Explain(internal::ForChunks(
        *impl_, blob, options,
        [&](internal::ChunkCursor* cursor, uint32_t chunk) {
          return cursor->Read(blob, chunk, bytes.data() + chunk * kChunkBytes);
        })));
    return bytes;
  }
  return absl::NotFoundError(absl::StrCat("step ", record().version.step,
                                          " rank ", rank, " has no blob \"",
                                          name, "\""));
}

absl::StatusOr<std::vector<std::string>> StepReader::LookupRow(
    absl::string_view table, int64_t id) const {
  CKPTDB_RETURN_IF_ERROR(impl_->home().CheckAlive("StepReader::LookupRow"));
  return internal::CallGuarded("StepReader::LookupRow", [&] {
    return impl_->hold().Explain(internal::LookupRow(*impl_, table, id));
  });
}

absl::Status StepReader::LookupRows(absl::string_view table,
                                    absl::Span<const int64_t> ids,
                                    absl::Span<const std::string> slots,
                                    absl::Span<char* const> out, bool* found,
                                    const ReadOptions& options) const {
  CKPTDB_RETURN_IF_ERROR(CheckRead(*impl_, "StepReader::LookupRows", options));
  return internal::CallGuarded("StepReader::LookupRows", [&] {
    return impl_->hold().Explain(
        internal::LookupRows(*impl_, table, ids, slots, out, found, options));
  });
}

absl::Status StepReader::ScanTable(absl::string_view table,
                                   const ScanOptions& options,
                                   RowSink* sink) const {
  CKPTDB_RETURN_IF_ERROR(
      CheckRead(*impl_, "StepReader::ScanTable", options.read));
  CKPTDB_RETURN_IF_ERROR(
      internal::CheckTarget(sink, absl::StrCat("table \"", table, "\"")));
  return internal::CallGuarded("StepReader::ScanTable", [&] {
    return impl_->hold().Explain(
        internal::ScanTable(*impl_, table, options, sink));
  });
}

absl::StatusOr<StepReader::ScanEstimate> StepReader::EstimateScan(
    absl::string_view table, const SliceRange& slices) const {
  CKPTDB_RETURN_IF_ERROR(internal::CheckSlices(slices));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankItem> runs,
                          internal::RunsOf(*impl_, table));
  return internal::EstimateRuns(runs, slices);
}

absl::Status StepReader::RestoreTable(absl::string_view table,
                                      LiveTable::RestoreMode mode,
                                      const ScanOptions& options,
                                      LiveTable* live) const {
  CKPTDB_RETURN_IF_ERROR(
      CheckRead(*impl_, "StepReader::RestoreTable", options.read));
  CKPTDB_RETURN_IF_ERROR(
      internal::CheckTarget(live, absl::StrCat("table \"", table, "\"")));
  // All errors of the call itself are found before the table is cleared.
  CKPTDB_RETURN_IF_ERROR(internal::CheckScan(*impl_, table, options));
  if (mode == LiveTable::RestoreMode::kClear) {
    CKPTDB_RETURN_IF_ERROR(internal::CallGuarded(
        "LiveTable::Clear", [&] { return live->Clear(); }));
  }
  return ScanTable(table, options, live);
}

absl::Status StepReader::Verify(const ReadOptions& options,
                                std::set<Version>* verified) const {
  CKPTDB_RETURN_IF_ERROR(CheckRead(*impl_, "StepReader::Verify", options));
  CKPTDB_RETURN_IF_ERROR(impl_->CheckWhole("verifying it"));
  return internal::CallGuarded("StepReader::Verify", [&] {
    return impl_->hold().Explain(
        internal::VerifyStep(*impl_, options, verified));
  });
}

}  // namespace ckptdb
