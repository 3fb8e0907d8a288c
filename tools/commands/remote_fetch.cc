// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/remote_fetch.h"

#include "CLI/Validators.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "remote/follow_remote.h"
#include "schema/status.h"
#include "tools/format.h"
#include "tools/interrupt.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/outside_store.h"
#include "tools/progress_line.h"
#include "tools/value_checks.h"

namespace ckptdb::tool {
namespace {

absl::Status BothGiven(absl::string_view one, absl::string_view other) {
  return absl::InvalidArgumentError(
      absl::StrCat(one, " and ", other, " of \"remote fetch\" are both given"));
}

absl::Status FetchNeeds(absl::string_view one, absl::string_view other) {
  return absl::InvalidArgumentError(
      absl::StrCat(one, " of \"remote fetch\" needs ", other));
}

std::string FetchedSteps(const std::vector<int64_t>& steps) {
  return steps.size() == 1 ? StepName(steps[0])
                           : absl::StrCat(steps.size(), " steps");
}

}  // namespace

std::vector<const CLI::Option*> RemoteFetch::AddArguments(CLI::App* app) {
  std::vector<const CLI::Option*> own;
  const auto add = [&](CLI::Option* option, const char* type) {
    own.push_back(option->type_name(type));
    return option;
  };
  const auto add_list = [&](const char* name, const char* type,
                            std::vector<std::string>* list, const char* help) {
    add(app->add_option(name, *list, help), type)
        ->delimiter(',')
        ->allow_extra_args(false);
  };
  add(app->add_option("target", target_, "fetch: folder of the store"),
      "STORE");
  own.push_back(app->add_flag(
      "--update", update_,
      "fetch: add the steps that STORE lacks, if it exists already"));
  add(app->add_option("--interval", interval_,
                      "fetch --follow: look for steps this often; default: 1"),
      "SECONDS")
      ->check(MoreThanZero())
      ->each([this](const std::string&) { interval_given_ = true; });
  add(app->add_option("--step", step_, "fetch: this step, not the newest"),
      "STEP");
  own.push_back(app->add_flag("--all", all_, "fetch: all steps"));
  add_list("--tables", "TABLES", &tables_,
           "fetch: only these tables: a,b, or * ? [...] as in a shell");
  add_list("--slots", "SLOTS", &slots_,
           "fetch: with --tables, only these slots: a,b");
  add(app->add_option("--slices", slices_,
                      "fetch: with --tables, only rows of the slices A to B"),
      "A-B");
  add_list("--items", "ITEMS", &items_,
           "fetch: only these tensors and blobs: 'mlp.*'");
  return own;
}

// Parses "0-127", an inclusive range.
absl::StatusOr<SliceRange> RemoteFetch::Slices() const {
  SliceRange range;
  if (slices_.empty()) return range;
  const std::vector<std::string> ends = absl::StrSplit(slices_, '-');
  uint32_t last = 0;
  if (ends.size() == 2 && absl::SimpleAtoi(ends[0], &range.begin) &&
      absl::SimpleAtoi(ends[1], &last) && range.begin <= last &&
      last < kSlices) {
    range.end = last + 1;
    return range;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "invalid slices \"", slices_, "\"; expected A-B within 0-", kSlices - 1));
}

absl::Status RemoteFetch::Check(const Context& context,
                                const Shared& shared) const {
  if (target_.empty() && !context.store_given) {
    return absl::InvalidArgumentError(
        "name the folder of the store, or set --store");
  }
  if (absl::StrContains(target_, "://")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", target_, "\" is a URL; expected the folder of the new store"));
  }
  if (all_ && step_.has_value()) return BothGiven("--step", "--all");
  if (tables_.empty() && !slots_.empty())
    return FetchNeeds("--slots", "--tables");
  if (tables_.empty() && !slices_.empty())
    return FetchNeeds("--slices", "--tables");
  const bool updates = update_ || shared.follow;
  if (updates && HasParts()) {
    return BothGiven(shared.follow ? "--follow" : "--update",
                     tables_.empty() ? "--items" : "--tables");
  }
  if (interval_given_ && !shared.follow)
    return FetchNeeds("--interval", "--follow");
  if (shared.follow && step_.has_value()) {
    return BothGiven("--step", "--follow");
  }
  if (!shared.keep.has_value()) return absl::OkStatus();
  if (!updates) return FetchNeeds("--keep", "--update or --follow");
  return step_.has_value() ? BothGiven("--step", "--keep") : absl::OkStatus();
}

