// SPDX-License-Identifier: Apache-2.0
// Policies that decide when a step is saved and which steps are kept.
//
//   ManagerOptions options{
//       .path = "checkpoints",
//       .schedule = {.permanent = SaveEveryNSteps(1000) | SaveOnPreemption(),
//                    .ephemeral = SaveEveryNSeconds(300)},
//       .retention = {.keep = LatestN(3) | BestN("auc", 2)}};
//
// A policy is an immutable value, cheap to copy, and thread-safe; `a | b`, `a &
// b` and `!a` compose policies of one class. It is a pure function, as those
// passed to SaveIf, KeepIf and KeepFunction must be; any thread may call them.
// A policy made from a value out of bounds carries an InvalidArgument, which
// status() and CheckpointManager::Open return; it saves no step, and keeps all.
#ifndef CKPTDB_MANAGER_POLICIES_H_
#define CKPTDB_MANAGER_POLICIES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/types.h"

namespace ckptdb {

namespace internal {
struct KeepRule;
struct SaveRule;
}  // namespace internal

// What policies know about a step.
struct StepInfo {
  int64_t step = 0;
  int64_t time_micros = 0;  // when its save began, since 1970, UTC
  bool ephemeral = false;
  Metrics metrics = {};
};

// Decides whether a step is saved.
class SavePolicy {
 public:
  // What a policy knows when it decides on a step.
  struct Context {
    int64_t step = 0;        // the step that may be saved
    int64_t now_micros = 0;  // since 1970, UTC
    // Committed or being saved; permanent for SaveSchedule::permanent.
    std::optional<StepInfo> last = std::nullopt;
    bool saving = false;     // a save is in progress
    bool preempted = false;  // this machine will soon be taken away
    Metrics metrics = {};    // of the step that may be saved
    // Returns the committed steps in ascending order, without quarantined and
    // abandoned ones. Call it only while the policy decides.
    std::function<std::vector<StepInfo>()> history = [] {
      return std::vector<StepInfo>();
    };
  };

  enum class Kind { kNone, kPermanent, kEphemeral };
  // With a reason such as "step 1100 is a multiple of 100".
  struct Decision {
    Kind kind = Kind::kNone;
    std::string reason;
    bool operator==(const Decision&) const = default;
  };

  // Saves no step.
  SavePolicy() = default;
  bool has_value() const { return rule_ != nullptr; }

  // Returns InvalidArgument if the policy was made from a value out of bounds.
  absl::Status status() const;

  // For the library.
  explicit SavePolicy(std::shared_ptr<const internal::SaveRule> rule)
      : rule_(std::move(rule)) {}
  const internal::SaveRule* rule() const { return rule_.get(); }

 private:
  std::shared_ptr<const internal::SaveRule> rule_;
};

// "none", "permanent" or "ephemeral".
absl::string_view SaveKindName(SavePolicy::Kind kind);

// Saves multiples of `steps`, at least 1.
SavePolicy SaveEveryNSteps(int64_t steps);
// Saves when a multiple of `steps`, at least 1, was reached since the newest
// step, for trainers that advance several steps at a time. Without a step,
// saves step 0 and steps from `steps` on.
SavePolicy SaveAtOrAfterEveryNSteps(int64_t steps);
// Saves these steps, each at least 0. If empty, only the trainer saves.
SavePolicy SaveAtSteps(const std::vector<int64_t>& steps);
// Saves when `seconds`, above 0 and at most 1e11, have passed since the newest
// step's save began, if the clock was set back, or if the store has no step.
SavePolicy SaveEveryNSeconds(double seconds);
// Saves as soon as the previous save is done, but not within `seconds`, from 0
// to 1e11, after it began.
SavePolicy SaveContinuously(double seconds);
// Saves if the store has no step yet.
SavePolicy SaveInitially();
// Saves the step at which a preemption ends the training.
SavePolicy SaveOnPreemption();
// Saves when the function returns true. `name` appears in reasons.
SavePolicy SaveIf(
    std::string name,
    std::function<bool(const SavePolicy::Context& context)> function);

SavePolicy operator|(const SavePolicy& left, const SavePolicy& right);
SavePolicy operator&(const SavePolicy& left, const SavePolicy& right);
SavePolicy operator!(const SavePolicy& policy);

// When steps are saved: as permanent or, between permanent steps, as ephemeral.
// Never saves a step at or before the newest one.
struct SaveSchedule {
  // Counts from permanent steps only. Default: no step is saved.
  SavePolicy permanent = {};
  // A step that both policies save is permanent.
  SavePolicy ephemeral = {};
  // The minimum number of steps between an ephemeral save and the step before
  // it, of either kind.
  int64_t ephemeral_cooldown_steps = 0;
  // Called before an ephemeral save; returns why it must not happen now, or an
  // empty string.
  std::function<std::string(int64_t step)> veto_ephemeral = {};
};

// Decides which steps of a store are kept.
class KeepPolicy {
 public:
  // Orders steps by a metric. NaN is worse than any number, a missing metric is
  // worse than NaN, and of equal steps the later is better.
  struct BestOptions {
    std::string metric = {};  // not empty
    // The number of steps that BestN keeps. At least 0.
    int64_t count = 1;
    // True for a loss. Default: false.
    bool lower_is_better = false;
    // BestN also keeps steps without the metric, which may be posted late. If
    // it never is, all steps are kept, and BestN warns.
    bool keep_without_metric = true;
  };

