// What a restore or a load has done with each item.
#ifndef CKPTDB_MANAGER_LOAD_SUMMARY_H_
#define CKPTDB_MANAGER_LOAD_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ckptdb/schema/types.h"

namespace ckptdb {

// The results of the rules of a load.
struct LoadSummary {
  // A slot or tensor that is cast because its dtype in the step differs.
  struct DTypeCast {
    std::string slot = {};  // of a table; empty for a tensor
    DType from = DType::kF32;
    DType to = DType::kF32;
  };

  // A slot that is not loaded as it is in the step.
  struct SlotChange {
    enum class Kind {
      kRenamed,    // from `source`
      kConverted,  // from `source`, by EvolvePolicy::Table::Convert
      kFilled,     // by EvolvePolicy::Table::Fill
      kDropped,    // `source` is in the step and not registered
    };
    Kind kind = Kind::kDropped;
    std::string slot;    // as registered; empty if kDropped
    std::string source;  // its name in the step; empty if kFilled
  };

  // An item that a rule loads, or would load.
  struct LoadedItem {
    enum class Outcome {
      kLoaded,
      kMissing,       // it is not in the step, and stays as it is
      kMisfit,        // it does not fit, and stays as it is
      kPartlyLoaded,  // loading it failed on this rank, and may have changed it
      kNotLoaded,     // the rule failed before it; it is as it was
    };
    std::string category;
    std::string name;    // as registered
    std::string source;  // its name in the step
    Outcome outcome = Outcome::kLoaded;
    std::string detail;  // of a misfit: "expected f32 [4], got f32 [8]"
    uint64_t bytes = 0;  // of all ranks, as the step holds them; a bound
    uint64_t rows = 0;   // of tables; a bound
    // False if a table may have fewer rows, and bytes, as that of a delta step,
    // where rows that were written again count each time.
    bool exact = true;
    std::vector<DTypeCast> casts = {};
    std::vector<SlotChange> slot_changes = {};
  };

  // A pattern or key of a rule that matches nothing that is registered.
  struct UnmatchedPattern {
    std::string pattern;
    std::string nearest;  // what may have been meant: a name or a category
    // "load pattern", "exclude pattern", "oname key", "tables key", or "slot of
    // table \"user\"".
    std::string kind = "load pattern";
  };

  // The result of a rule.
  struct LoadedRule {
    std::string path;
    std::optional<int64_t> step;  // unset: the rule was skipped, or no step
    std::vector<LoadedItem> items;
    // The names, as stored, of items in the step that belong to no registered
    // item, whether or not the rule chooses that.
    std::vector<std::string> unexpected;
    std::vector<UnmatchedPattern> unmatched;
    // The reason why nothing was loaded, or the error that was ignored. Empty
    // if there is neither.
    std::string note;

    // Return the sums over the items that are loaded.
    uint64_t bytes() const;
    uint64_t rows() const;
  };

  std::vector<LoadedRule> rules;

  uint64_t bytes() const;
  uint64_t rows() const;
  // Returns a text for people, a line for each item.
  std::string ToString() const;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_LOAD_SUMMARY_H_