absl::StatusOr<FetchOptions> RemoteFetch::Options(const Shared& shared) const {
  FetchOptions options;
  options.step = step_;
  options.all = all_;
  options.update = update_;
  options.keep = shared.keep;
  options.tables = tables_;
  options.slots = slots_;
  options.items = items_;
  CKPTDB_ASSIGN_OR_RETURN(options.slices, Slices());
  options.cancelled = [] { return Interrupt::asked(); };
  return options;
}

absl::Status RemoteFetch::Run(const Context& context, const Shared& shared,
                              ObjectStore* remote) const {
  CKPTDB_RETURN_IF_ERROR(CheckNotWithinStore(TargetOf(context)));
  CKPTDB_ASSIGN_OR_RETURN(FetchOptions options, Options(shared));
  if (shared.follow) return Follow(context, shared, options, remote);
  ProgressLine progress(context.terminal, "remote fetch");
  options.progress = [&](uint64_t done, uint64_t all) {
    progress.Update(done, all);
  };
  CKPTDB_ASSIGN_OR_RETURN(const FetchResult fetched,
                          FetchStore(remote, TargetOf(context), options));
  Print(context, shared, fetched);
  return absl::OkStatus();
}

absl::Status RemoteFetch::Follow(const Context& context, const Shared& shared,
                                 const FetchOptions& options,
                                 ObjectStore* remote) const {
  FollowOptions following;
  following.fetch = options;
  following.look = absl::Seconds(interval_);
  following.on_fetched = [&](const FetchResult& fetched) {
    Print(context, shared, fetched);
    context.out->flush();
  };
  following.on_status = [&](const absl::Status& status) {
    if (absl::IsCancelled(status)) return;
    if (status.ok()) {
      *context.err << "ckptdb: remote: following again\n";
    } else {
      const absl::Status shown = WithoutReserveOption(status);
      context.PrintError(absl::Status(
          shown.code(), absl::StrCat(shown.message(), "; trying again")));
    }
  };
  return FollowRemote(remote, TargetOf(context), following);
}

void RemoteFetch::Print(const Context& context, const Shared& shared,
                        const FetchResult& fetched) const {
  if (context.json) {
    PrintJson({{"url", shared.url},
               {"action", "fetch"},
               {"store", TargetOf(context)},
               {"store_uuid", fetched.store_uuid},
               {"fetched", fetched.steps},
               {"revised", fetched.revised},
               {"removed", fetched.removed},
               {"parts", HasParts()},
               {"data_files", fetched.data_files},
               {"data_bytes", fetched.data_bytes}},
              context.out);
    return;
  }
  *context.out << "fetched " << FetchedSteps(fetched.steps) << " to "
               << Printable(TargetOf(context)) << ": " << fetched.data_files
               << " data files, " << FormatBytes(fetched.data_bytes);
  if (!fetched.revised.empty()) {
    *context.out << "; new metrics or flags of "
                 << FetchedSteps(fetched.revised);
  }
  if (!fetched.removed.empty()) {
    *context.out << "; removed " << FetchedSteps(fetched.removed);
  }
  *context.out << '\n';
  if (HasParts()) {
    *context.out << "the store has only the parts that were named, and can "
                    "only be read\n";
  }
}

}  // namespace ckptdb::tool
