// SPDX-License-Identifier: Apache-2.0
#include "bench/payload.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/measure.h"
#include "db/base/row_block.h"
#include "schema/bytes/page.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::bench {
namespace {

constexpr uint64_t kTensorStep = uint64_t{1} << 20;

// Returns different numbers for different seeds, and for the parts of one
// payload.
uint64_t PartSeed(uint64_t seed, uint64_t part) {
  return MixId(MixId(seed) + part);
}

std::string TensorName(size_t number) { return absl::StrCat("layer.", number); }

// Puts rows where there is room in the table's memory.
class TableFiller : public RowSink {
 public:
  TableFiller(uint64_t rows, const Memory& ids, const Memory& embedding,
              const Memory& adagrad)
      : rows_(rows), ids_(ids), embedding_(embedding), adagrad_(adagrad) {}

  absl::Status Consume(int, const RowSink::Batch& batch) override {
    const uint64_t count = batch.ids.size();
    const uint64_t first = next_.fetch_add(count);
    if (first + count > rows_) {
      return absl::DataLossError(
          absl::StrCat("more than the ", rows_, " rows that were saved"));
    }
    std::memcpy(ids_.data + first * sizeof(int64_t), batch.ids.data(),
                count * sizeof(int64_t));
    const uint64_t at = first * Table::kSlotBytes;
    const uint64_t bytes = count * Table::kSlotBytes;
    BulkCopy(embedding_.data + at, batch.slots[0], bytes);
    BulkCopy(adagrad_.data + at, batch.slots[1], bytes);
    return absl::OkStatus();
  }

  uint64_t filled() const { return next_.load(); }

 private:
  const uint64_t rows_;
  const Memory ids_;
  const Memory embedding_;
  const Memory adagrad_;
  std::atomic<uint64_t> next_{0};
};

// Cuts off half of the bytes, a quarter and so on, in steps of kTensorStep.
std::vector<Memory> CutIntoTensors(const Memory& memory) {
  std::vector<Memory> tensors;
  for (size_t at = 0; at < memory.bytes;) {
    const size_t left = memory.bytes - at;
    const size_t half = left / 2 / kTensorStep * kTensorStep;
    const size_t bytes = std::max<size_t>(half, kTensorStep);
    tensors.push_back({memory.data + at, bytes});
    at += bytes;
  }
  return tensors;
}

}  // namespace

void FillRandom(const Memory& memory, uint64_t seed) {
  auto* words = reinterpret_cast<uint64_t*>(memory.data);
  for (size_t i = 0; i < memory.bytes / sizeof(uint64_t); ++i) {
    words[i] = MixId(seed + i);
  }
}

absl::StatusOr<Pages> Pages::Allocate(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no memory for ", bytes, " bytes: ", std::strerror(errno)));
  }
  return Pages(static_cast<char*>(data), bytes);
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

absl::StatusOr<std::unique_ptr<Table>> Table::Make(uint64_t rows,
                                                   uint64_t seed) {
  if (rows == 0) return absl::InvalidArgumentError("a table of 0 rows");
  TouchFreeMemory(kTouchedCopies * rows * kRowBytes);
  CKPTDB_ASSIGN_OR_RETURN(Pages ids, Pages::Allocate(rows * sizeof(int64_t)));
  CKPTDB_ASSIGN_OR_RETURN(Pages embedding, Pages::Allocate(rows * kSlotBytes));
  CKPTDB_ASSIGN_OR_RETURN(Pages adagrad, Pages::Allocate(rows * kSlotBytes));
  // MixId is one-to-one, so that no id is there twice.
  FillRandom(ids.memory(), PartSeed(seed, 0));
  FillRandom(embedding.memory(), PartSeed(seed, 1));
  FillRandom(adagrad.memory(), PartSeed(seed, 2));
  return std::unique_ptr<Table>(new Table(
      rows, std::move(ids), std::move(embedding), std::move(adagrad)));
}

Table::Table(uint64_t rows, Pages ids, Pages embedding, Pages adagrad)
    : rows_(rows),
      ids_(std::move(ids)),
      embedding_(std::move(embedding)),
      adagrad_(std::move(adagrad)),
      source_({reinterpret_cast<const int64_t*>(ids_.memory().data),
               static_cast<size_t>(rows)},
              {{embedding_.memory().data, kSlotBytes},
               {adagrad_.memory().data, kSlotBytes}}) {}

std::vector<Memory> Table::payload() const {
  return {ids_.memory(), embedding_.memory(), adagrad_.memory()};
}

