// What to load from where: several stores laid over one another.
//
//   [{"path": "base", "load": ["sparse", "dense"], "exclude": ["head.*"]},
//    {"path": "tuned", "step": 7000, "load": ["user"],
//     "oname": {"user": "member"}, "hashtable_clear": false}]
//
//   CKPTDB_ASSIGN_OR_RETURN(std::vector<LoadRule> rules, ParseLoadSpec(json));
//   CKPTDB_ASSIGN_OR_RETURN(LoadSummary dry, manager->Load(rules,
//                                                          /*dry_run=*/true));
//
// A rule takes from one step what its patterns choose of what is registered;
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
// A name chooses a table with all its slots.
//
// What has another dtype in the step than registered does not fit, unless the
// rule says `cast`: then a tensor of the same shape, and a slot of the same
// name and number of elements, is converted as schema/cast.h has it. Floats
// become no integers; that does not fit. A number that an integer dtype does
// not have is OutOfRange naming it and its place, found while it is loaded:
// what was loaded before it stays, and as after any error of a load the model
// must not be used before one has succeeded. A cast takes memory besides the
// model's: of a tensor up to 8 MiB, and of a table the rows of a batch in the
// new dtype, for each of ReadOptions::threads.
#ifndef CKPTDB_MANAGER_LOAD_SPEC_H_
#define CKPTDB_MANAGER_LOAD_SPEC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/schema/dtype.h"

namespace ckptdb {

struct LoadRule {
  std::string path = {};                       // empty: the manager's own store
  std::optional<int64_t> step = std::nullopt;  // none: the one saved last
  std::vector<std::string> load = {"*"};
  std::vector<std::string> exclude = {};  // of what `load` chooses
  // By registered name, the name in the step.
  std::map<std::string, std::string> oname = {};
  // What is missing or does not fit is an error, and so is a pattern of `load`
  // that is no category, and matches nothing registered.
  bool strict = true;
  bool hashtable_clear = true;  // else rows are merged into the tables
  bool cast = false;            // another dtype is converted, where it can be
  bool is_dynamic = true;       // off: only while the own store has no step
  bool ignore_error = false;    // an error stands in the summary alone
  bool skip = false;            // the rule does nothing
};

// InvalidArgument naming the rule, the key, what is wrong with it, line and
// column; for an unknown key, with the one that may have been meant.
absl::StatusOr<std::vector<LoadRule>> ParseLoadSpec(absl::string_view json);

// What has another dtype in the step than it gets.
struct DTypeCast {
  std::string slot = {};  // of a table; of a tensor empty
  DType from = DType::kF32;
  DType to = DType::kF32;
};

// One thing that a rule loads, or would.
struct LoadedItem {
  enum class Outcome { kLoaded, kMissing, kMisfit };
  std::string category;
  std::string name;    // as registered
  std::string source;  // its name in the step
  Outcome outcome = Outcome::kLoaded;
  std::string detail;  // of a misfit: "expected f32 [4], got f32 [8]"
  uint64_t bytes = 0;  // of all ranks, as the step holds them; a bound
  uint64_t rows = 0;   // of tables; a bound
  std::vector<DTypeCast> casts = {};
};

// A pattern of LoadRule::load that chooses nothing of what is registered.
struct UnmatchedPattern {
  std::string pattern;
  std::string nearest;  // what may have been meant: a name or a category
};

// What became of a rule.
struct LoadedRule {
  std::string path;
  std::optional<int64_t> step;  // none: skipped, or not there
  std::vector<LoadedItem> items;
  std::vector<std::string> unexpected;  // in the step, and nobody's
  std::vector<UnmatchedPattern> unmatched;
  // Why nothing was loaded, or the error that was ignored; empty: neither.
  std::string note;

  // Of what is loaded.
  uint64_t bytes() const;
  uint64_t rows() const;
};

struct LoadSummary {
  std::vector<LoadedRule> rules;

  uint64_t bytes() const;
  uint64_t rows() const;
  // For people, a line for each thing.
  std::string ToString() const;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_LOAD_SPEC_H_
