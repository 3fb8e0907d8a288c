// SPDX-License-Identifier: Apache-2.0
#include "tests/db/content.h"

#include "absl/strings/str_cat.h"
#include "schema/bytes/shape.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

std::vector<uint64_t> SlotBytes(const StepReader::TableSpec& table,
                                const ScanOptions& options) {
  std::vector<uint64_t> bytes;
  if (options.ids_only) return bytes;
  if (options.slots.empty()) {
    for (const Slot& slot : table.slots) bytes.push_back(slot.row_bytes());
  }
  for (const std::string& name : options.slots) {
    for (const Slot& slot : table.slots) {
      if (slot.name == name) bytes.push_back(slot.row_bytes());
    }
  }
  return bytes;
}

// What kAuto has come to is not what was asked for.
std::vector<Slot> WithoutCodecs(std::vector<Slot> slots) {
  for (Slot& slot : slots) slot.codec = Codec::kNone;
  return slots;
}

void ExpectTensor(const StepReader& step, const std::string& name,
                  const TensorContent& tensor) {
  const bool whole = tensor.global_shape.empty();
  ASSERT_OK_AND_ASSIGN(const Item spec, step.FindTensor(name));
  EXPECT_EQ(spec.dtype, tensor.dtype);
  EXPECT_EQ(spec.shape, whole ? tensor.shape : tensor.global_shape);
  const Box box{whole ? Shape(tensor.shape.size()) : tensor.offset,
                tensor.shape};
  std::string bytes(tensor.bytes.size(), '\xcc');
  ASSERT_OK(step.ReadTensorPart(name, box.offset, box.shape, bytes.data(),
                                bytes.size()));
  EXPECT_TRUE(bytes == tensor.bytes) << "tensor " << name;
}

void ExpectTable(const StepReader& step, const std::string& name,
                 const TableContent& table) {
  ASSERT_OK_AND_ASSIGN(const StepReader::TableSpec spec, step.FindTable(name));
  EXPECT_EQ(WithoutCodecs(spec.slots), WithoutCodecs(table.slots));
  EXPECT_EQ(spec.slice_hash, table.hash);
  if (spec.exact) {
    EXPECT_EQ(spec.rows, table.rows.size());
  } else {
    EXPECT_GE(spec.rows, table.rows.size());
  }
  EXPECT_TRUE(Scan(step, name).value() == table.rows) << "table " << name;
}

// Reads all tensors that ranks have whole in one call.
void ExpectTensorsTogether(const StepReader& step,
                           const std::vector<RankContent>& ranks) {
  std::map<std::string, std::string> bytes;
  std::vector<StepReader::TensorRead> reads;
  for (const RankContent& content : ranks) {
    for (const auto& [name, tensor] : content.tensors) {
      if (!tensor.global_shape.empty() || bytes.contains(name)) continue;
      std::string& out = bytes[name];
      out.assign(tensor.bytes.size(), '\xcc');
      reads.push_back({name, out.data(), out.size()});
    }
  }
  ASSERT_OK(step.ReadTensors(reads));
  for (const RankContent& content : ranks) {
    for (const auto& [name, tensor] : content.tensors) {
      if (!tensor.global_shape.empty()) continue;
      EXPECT_TRUE(bytes[name] == tensor.bytes) << "tensor " << name;
    }
  }
}

void CheckItemCount(const StepReader& step, size_t rank,
                    const RankContent& content) {
  ASSERT_LT(rank, step.ranks().size());
  EXPECT_EQ(
      step.ranks()[rank].items.size(),
      content.tensors.size() + content.tables.size() + content.blobs.size());
}

}  // namespace

uint64_t TableContent::row_bytes() const {
  uint64_t bytes = 0;
  for (const Slot& slot : slots) bytes += slot.row_bytes();
  return bytes;
}

BlockRows::BlockRows(const std::vector<Slot>& slots,
                     const std::vector<Row>& rows, size_t rows_per_block,
                     uint64_t padding, bool scattered) {
  for (size_t at = 0; at < rows.size(); at += rows_per_block) {
    AddBlock(slots, rows.data() + at,
             std::min(rows_per_block, rows.size() - at), padding, scattered);
  }
}

void BlockRows::AddBlock(const std::vector<Slot>& slots, const Row* rows,
                         size_t count, uint64_t padding, bool scattered) {
  auto memory = std::make_unique<Memory>();
  for (size_t i = 0; i < count; ++i) memory->ids.push_back(rows[i].first);
  // The row whose values come first, second, and so on: when scattered, those
  // with odd numbers before the others.
  std::vector<uint32_t> order;
  const uint32_t every = scattered ? 2 : 1;
  for (uint32_t first = every; first-- > 0;)
    for (uint32_t i = first; i < count; i += every) order.push_back(i);
  if (scattered) {
    memory->rows.resize(count);
    for (uint32_t i = 0; i < count; ++i) memory->rows[order[i]] = i;
  }
  uint64_t at = 0;
  for (const Slot& slot : slots) {
    std::string values;
    for (const uint32_t i : order) {
      values += rows[i].second.substr(at, slot.row_bytes());
      values.append(padding, '\xee');
    }
    at += slot.row_bytes();
    memory->values.push_back(std::move(values));
  }
  for (size_t s = 0; s < slots.size(); ++s) {
    memory->slots.push_back(
        {memory->values[s].data(), slots[s].row_bytes() + padding});
  }
  blocks_.push_back(std::move(memory));
}