void Table::AddTo(RankState* state) const {
  state->AddTable("table",
                  {{"embedding", DType::kF32, kElements},
                   {"adagrad_sum", DType::kF32, kElements}},
                  &source_);
}

std::unique_ptr<ChangedPart> Table::Change(uint64_t first, uint64_t stride) {
  auto changed = std::make_unique<ChangedPart>();
  const auto* ids = reinterpret_cast<const int64_t*>(ids_.memory().data);
  for (uint64_t row = first; row < rows_; row += stride) {
    changed->ids.push_back(ids[row]);
    for (const Pages* slot : {&embedding_, &adagrad_}) {
      uint64_t word = 0;
      char* const value = slot->memory().data + row * kSlotBytes;
      std::memcpy(&word, value, sizeof(word));
      word = MixId(word + 1);
      std::memcpy(value, &word, sizeof(word));
    }
  }
  const uint64_t at = first * kSlotBytes;
  changed->rows = std::make_unique<RowSource::Arrays>(
      changed->ids, std::vector<RowBlock::SlotValues>{
                        {embedding_.memory().data + at, stride * kSlotBytes},
                        {adagrad_.memory().data + at, stride * kSlotBytes}});
  return changed;
}

void Table::AddChangesTo(const ChangedPart& changed, RankState* state) const {
  RankState::Table item;
  item.name = "table";
  item.slots = {{"embedding", DType::kF32, kElements},
                {"adagrad_sum", DType::kF32, kElements}};
  item.rows = &source_;
  item.changes = RankState::Changes{changed.rows.get(), {}};
  state->AddTable(std::move(item));
}

absl::Status Table::ReadFrom(const StepReader& step,
                             const ReadOptions& options) {
  TableFiller filler(rows_, ids_.memory(), embedding_.memory(),
                     adagrad_.memory());
  ScanOptions scan;
  scan.slots = {"embedding", "adagrad_sum"};
  scan.read = options;
  CKPTDB_RETURN_IF_ERROR(step.ScanTable("table", scan, &filler));
  if (filler.filled() == rows_) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("restored ", filler.filled(), " rows of ", rows_));
}

void Table::Clear() {
  for (const Memory& memory : payload()) {
    std::memset(memory.data, 0, memory.bytes);
  }
}

uint64_t Table::Digest() const {
  uint64_t digest = 0;
  for (uint64_t row = 0; row < rows_; ++row) {
    int64_t id = 0;
    std::memcpy(&id, ids_.memory().data + row * sizeof(id), sizeof(id));
    const uint64_t at = row * kSlotBytes;
    const uint64_t embedding =
        HashBytes({embedding_.memory().data + at, kSlotBytes});
    const uint64_t adagrad =
        HashBytes({adagrad_.memory().data + at, kSlotBytes});
    digest += MixId(static_cast<uint64_t>(id) ^ MixId(embedding) ^ adagrad);
  }
  return digest;
}

absl::StatusOr<std::unique_ptr<Tensors>> Tensors::Make(uint64_t bytes,
                                                       uint64_t seed) {
  if (bytes == 0) return absl::InvalidArgumentError("tensors of 0 bytes");
  TouchFreeMemory(kTouchedCopies * bytes);
  const uint64_t whole = (bytes + kTensorStep - 1) / kTensorStep * kTensorStep;
  CKPTDB_ASSIGN_OR_RETURN(Pages pages, Pages::Allocate(whole));
  FillRandom(pages.memory(), PartSeed(seed, 3));
  std::vector<Memory> tensors = CutIntoTensors(pages.memory());
  return std::unique_ptr<Tensors>(
      new Tensors(std::move(pages), std::move(tensors)));
}

void Tensors::AddTo(RankState* state) const {
  constexpr int64_t kColumns = 1024;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto elements =
        static_cast<int64_t>(tensors_[i].bytes / sizeof(float));
    state->AddTensor(
        TensorName(i),
        TensorView::Of(reinterpret_cast<const float*>(tensors_[i].data),
                       {elements / kColumns, kColumns}));
  }
}

absl::Status Tensors::ReadFrom(const StepReader& step,
                               const ReadOptions& options) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    CKPTDB_RETURN_IF_ERROR(step.ReadTensor(TensorName(i), tensors_[i].data,
                                           tensors_[i].bytes, options));
  }
  return absl::OkStatus();
}

void Tensors::Clear() {
  std::memset(pages_.memory().data, 0, pages_.memory().bytes);
}

uint64_t Tensors::Digest() const {
  return HashBytes({pages_.memory().data, pages_.memory().bytes});
}

}  // namespace ckptdb::bench
