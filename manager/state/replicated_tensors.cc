// SPDX-License-Identifier: Apache-2.0
#include "manager/state/replicated_tensors.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "manager/coordinator.h"
#include "manager/state/registered_state.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Assigns the largest tensors first, each to the rank with the least bytes so
// far, so that no rank saves more than 4/3 of the best assignment's maximum.
// Equal sizes are ordered by name, so that all ranks compute the same result.
absl::StatusOr<std::vector<uint32_t>> AssignSavers(
    const ModelState& model, ManagerOptions::ReplicatedSaver saver,
    uint32_t world_size) {
  const std::vector<RegisteredTensor>& tensors = model.tensors();
  std::vector<uint32_t> savers(tensors.size(), kOwnerRank);
  if (world_size == 1 || saver == ManagerOptions::ReplicatedSaver::kOwner) {
    return savers;
  }
  std::vector<uint64_t> bytes(tensors.size());
  std::vector<size_t> order;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const TensorState& state = tensors[t].state;
    if (state.sharded()) continue;
    const uint32_t element_bytes = DTypeBytes(state.dtype);
    CKPTDB_ASSIGN_OR_RETURN(const int64_t elements,
                            ElementCount(state.shape, element_bytes));
    bytes[t] = static_cast<uint64_t>(elements) * element_bytes;
    order.push_back(t);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (bytes[a] != bytes[b]) return bytes[a] > bytes[b];
    return tensors[a].name < tensors[b].name;
  });
  std::vector<uint64_t> load(world_size);
  for (const size_t t : order) {
    const auto least = std::min_element(load.begin(), load.end());
    savers[t] = static_cast<uint32_t>(least - load.begin());
    *least += bytes[t];
  }
  return savers;
}

// Sorts the lines, because ranks may register their tensors in any order.
// Includes the options: ranks that differ in these would wait for each other.
std::string DescribeReplicas(const ModelState& model,
                             const ManagerOptions::Ranks& replication) {
  std::vector<std::string> lines;
  for (const RegisteredTensor& tensor : model.tensors()) {
    if (tensor.state.sharded()) continue;
    lines.push_back(absl::StrCat(
        "tensor \"", absl::Utf8SafeCHexEscape(tensor.name), "\" ",
        DTypeName(tensor.state.dtype), " ", ToString(tensor.state.shape)));
  }
  std::sort(lines.begin(), lines.end());
  if (replication.replicated_saver == ManagerOptions::ReplicatedSaver::kOwner) {
    lines.emplace_back("ManagerOptions::ReplicatedSaver::kOwner");
  }
  if (replication.broadcast_replicated) {
    lines.emplace_back("ManagerOptions::ranks.broadcast_replicated");
  }
  return absl::StrJoin(lines, "\n");
}

absl::Status CompareReplicas(absl::string_view owners, size_t rank,
                             absl::string_view other) {
  if (owners == other) return absl::OkStatus();
  const std::vector<std::string> expected = absl::StrSplit(owners, '\n');
  const std::vector<std::string> got = absl::StrSplit(other, '\n');
  // The first differing line suffices to find the mistake.
  const auto [a, b] =
      std::mismatch(expected.begin(), expected.end(), got.begin(), got.end());
  const auto name = [](const auto& at, const auto& lines) {
    return at == lines.end() || at->empty() ? "none" : *at;
  };
  return absl::InvalidArgumentError(absl::StrCat(
      "the ranks have different replicated tensors: where rank 0 has ",
      name(a, expected), ", rank ", rank, " has ", name(b, got),
      "; register the same on all ranks, or give a tensor that is divided "
      "among ranks a TensorState::global_shape"));
}

}  // namespace ckptdb::internal
