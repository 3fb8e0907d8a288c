// SPDX-License-Identifier: Apache-2.0
#include "tools/content_digest.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "schema/status.h"
#include "tools/tensor_scan.h"

namespace ckptdb::tool {
namespace {

struct FreeXxhState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

class ContentHash {
 public:
  ContentHash() : state_(XXH3_createState()) {
    XXH3_128bits_reset(state_.get());
  }
  void Add(absl::string_view bytes) {
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }
  // Adds an integer, little-endian.
  template <typename T>
  void AddInteger(T number) {
    std::array<char, sizeof(T)> bytes = {};
    auto bits = static_cast<uint64_t>(number);
    for (char& byte : bytes) {
      byte = static_cast<char>(bits);
      bits >>= 8;
    }
    Add({bytes.data(), bytes.size()});
  }
  void AddName(absl::string_view name) {
    AddInteger(static_cast<uint32_t>(name.size()));
    Add(name);
  }
  std::string Hex() const {
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, XXH3_128bits_digest(state_.get()));
    return absl::BytesToHexString(
        {reinterpret_cast<const char*>(bytes.digest), sizeof(bytes.digest)});
  }

 private:
  std::unique_ptr<XXH3_state_t, FreeXxhState> state_;
};

// Adds up the hashes of rows, in any order.
class RowHashSum : public RowSink {
 public:
  RowHashSum(const std::vector<Slot>& slots, int workers)
      : slots_(slots), parts_(static_cast<size_t>(workers)) {}

  absl::Status Consume(int worker, const Batch& batch) override {
    Part& part = parts_[static_cast<size_t>(worker)];
    uint64_t row_bytes = sizeof(int64_t);
    for (const Slot& slot : slots_) row_bytes += slot.row_bytes();
    part.row.resize(row_bytes);
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      char* to = part.row.data();
      for (size_t i = 0; i < sizeof(int64_t); ++i) {
        *to++ = static_cast<char>(static_cast<uint64_t>(batch.ids[r]) >> 8 * i);
      }
      for (size_t s = 0; s < slots_.size(); ++s) {
        const uint64_t bytes = slots_[s].row_bytes();
        std::memcpy(to, batch.slots[s] + r * bytes, bytes);
        to += bytes;
      }
      const XXH128_hash_t hash = XXH3_128bits(part.row.data(), row_bytes);
      part.low += hash.low64;
      part.high += hash.high64 + (part.low < hash.low64 ? 1 : 0);
    }
    part.rows += batch.ids.size();
    return absl::OkStatus();
  }

  // Adds the number of rows and the sum, and returns the number.
  uint64_t AddTo(ContentHash* hash) const {
    Part sum;
    for (const Part& part : parts_) {
      sum.rows += part.rows;
      sum.low += part.low;
      sum.high += part.high + (sum.low < part.low ? 1 : 0);
    }
    hash->AddInteger(sum.rows);
    hash->AddInteger(sum.low);
    hash->AddInteger(sum.high);
    return sum.rows;
  }

 private:
  struct alignas(128) Part {
    uint64_t rows = 0;
    uint64_t low = 0;
    uint64_t high = 0;
    std::string row;
  };
  const std::vector<Slot>& slots_;
  std::vector<Part> parts_;
};

