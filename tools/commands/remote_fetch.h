// SPDX-License-Identifier: Apache-2.0
// The action "fetch" of ckptdb remote.
#ifndef CKPTDB_TOOLS_COMMANDS_REMOTE_FETCH_H_
#define CKPTDB_TOOLS_COMMANDS_REMOTE_FETCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "remote/object_store.h"
#include "remote/remote_store.h"
#include "schema/types.h"
#include "tools/command.h"

namespace ckptdb::tool {

class RemoteFetch {
 public:
  // Options that other actions have, too.
  struct Shared {
    std::string url;
    bool follow = false;
    std::optional<uint64_t> keep = {};
  };

  // Adds the options, and returns those that no other action has.
  std::vector<const CLI::Option*> AddArguments(CLI::App* app);

  // Returns InvalidArgument, naming the options, if they contradict each other.
  absl::Status Check(const Context& context, const Shared& shared) const;
  absl::Status Run(const Context& context, const Shared& shared,
                   ObjectStore* remote) const;

 private:
  absl::StatusOr<SliceRange> Slices() const;
  absl::StatusOr<FetchOptions> Options(const Shared& shared) const;
  absl::Status Follow(const Context& context, const Shared& shared,
                      const FetchOptions& options, ObjectStore* remote) const;
  std::string TargetOf(const Context& context) const {
    return target_.empty() ? context.store : target_;
  }
  bool HasParts() const { return !tables_.empty() || !items_.empty(); }
  void Print(const Context& context, const Shared& shared,
             const FetchResult& fetched) const;

  std::string target_;
  bool all_ = false;
  bool update_ = false;
  double interval_ = 1;
  bool interval_given_ = false;
  std::optional<int64_t> step_;
  std::vector<std::string> tables_;
  std::vector<std::string> slots_;
  std::string slices_;
  std::vector<std::string> items_;
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_COMMANDS_REMOTE_FETCH_H_
