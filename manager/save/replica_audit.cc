// SPDX-License-Identifier: Apache-2.0
#include "manager/save/replica_audit.h"

#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "db/base/call_guard.h"
#include "db/base/row_block.h"
#include "manager/internal/tensor_device.h"
#include "manager/ranks/messages.h"
#include "manager/ranks/tell_status.h"
#include "manager/state/registered_state.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/page.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// The digests of a rank's replicas, by their names in errors.
using Digests = std::map<std::string, uint64_t>;

// The number of differing tensors and tables that an error names.
constexpr size_t kMaxNamed = 5;

// Memory with the alignment and size that copies from a device require, which
// write whole units of the alignment.
class AlignedBytes {
 public:
  explicit AlignedBytes(uint64_t bytes)
      : data_(static_cast<char*>(
            ::operator new((bytes + kUnit - 1) / kUnit * kUnit, kAlignment))) {}
  ~AlignedBytes() { ::operator delete(data_, kAlignment); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  char* data() const { return data_; }

 private:
  static constexpr uint64_t kUnit = TensorState::Device::kAlignment;
  static constexpr std::align_val_t kAlignment{kUnit};
  char* const data_;
};

absl::StatusOr<uint64_t> HashDeviceTensor(const RegisteredTensor& tensor,
                                          uint64_t bytes) {
  if (bytes == 0) return HashBytes({});
  const AlignedBytes memory(bytes);
  TensorState::Device::Item item;
  item.name = tensor.name;
  item.state = &tensor.state;
  item.bytes = bytes;
  CKPTDB_ASSIGN_OR_RETURN(const auto capture, tensor.state.device->SetAside(
                                                  {&item, 1}, memory.data()));
  CKPTDB_RETURN_IF_ERROR(capture->Fetch());
  return HashBytes({memory.data(), bytes});
}

absl::StatusOr<uint64_t> HashTensor(const RegisteredTensor& tensor) {
  const TensorState& state = tensor.state;
  const uint32_t element_bytes = DTypeBytes(state.dtype);
  CKPTDB_ASSIGN_OR_RETURN(const int64_t elements,
                          ElementCount(state.shape, element_bytes));
  const uint64_t bytes = static_cast<uint64_t>(elements) * element_bytes;
  if (state.device != nullptr) return HashDeviceTensor(tensor, bytes);
  return HashBytes({static_cast<const char*>(state.data), bytes});
}

// Row order may differ between ranks, so the digest is a sum over the rows.
uint64_t HashRows(const RowBlock& block, absl::Span<const Slot> slots) {
  uint64_t sum = 0;
  std::string row;
  for (uint64_t i = 0; i < block.ids.size(); ++i) {
    const int64_t id = block.ids[i];
    row.assign(reinterpret_cast<const char*>(&id), sizeof(id));
    for (size_t s = 0; s < slots.size(); ++s) {
      row.append(block.slots[s].At(block.RowAt(i)), slots[s].row_bytes());
    }
    sum += HashBytes(row);
  }
  return sum;
}

absl::StatusOr<uint64_t> HashTable(const RegisteredTable& table) {
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<RowSource> rows,
                          table.state->AllRows());
  if (rows == nullptr) {
    return absl::InvalidArgumentError("TableState::AllRows returned null");
  }
  const std::vector<Slot> slots = table.state->slots();
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t blocks, CountBlocks(*rows));
  uint64_t sum = 0;
  for (uint64_t b = 0; b < blocks; ++b) {
    CKPTDB_ASSIGN_OR_RETURN(const RowBlock block, GetBlock(*rows, b));
    CKPTDB_RETURN_IF_ERROR(CheckRowBlock(b, block, slots));
    sum += HashRows(block, slots);
  }
  return sum;
}

absl::Status Add(const std::string& name, absl::StatusOr<uint64_t> hash,
                 Digests* digests) {
  CKPTDB_RETURN_IF_ERROR(Annotate(hash.status(), name));
  digests->emplace(name, *hash);
  return absl::OkStatus();
}