  // Keeps all steps.
  KeepPolicy() = default;
  bool has_value() const { return rule_ != nullptr; }

  // Returns InvalidArgument if the policy was made from a value out of bounds.
  absl::Status status() const;

  // For the library.
  explicit KeepPolicy(std::shared_ptr<const internal::KeepRule> rule)
      : rule_(std::move(rule)) {}
  const internal::KeepRule* rule() const { return rule_.get(); }

 private:
  std::shared_ptr<const internal::KeepRule> rule_;
};

// Keeps all steps.
KeepPolicy KeepAll();
// Keeps the `count` highest steps. `count` is at least 0.
KeepPolicy LatestN(int64_t count);
// Keeps the `count` highest of the steps that `policy` keeps.
KeepPolicy LatestOf(const KeepPolicy& policy, int64_t count);
// Keeps these steps, each at least 0.
KeepPolicy KeepSteps(const std::vector<int64_t>& steps);
// Keeps multiples of `steps`, at least 1.
KeepPolicy KeepEveryNSteps(int64_t steps);
// Keeps the step nearest to each multiple of `steps`, at least 1; of two
// equally near steps, the earlier one. Also keeps the first and the last step.
KeepPolicy KeepNearestToEveryNSteps(int64_t steps);
// Keeps the first step, then each whose save began at least `seconds`, above 0
// and at most 1e11, after the last one kept, or before it.
KeepPolicy KeepEveryNSeconds(double seconds);
// Keeps steps whose save began at most `seconds` ago, from 0 to 1e11, or in the
// future.
KeepPolicy KeepForNSeconds(double seconds);
// Keeps the `count` best steps by a metric, higher values first. Warns when a
// step other than the last lacks the metric.
KeepPolicy BestN(std::string metric, int64_t count);
KeepPolicy BestN(KeepPolicy::BestOptions options);
// Keeps steps for which the function returns true.
KeepPolicy KeepIf(std::string name,
                  std::function<bool(const StepInfo& step)> function);
// The function receives the permanent steps in ascending order, and returns for
// each whether to keep it; steps missing from its result are kept, with a
// warning. It is called once for the training's own steps, and once for steps
// of other branches, if any.
KeepPolicy KeepFunction(
    std::string name,
    std::function<std::vector<bool>(absl::Span<const StepInfo> steps,
                                    int64_t now_micros)>
        function);

KeepPolicy operator|(const KeepPolicy& left, const KeepPolicy& right);
KeepPolicy operator&(const KeepPolicy& left, const KeepPolicy& right);
KeepPolicy operator!(const KeepPolicy& policy);

// Returns the best of these steps that is not quarantined, or NotFound if no
// step has the metric.
absl::StatusOr<StepRecord> BestStep(absl::Span<const StepRecord> steps,
                                    const KeepPolicy::BestOptions& options);

// Which steps the write batch of the next commit removes. The newest step,
// pinned steps, the one that the training began from and, as configured, those
// not shipped yet always stay, and data that is read or needed. `keep` decides
// separately on steps of the training's lineage and on those of other branches,
// which were kept when an older step was restored.
struct RetentionOptions {
  enum class Removal {
    kNever,            // all steps stay
    kEphemeralOnly,    // permanent steps stay, regardless of the policy
    kAllNonPermanent,  // steps that the policy does not keep are removed too
  };

  // Decides on permanent steps. Default: all stay.
  KeepPolicy keep = {};
  // The number of newest ephemeral steps that stay. At least 0.
  int64_t keep_ephemeral = 1;
  Removal removal = Removal::kAllNonPermanent;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_POLICIES_H_
