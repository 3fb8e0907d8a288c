// Which steps leave the store with the next commit.
//
//   RetentionOptions options;
//   CKPTDB_ASSIGN_OR_RETURN(options.keep, LatestN(3));
//   for (const Fate& fate : PlanRemoval(options, state)) {
//     retire.push_back(fate.step);
//   }
//
// A pure function of its arguments. What it says goes is retired by the write
// batch that publishes the new step, so that no crash comes between.
#ifndef CKPTDB_MANAGER_RETENTION_H_
#define CKPTDB_MANAGER_RETENTION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ckptdb/manager/keep_policy.h"
#include "ckptdb/manager/step_info.h"
#include "ckptdb/manager/verdict.h"

namespace ckptdb {

enum class Removal {
  kNever,            // all steps stay
  kEphemeralOnly,    // permanent steps stay, whatever the policy says
  kAllNonPermanent,  // what the policy does not keep goes as well
};

struct RetentionOptions {
  // Of permanent steps; it is not asked about ephemeral ones. Default: all.
  KeepPolicyPtr keep = KeepAll();

  // So many of the newest ephemeral steps stay: what they are there for is a
  // crash, and a newer one serves that better. At least 0. Default: 1.
  int64_t keep_ephemeral = 1;

  Removal removal = Removal::kAllNonPermanent;
};

struct RetentionState {
  // All steps, ascending, with the one that is about to be committed.
  std::vector<StepInfo> steps;
  // The step that is about to be committed, or was committed last.
  int64_t newest = 0;
  // Steps that must stay, and why: pinned, being read, restored from.
  std::map<int64_t, std::string> held;
  int64_t now_micros = 0;  // since 1970, UTC
};

// What becomes of a step.
struct Fate {
  int64_t step = 0;
  Verdict keep;

  bool operator==(const Fate&) const = default;
};

// One fate for each step, in their order. The newest and the held ones stay
// whatever the options say.
std::vector<Fate> PlanRetention(const RetentionOptions& options,
                                const RetentionState& state);
// Of these the ones that go. Reasons take longer than all the rest: those of
// steps that stay are not written. `warning`: what the policy warns of, unless
// it is null.
std::vector<Fate> PlanRemoval(const RetentionOptions& options,
                              const RetentionState& state,
                              std::string* warning = nullptr);
// Of these the one of a step; none when there is no such step.
std::optional<Fate> PlanFate(const RetentionOptions& options,
                             const RetentionState& state, int64_t step);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_RETENTION_H_
