// SPDX-License-Identifier: Apache-2.0
#include "manager/save/rank_names.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "manager/coordinator.h"
#include "manager/state/list_some.h"
#include "manager/state/registered_state.h"
#include "manager/state/replicated_tensors.h"
#include "schema/bytes/page.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

template <typename Map>
std::vector<std::string> KeysOf(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

// Both lists are sorted.
absl::Status CheckSubset(absl::string_view what, absl::string_view remedy,
                         const std::vector<std::string>& owners, size_t rank,
                         const std::vector<std::string>& others) {
  std::vector<std::string> more;
  std::set_difference(others.begin(), others.end(), owners.begin(),
                      owners.end(), std::back_inserter(more));
  if (more.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", rank, " has ", what, " ",
                   ListSome(more, ", ",
                            [](const std::string& name) {
                              return absl::StrCat(
                                  "\"", absl::Utf8SafeCHexEscape(name), "\"");
                            }),
                   ", which rank ", kOwnerRank, " lacks, and only rank ",
                   kOwnerRank, "'s would be saved; ", remedy));
}

}  // namespace

RankNames NamesOf(const ModelState& model,
                  const ManagerOptions::Ranks& options) {
  RankNames names;
  names.replicas = DescribeReplicas(model, options);
  for (const RegisteredExtra& extra : model.extras()) {
    names.objects.push_back(extra.name);
  }
  std::sort(names.objects.begin(), names.objects.end());
  return names;
}

RankNames NamesOfSave(const ModelState& model,
                      const ManagerOptions::Ranks& options,
                      const SaveRequest& request) {
  RankNames names = NamesOf(model, options);
  // Every rank of every save sends it.
  constexpr size_t kMaxBytes = size_t{64} << 10;
  if (std::string& replicas = names.replicas; replicas.size() > kMaxBytes) {
    replicas = absl::StrCat(
        std::count(replicas.begin(), replicas.end(), '\n') + 1,
        " tensors with the hash 0x", absl::Hex(HashBytes(replicas)));
  }
  names.metrics = KeysOf(request.metrics);
  names.user_metadata = KeysOf(request.user_metadata);
  return names;
}

absl::Status CompareNames(const RankNames& owners, size_t rank,
                          const RankNames& other) {
  CKPTDB_RETURN_IF_ERROR(
      CompareReplicas(owners.replicas, rank, other.replicas));
  CKPTDB_RETURN_IF_ERROR(CheckSubset(
      "object", "register it on all ranks, or as an io state if ranks differ",
      owners.objects, rank, other.objects));
  const std::string pass =
      absl::StrCat("pass it on rank ", kOwnerRank, ", too");
  CKPTDB_RETURN_IF_ERROR(
      CheckSubset("metric", pass, owners.metrics, rank, other.metrics));
  return CheckSubset("user metadata", pass, owners.user_metadata, rank,
                     other.user_metadata);
}

}  // namespace ckptdb::internal