absl::StatusOr<RowBlock> BlockRows::Block(uint64_t block) const {
  const Memory& memory = *blocks_[block];
  return RowBlock{memory.ids, memory.slots, memory.rows};
}

TableSharding AnyRank(const Ticket& ticket) {
  return ticket.slices().has_value() ? TableSharding()
                                     : TableSharding::Unchecked();
}

HeldState::HeldState(RankContent content, size_t rows_per_block,
                     const TableSharding& sharding)
    : content_(std::move(content)) {
  for (const auto& [name, tensor] : content_.tensors)
    state_.AddTensor(name, tensor.View(), tensor.codec);
  for (const auto& [name, table] : content_.tables) {
    rows_.push_back(std::make_unique<BlockRows>(
        table.slots,
        std::vector<BlockRows::Row>(table.rows.rbegin(), table.rows.rend()),
        rows_per_block));
    state_.AddTable(name, table.slots, rows_.back().get(), table.hash,
                    sharding);
  }
  for (const auto& [name, bytes] : content_.blobs) state_.AddBlob(name, bytes);
}

absl::Status CollectRows::Consume(int, const RowSink::Batch& batch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (batch.slots.size() != slot_bytes_.size()) {
    return absl::InternalError(
        absl::StrCat(batch.slots.size(), " slots in a batch"));
  }
  for (size_t r = 0; r < batch.ids.size(); ++r) {
    std::string values;
    for (size_t s = 0; s < slot_bytes_.size(); ++s)
      values.append(batch.slots[s] + r * slot_bytes_[s], slot_bytes_[s]);
    if (!rows_.emplace(batch.ids[r], std::move(values)).second) {
      return absl::InternalError(
          absl::StrCat("id ", batch.ids[r], " came twice"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Rows> Scan(const StepReader& step, const std::string& table,
                          const ScanOptions& options) {
  const absl::StatusOr<StepReader::TableSpec> spec = step.FindTable(table);
  if (!spec.ok()) return spec.status();
  CollectRows sink(SlotBytes(*spec, options));
  const absl::Status status = step.ScanTable(table, options, &sink);
  if (!status.ok()) return status;
  return sink.rows();
}

absl::StatusOr<std::string> ReadTensorBytes(const StepReader& step,
                                            const std::string& name) {
  const absl::StatusOr<Item> spec = step.FindTensor(name);
  if (!spec.ok()) return spec.status();
  std::string bytes(spec->raw_bytes, '\xcc');
  const absl::Status status = step.ReadTensor(name, bytes.data(), bytes.size());
  if (!status.ok()) return status;
  return bytes;
}

void ExpectHolds(const StepReader& step,
                 const std::vector<RankContent>& ranks) {
  ASSERT_EQ(step.ranks().size(), ranks.size());
  ExpectTensorsTogether(step, ranks);
  std::map<std::string, TableContent> tables;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    CheckItemCount(step, rank, ranks[rank]);
    for (const auto& [name, tensor] : ranks[rank].tensors)
      ExpectTensor(step, name, tensor);
    for (const auto& [name, bytes] : ranks[rank].blobs) {
      ASSERT_OK_AND_ASSIGN(const std::string read,
                           step.ReadBlob(static_cast<uint32_t>(rank), name));
      EXPECT_TRUE(read == bytes) << "blob " << name << " of rank " << rank;
    }
    for (const auto& [name, table] : ranks[rank].tables) {
      TableContent& all = tables[name];
      all.slots = table.slots;
      all.hash = table.hash;
      all.rows.insert(table.rows.begin(), table.rows.end());
    }
  }
  for (const auto& [name, table] : tables) ExpectTable(step, name, table);
}

std::string RandomBytes(std::mt19937_64* random, size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t word = (*random)();
    std::memcpy(text.data() + at, &word, std::min(sizeof(word), bytes - at));
  }
  return text;
}

std::vector<int64_t> RandomIds(std::mt19937_64* random, size_t count) {
  constexpr int64_t kExtremes[] = {0, 1, -1,
                                   std::numeric_limits<int64_t>::min(),
                                   std::numeric_limits<int64_t>::max()};
  std::set<int64_t> ids;
  while (ids.size() < count) {
    const auto bits = static_cast<int64_t>((*random)());
    switch ((*random)() % 4) {
      case 0:
        ids.insert(kExtremes[static_cast<uint64_t>(bits) % 5]);
        break;
      case 1:
        ids.insert(bits);
        break;
      case 2:
        ids.insert(bits % 1000);
        break;
      default:
        ids.insert((bits >> 16) << 16 | 7);
        break;
    }
  }
  std::vector<int64_t> shuffled(ids.begin(), ids.end());
  std::shuffle(shuffled.begin(), shuffled.end(), *random);
  return shuffled;
}

Rows RandomRows(std::mt19937_64* random, uint64_t row_bytes, size_t count) {
  Rows rows;
  for (const int64_t id : RandomIds(random, count))
    rows[id] = RandomBytes(random, row_bytes);
  return rows;
}

TensorContent IncompressibleTensor(uint64_t seed, size_t bytes) {
  std::mt19937_64 random(seed);
  TensorContent tensor;
  tensor.dtype = DType::kF32;
  tensor.shape = {static_cast<int64_t>(bytes / 4)};
  tensor.bytes = RandomBytes(&random, bytes / 4 * 4);
  return tensor;
}

}  // namespace ckptdb::testing
