// SPDX-License-Identifier: Apache-2.0
// What tests save and compare: the state of one rank as plain values, and the
// way from there to a RankState and back from a StepReader.
//
//   RankContent content;
//   content.tensors["w"] = TensorContent::Of<float>({2}, {1.5f, 2.5f});
//   content.blobs["reader"] = "position 7";
//   HeldState held(content);
//   store->Save({.step = 7}, held.state());
//   ExpectHolds(*step_reader, {content});
#ifndef CKPTDB_TESTS_DB_CONTENT_H_
#define CKPTDB_TESTS_DB_CONTENT_H_

#include <concepts>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "db/reader.h"
#include "db/state.h"
#include "schema/records/staged.h"

namespace ckptdb::testing {

using Rows = std::map<int64_t, std::string>;

struct TensorContent {
  DType dtype = DType::kU8;
  Shape shape;
  std::string bytes;
  Codec codec = Codec::kNone;
  Shape global_shape;
  Shape offset;
  template <typename T>
  static TensorContent Of(Shape shape, const std::vector<T>& values) {
    TensorContent tensor{
        internal::DTypeOf<T>::kValue, std::move(shape), {}, {}, {}, {}};
    tensor.bytes.resize(values.size() * sizeof(T));
    if (!values.empty())
      std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    return tensor;
  }
  TensorView View() const {
    return {dtype, shape, bytes.data(), global_shape, offset};
  }
  bool operator==(const TensorContent&) const = default;
};

struct TableContent {
  std::vector<Slot> slots;
  SliceHash hash = SliceHash::kModulo;
  Rows rows;
  uint64_t row_bytes() const;
  bool operator==(const TableContent&) const = default;
};

struct RankContent {
  std::map<std::string, TensorContent> tensors;
  std::map<std::string, TableContent> tables;
  std::map<std::string, std::string> blobs;
  bool operator==(const RankContent&) const = default;
};

// Rows in blocks of its own memory, with `padding` bytes after each value; when
// `scattered`, each block has its rows in another order than its ids.
class BlockRows : public RowSource {
 public:
  using Row = std::pair<int64_t, std::string>;
  BlockRows(const std::vector<Slot>& slots, const std::vector<Row>& rows,
            size_t rows_per_block, uint64_t padding = 0,
            bool scattered = false);
  uint64_t block_count() const override { return blocks_.size(); }
  absl::StatusOr<RowBlock> Block(uint64_t block) const override;

 private:
  struct Memory {
    std::vector<int64_t> ids;
    std::vector<std::string> values;  // of each slot
    std::vector<RowBlock::SlotValues> slots;
    std::vector<uint32_t> rows;
  };
  void AddBlock(const std::vector<Slot>& slots, const Row* rows, size_t count,
                uint64_t padding, bool scattered);
  std::vector<std::unique_ptr<Memory>> blocks_;
};

// The sharding of tables whose rows tests put on any rank: by the ticket's
// slices if it has any.
TableSharding AnyRank(const Ticket& ticket);

class HeldState {
 public:
  explicit HeldState(RankContent content, size_t rows_per_block = 100,
                     const TableSharding& sharding = {});
  const RankState& state() const { return state_; }

 private:
  RankContent content_;
  std::vector<std::unique_ptr<BlockRows>> rows_;
  RankState state_;
};

// Keeps what a scan hands out; Internal when a row comes twice.
class CollectRows : public RowSink {
 public:
  explicit CollectRows(std::vector<uint64_t> slot_bytes)
      : slot_bytes_(std::move(slot_bytes)) {}
  absl::Status Consume(int worker, const RowSink::Batch& batch) override;
  const Rows& rows() const { return rows_; }

 private:
  std::vector<uint64_t> slot_bytes_;
  std::mutex mutex_;
  Rows rows_;
};

absl::StatusOr<Rows> Scan(const StepReader& step, const std::string& table,
                          const ScanOptions& options = {});
absl::StatusOr<std::string> ReadTensorBytes(const StepReader& step,
                                            const std::string& name);

// Fails the test unless the step holds all of `ranks`, byte for byte, and
// nothing else. A tensor with a global shape is compared as a shard; a table
// as the union over all ranks.
void ExpectHolds(const StepReader& step, const std::vector<RankContent>& ranks);

std::string RandomBytes(std::mt19937_64* random, size_t bytes);
// Distinct ids, some of them negative, next to each other, or extreme.
std::vector<int64_t> RandomIds(std::mt19937_64* random, size_t count);
Rows RandomRows(std::mt19937_64* random, uint64_t row_bytes, size_t count);

// A tensor of this many bytes that no codec makes smaller.
inline constexpr size_t kBulkTensorBytes = size_t{9} << 20;
TensorContent IncompressibleTensor(uint64_t seed, size_t bytes);
template <std::integral Seed>
TensorContent BulkTensor(Seed seed, size_t bytes = kBulkTensorBytes) {
  return IncompressibleTensor(static_cast<uint64_t>(seed), bytes);
}

// A little of everything, small enough to be inline.
template <std::integral Seed>
RankContent SmallContent(Seed seed, size_t rows = 50) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  RankContent content;
  content.tensors["w"] = TensorContent::Of<float>(
      {2, 3}, {static_cast<float>(seed), 1, 2, 3, 4, 5});
  content.tables["user"] = {
      {{"embedding", DType::kF32, 4}, {"freq", DType::kI32, 1}},
      SliceHash::kModulo,
      RandomRows(&random, 20, rows)};
  content.blobs["reader"] = "position " + std::to_string(seed);
  return content;
}

// The same with a tensor that makes the save a bulk one.
template <std::integral Seed>
RankContent BulkContent(Seed seed) {
  RankContent content = SmallContent(seed);
  content.tensors["bulk"] = BulkTensor(seed);
  return content;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_CONTENT_H_