absl::Status DigestTensors(const StepReader& step,
                           const std::set<std::string>& names,
                           const ReadOptions& options,
                           std::vector<ItemDigest>* digests) {
  std::vector<TensorPart> parts;
  for (const std::string& name : names) {
    CKPTDB_ASSIGN_OR_RETURN(Item spec, step.FindTensor(name));
    TensorBox box = WholeOf(spec);
    parts.push_back({std::move(spec), std::move(box)});
  }
  std::optional<ContentHash> hash;
  uint64_t left = 0;  // bytes of the tensor that are not hashed yet
  return ScanTensors(
      step, parts, options, [&](size_t i, const char* bytes, uint64_t size) {
        const Item& spec = parts[i].spec;
        if (!hash.has_value()) {
          left = BytesOf(parts[i].box, spec.dtype);
          hash.emplace().Add("T");
          hash->AddName(spec.name);
          hash->AddInteger(static_cast<uint8_t>(spec.dtype));
          hash->AddInteger(static_cast<uint32_t>(spec.shape.size()));
          for (const int64_t extent : spec.shape) hash->AddInteger(extent);
        }
        hash->Add({bytes, size});
        left -= size;
        if (left > 0) return absl::OkStatus();
        digests->push_back({Item::Kind::kTensor, spec.name, 0, 0,
                            BytesOf(parts[i].box, spec.dtype), hash->Hex()});
        hash.reset();
        return absl::OkStatus();
      });
}

absl::StatusOr<ItemDigest> DigestTable(const StepReader& step,
                                       const std::string& name,
                                       const ReadOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(StepReader::TableSpec spec, step.FindTable(name));
  std::sort(spec.slots.begin(), spec.slots.end(),
            [](const Slot& a, const Slot& b) { return a.name < b.name; });
  ContentHash hash;
  hash.Add("R");
  hash.AddName(name);
  hash.AddInteger(static_cast<uint32_t>(spec.slots.size()));
  ScanOptions scan;
  uint64_t row_bytes = sizeof(int64_t);
  for (const Slot& slot : spec.slots) {
    hash.AddName(slot.name);
    hash.AddInteger(static_cast<uint8_t>(slot.dtype));
    hash.AddInteger(slot.elements);
    scan.slots.push_back(slot.name);
    row_bytes += slot.row_bytes();
  }
  scan.ids_only = spec.slots.empty();
  scan.read = options;
  RowHashSum sum(spec.slots, options.threads);
  CKPTDB_RETURN_IF_ERROR(step.ScanTable(name, scan, &sum));
  const uint64_t rows = sum.AddTo(&hash);
  return ItemDigest{Item::Kind::kRows, name,      0, rows,
                    rows * row_bytes,  hash.Hex()};
}

absl::StatusOr<ItemDigest> DigestBlob(const StepReader& step, uint32_t rank,
                                      const std::string& name,
                                      const ReadOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                          step.ReadBlob(rank, name, options));
  ContentHash hash;
  hash.Add("B");
  hash.AddName(name);
  hash.AddInteger(rank);
  hash.Add(bytes);
  return ItemDigest{Item::Kind::kBlob, name, rank, 0, bytes.size(), hash.Hex()};
}

}  // namespace

absl::StatusOr<StepDigest> DigestStep(const StepReader& step,
                                      const ReadOptions& options) {
  std::set<std::string> tensors;
  std::set<std::string> tables;
  std::set<std::pair<std::string, uint32_t>> blobs;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      if (item.kind == Item::Kind::kTensor) tensors.insert(item.name);
      if (item.kind == Item::Kind::kRows) tables.insert(item.name);
      if (item.kind == Item::Kind::kBlob) blobs.emplace(item.name, rank.rank);
    }
  }
  StepDigest result;
  ContentHash model;
  ContentHash all_blobs;
  CKPTDB_RETURN_IF_ERROR(DigestTensors(step, tensors, options, &result.items));
  for (const std::string& table : tables) {
    CKPTDB_ASSIGN_OR_RETURN(result.items.emplace_back(),
                            DigestTable(step, table, options));
  }
  for (const ItemDigest& item : result.items) model.Add(item.digest);
  for (const auto& [name, rank] : blobs) {
    CKPTDB_ASSIGN_OR_RETURN(result.items.emplace_back(),
                            DigestBlob(step, rank, name, options));
    all_blobs.Add(result.items.back().digest);
  }
  result.model = model.Hex();
  result.blobs = all_blobs.Hex();
  return result;
}

}  // namespace ckptdb::tool
