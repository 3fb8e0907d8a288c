// What to load from a step whose items are not those of the model: rules of a
// load, and the policy of a restore into a model that has evolved.
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
#include "ckptdb/manager/policies.h"
#include "ckptdb/schema/types.h"

namespace ckptdb {

// The policy of a restore into a model that has evolved since the step was
// saved.
//
//   RestoreRequest request;
//   request.evolve = EvolvePolicy{
//       .oname = {{"user", "member"}},
//       .tables = {{"user", {.fill = {{"adagrad_sum", {.value = 0.1}}}}}}};
//   CKPTDB_ASSIGN_OR_RETURN(report, manager->Restore(request));
//
// Tensors, tables and other items that are registered and not in the step keep
// the values that they have. Items and slots that are in the step and not
// registered are dropped: the next save does not have them. Both are in
// RestoreReport::loaded, and the owner warns of both. An item of another shape,
// dtype or slots is an error, unless a field below says how to restore it.
// global_step(), the lineage and the schedule go on as after any restore, and
// the next save of each table that was not restored as it is in the step is
// full.
//
// A policy may stay in the trainer's code: entries that a step does not need
// are not used. Each key and pattern must match something registered, or the
// restore is InvalidArgument with the nearest name.
struct EvolvePolicy {
  // Says where the slots of a table come from if the step has the table with
  // other slots. An entry that the step does not need is not used: once a step
  // was saved with the new slots, the same policy restores it as it is.
  //
  // Functions are called on each rank with the rows of that rank, in batches of
  // any order and from ReadOptions::threads threads at once. The memory is
  // valid during the call. Rows to write are aligned for the dtype, rows to
  // read are not: copy them with memcpy. An error ends the load.
  struct Table {
    // The values of a slot that the step does not have.
    struct Fill {
      // Writes the values of row ids[r] at `rows` + r * Slot::row_bytes().
      using Function = std::function<absl::Status(absl::Span<const int64_t> ids,
                                                  char* rows)>;

      double value = 0;        // of each element
      Function function = {};  // if set, instead of `value`
    };
    // Writes the rows of a slot from those that the step has as `from`, with
    // other elements or another dtype: row ids[r] is at `rows` + r *
    // from.row_bytes() and written at `converted` + r * Slot::row_bytes().
    using Convert = std::function<absl::Status(
        const Slot& from, absl::Span<const int64_t> ids, const char* rows,
        char* converted)>;

    // Maps registered slots to slots of the step, if the step has no slot of
    // the registered name.
    std::map<std::string, std::string> oname = {};
    std::map<std::string, Fill> fill = {};
    std::map<std::string, Convert> convert = {};
  };

  // Maps registered names to names in the step, if the step has no such item of
  // the registered name. To exchange two names, load by rules instead.
  std::map<std::string, std::string> oname = {};
  // Patterns, as those of LoadRule, of items that keep the values they have,
  // whatever the step has.
  std::vector<std::string> exclude = {};
  bool cast = false;  // converts items of another dtype, as LoadRule::cast
  std::map<std::string, Table> tables = {};  // by registered name
};

// A rule of a load, which says what to load from which step. A load can take
// parts of several stores.
//
//   [{"path": "base", "load": ["sparse", "dense"], "exclude": ["head.*"]},
//    {"path": "tuned", "step": 7000, "load": ["user"],
//     "oname": {"user": "member"}, "hashtable_clear": false}]
//
//   CKPTDB_ASSIGN_OR_RETURN(std::vector<LoadRule> rules, ParseLoadSpec(json));
//   CKPTDB_ASSIGN_OR_RETURN(LoadSummary dry, manager->Load(rules,
//                                                          /*dry_run=*/true));
//
// A rule loads from one step the registered items that its patterns match;
// later rules load over earlier ones. A pattern is a category, or a glob over
// names in which "*" stands for any characters and "?" for one.
//
// | category | what |
// |---|---|
// | sparse | tables; their slots but those of the optimizer |
// | sparse_opt | the slots of the optimizer, of the tables that are loaded |
// | dense | tensors |
// | extra | objects and values |
// | io_state | io states |
// | * | everything |
//
// A pattern of names matches a table with all its slots.
//
// An item with another dtype in the step than registered does not fit, unless
// the rule sets `cast`: then a tensor of the same shape, and a slot of the same
// name and number of elements, is converted as by CastElements. Floats are not
// cast to integers. A number out of the range of an integer dtype is OutOfRange
// naming it and its place, found while it is loaded: what was loaded before it
// stays, and as after any error of a load the model must not be used before one
// has succeeded. A cast takes memory besides the model's: up to 8 MiB for a
// tensor, and the rows of a batch in the new dtype for a table, for each of
// ReadOptions::threads.
struct LoadRule {
  std::string path = {};  // empty: the manager's own store
  // Unset: the step saved last, or the best. InvalidArgument beside `best`.
  std::optional<int64_t> step = std::nullopt;
  // Loads the step that is best by this metric. Steps without it are passed
  // over, and the rule fails if no step has it.
  std::optional<KeepPolicy::BestOptions> best = std::nullopt;
  std::vector<std::string> load = {"*"};
  std::vector<std::string> exclude = {};  // of what `load` chooses
  // Maps the registered name to the name in the step.
  std::map<std::string, std::string> oname = {};
  // By registered name: where slots come from that the step has otherwise.
  std::map<std::string, EvolvePolicy::Table> tables = {};
  // Makes it an error if an item is missing or does not fit, or if a pattern of
  // `load` is no category and matches nothing registered. A pattern of
  // `exclude`, a key of `oname` or of `tables` that matches nothing registered
  // is always an error: without it the rule would load over what it was to
  // leave alone.
  bool strict = true;
  bool hashtable_clear = true;  // false: rows are merged into the tables
  bool cast = false;            // converts items of another dtype
  bool is_dynamic = true;       // false: only while the own store has no step
  bool ignore_error = false;    // an error is only noted in the summary
  bool skip = false;            // the rule does nothing
};

// Returns InvalidArgument naming the rule, the key, what is wrong with it, line
// and column, and for an unknown key the one that may have been meant. A
// duplicate key is an error, too.
absl::StatusOr<std::vector<LoadRule>> ParseLoadSpec(absl::string_view json);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_LOAD_RULE_H_
