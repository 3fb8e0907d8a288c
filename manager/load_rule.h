// SPDX-License-Identifier: Apache-2.0
// What to load from a step whose items differ from the model's: rules of a
// load, and the policy of a restore into a model that has evolved.
// docs/manager.md, "Restoring", has examples.
#ifndef CKPTDB_MANAGER_LOAD_RULE_H_
#define CKPTDB_MANAGER_LOAD_RULE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "manager/policies.h"
#include "schema/types.h"

namespace ckptdb {

// How to restore into a model that has evolved since the step was saved.
//
//   RestoreRequest request;
//   request.evolve = EvolvePolicy{
//       .oname = {{"user", "member"}},
//       .tables = {{"user", {.fill = {{"adagrad_sum", 0.1}}}}}};
//   CKPTDB_ASSIGN_OR_RETURN(report, manager->Restore(request));
//
// Registered items that are not in the step keep their values. Items and slots
// only in the step are dropped: the next save lacks them. RestoreReport::loaded
// lists both. An item with another shape, dtype or slots is an error unless a
// field below says how to restore it. The next save of each table that was not
// restored unchanged is full. Entries that a step does not need are not used,
// so a policy may stay in the trainer's code; but each key and pattern must
// match something registered, or the restore returns InvalidArgument.
struct EvolvePolicy {
  // How to restore a table whose slots differ in the step. Functions are called
  // on each rank with its rows, in batches of any order, by
  // ReadOptions::threads threads at once; an error ends the load. The memory is
  // valid during the call. Rows to write are aligned for the dtype; copy rows
  // to read with memcpy.
  struct Table {
    // Maps registered slots to slots of the step with other names.
    std::map<std::string, std::string> oname = {};
    // Slots that the step does not have: the value of each element, or a
    // function, which takes precedence, that writes the values of row ids[r] at
    // `rows` + r * Slot::row_bytes().
    std::map<std::string, double> fill = {};
    std::map<std::string, std::function<absl::Status(
                              absl::Span<const int64_t> ids, char* rows)>>
        fill_with = {};
    // Converts a slot that the step has as `from`, with other elements or
    // another dtype: reads row ids[r] at `rows` + r * from.row_bytes(), and
    // writes it at `converted` + r * Slot::row_bytes().
    std::map<std::string, std::function<absl::Status(
                              const Slot& from, absl::Span<const int64_t> ids,
                              const char* rows, char* converted)>>
        convert = {};
  };

  // Maps registered names, or parts before a ".", to those in the step, for
  // items that the step lacks under their registered name; an item that it has
  // under neither is an error. To exchange two names, load by rules.
  std::map<std::string, std::string> oname = {};
  // Patterns, as in LoadRule, of items that keep their values.
  std::vector<std::string> exclude = {};
  bool cast = false;  // converts items of another dtype, as LoadRule::cast
  std::map<std::string, Table> tables = {};  // by registered name
};

// A rule of a load: what to load from which step. A load can combine parts of
// several stores.
//
//   [{"path": "base", "load": ["sparse", "dense"], "exclude": ["head.*"]},
//    {"path": "tuned", "step": 7000, "load": ["user"],
//     "oname": {"user": "member"}, "hashtable_clear": false}]
//
// A rule loads the registered items that match its patterns from one step;
// later rules overwrite earlier ones. A pattern is a glob over names, with "*"
// and "?", or a category: sparse (tables, without the optimizer's slots),
// sparse_opt (the optimizer's slots of the tables that are loaded), dense
// (tensors), extra (objects and values), io_state, or * for everything.
//
// An item with another dtype does not fit unless `cast` is set: then a tensor
// of the same shape, or a slot of the same name and width, is converted by
// CastElements. A number out of range ends the load with OutOfRange; as after
// any failed load, the model is unusable until a load succeeds. A cast takes
// extra memory on each thread: up to 8 MiB for a tensor, and a batch of rows
// for a table.
struct LoadRule {
  std::string path = {};  // empty: the manager's own store
  // Unset: the step saved last, or the best.
  std::optional<int64_t> step = std::nullopt;
  // Loads the best step by this metric.
  std::optional<KeepPolicy::BestOptions> best = std::nullopt;
  std::vector<std::string> load = {"*"};
  std::vector<std::string> exclude = {};  // from the items matching `load`
  // Maps registered names, or parts before a ".", to those in the step.
  std::map<std::string, std::string> oname = {};
  // By registered name.
  std::map<std::string, EvolvePolicy::Table> tables = {};
  // If true, an item that is missing or does not fit, or a pattern of `load`
  // that matches nothing registered, is an error. A pattern of `exclude`, or a
  // key of `oname` or `tables`, that matches nothing always is.
  bool strict = true;
  bool hashtable_clear = true;  // false: rows are merged into the tables
  bool cast = false;            // converts items of another dtype
  // Applies only while the manager's own store has no step. In JSON,
  // "is_dynamic": false.
  bool only_if_empty = false;
  bool ignore_error = false;  // errors except Cancelled go to the summary
  bool skip = false;          // the rule does nothing
};

// Parses rules. Returns InvalidArgument naming the rule, the key, the mistake,
// line and column, and the nearest key for an unknown one.
absl::StatusOr<std::vector<LoadRule>> ParseLoadSpec(absl::string_view json);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_LOAD_RULE_H_