absl::StatusOr<Digests> OwnDigests(const ModelState& model,
                                   absl::Span<const TableSharding> shardings) {
  Digests digests;
  for (const RegisteredTensor& tensor : model.tensors()) {
    if (tensor.state.sharded()) continue;
    CKPTDB_RETURN_IF_ERROR(Add(absl::StrCat("tensor \"", tensor.name, "\""),
                               HashTensor(tensor), &digests));
  }
  for (size_t t = 0; t < model.tables().size(); ++t) {
    if (shardings[t].kind() != Item::Sharding::kReplicated) continue;
    const RegisteredTable& table = model.tables()[t];
    CKPTDB_RETURN_IF_ERROR(Add(absl::StrCat("table \"", table.name, "\""),
                               HashTable(table), &digests));
  }
  return digests;
}

// All ranks have the same names, so only digests are sent, ordered by
// name, or the error of computing them.
std::string EncodeDigests(const absl::StatusOr<Digests>& digests) {
  ReplicaDigests message;
  message.status = digests.status();
  if (digests.ok()) {
    for (const auto& [name, digest] : *digests) {
      message.digests.push_back(digest);
    }
  }
  return Encode(message);
}

// Adds `rank` to each name whose digest differs from the owner's.
absl::Status Compare(const Digests& owners, size_t rank,
                     absl::string_view bytes,
                     std::map<std::string, std::vector<size_t>>* differ) {
  ReplicaDigests message;
  CKPTDB_RETURN_IF_ERROR(Decode(bytes, &message));
  CKPTDB_RETURN_IF_ERROR(Annotate(message.status, absl::StrCat("rank ", rank)));
  if (message.digests.size() != owners.size()) {
    return absl::InternalError(
        absl::StrCat("rank ", rank, " sent ", message.digests.size(),
                     " digests, expected ", owners.size()));
  }
  size_t at = 0;
  for (const auto& [name, digest] : owners) {
    if (message.digests[at++] != digest) (*differ)[name].push_back(rank);
  }
  return absl::OkStatus();
}

absl::Status Report(const std::map<std::string, std::vector<size_t>>& differ) {
  if (differ.empty()) return absl::OkStatus();
  std::vector<std::string> found;
  for (const auto& [name, ranks] : differ) {
    if (found.size() == kMaxNamed) break;
    found.push_back(absl::StrCat(name,
                                 ranks.size() == 1 ? " on rank " : " on ranks ",
                                 absl::StrJoin(ranks, ", ")));
  }
  const size_t more = differ.size() - found.size();
  return absl::FailedPreconditionError(absl::StrCat(
      "audit_replicas: replicas differ from those of rank 0: ",
      absl::StrJoin(found, "; "),
      more > 0 ? absl::StrCat("; and ", more, " more") : "",
      "; apply the same updates on all ranks, restore, or declare state "
      "that is divided among ranks with TensorState::global_shape or a "
      "TableSharding"));
}

absl::Status CompareAll(const absl::StatusOr<Digests>& own,
                        const std::vector<std::string>& parts) {
  CKPTDB_RETURN_IF_ERROR(Annotate(own.status(), "rank 0"));
  std::map<std::string, std::vector<size_t>> differ;
  for (size_t rank = 1; rank < parts.size(); ++rank) {
    CKPTDB_RETURN_IF_ERROR(Compare(*own, rank, parts[rank], &differ));
  }
  return Report(differ);
}

}  // namespace

absl::Status AuditReplicas(const ModelState& model,
                           absl::Span<const TableSharding> shardings,
                           Coordinator* ranks, uint32_t attempt,
                           absl::Duration deadline) {
  if (ranks->world_size() == 1) return absl::OkStatus();
  // A rank that cannot read its replicas meets the others nevertheless.
  const absl::StatusOr<Digests> own = CallGuarded(
      "auditing the replicas", [&] { return OwnDigests(model, shardings); });
  const std::string tag = absl::StrCat("replicas of attempt ", attempt);
  const auto parts = ranks->Gather(tag, EncodeDigests(own), deadline);
  absl::Status status = parts.status();
  if (parts.ok() && ranks->rank() == kOwnerRank) {
    status = CompareAll(own, *parts);
  }
  return TellStatus(ranks, tag, status, deadline);
}

}  // namespace ckptdb::internal
