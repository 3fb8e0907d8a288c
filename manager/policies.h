// Policies that say when a step is saved and which steps are kept.
//
//   ManagerOptions options{
//       .path = "checkpoints",
//       .schedule = {.permanent = SaveEveryNSteps(1000) | SaveOnPreemption(),
//                    .ephemeral = SaveEveryNSeconds(300)},
//       .retention = {.keep = LatestN(3) | BestN("auc", 2)}};
//
// A policy is an immutable value: it is cheap to copy, and every thread may use
// it. Functions with names that begin with Save return policies that save;
// the others return policies that keep. Operators compose policies of the same
// kind: `a | b` when one of them says yes, `a & b` when both do, `!a` when `a`
// says no.
//
// A policy is a pure function, the same answer to the same question; so must be
// a function that a caller gives to SaveIf, KeepIf or KeepFunction, and every
// thread may call it.
//
// Errors. A policy that is made from a value out of its bounds carries
// InvalidArgument, which names the value and what is allowed; a composition
// carries the first error of its operands. CheckpointManager::Open returns that
// error, and status() tells it. Such a policy saves no step and keeps all.
//
// Policies only say what they would keep. Steps that are pinned, being read,
// needed by other steps, or the newest stay in any case: see RetentionOptions.
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
#include "ckptdb/schema/types.h"

namespace ckptdb {

namespace internal {
struct KeepRule;
struct SaveRule;
}  // namespace internal

// The properties of a step that policies know.
struct StepInfo {
  int64_t step = 0;
  int64_t time_micros = 0;  // when its save began, since 1970, UTC
  bool ephemeral = false;
  Metrics metrics = {};
};

// Says whether a step is saved.
class SavePolicy {
 public:
  // The properties of a training that policies that save know before a step.
  struct Context {
    int64_t step = 0;        // the step that may be saved
    int64_t now_micros = 0;  // since 1970, UTC
    // The newest step, committed or being saved.
    std::optional<StepInfo> last = std::nullopt;
    bool saving = false;     // a save is in progress
    bool preempted = false;  // this machine will soon be taken away
    Metrics metrics = {};    // of the step that may be saved
    // Returns all committed steps in ascending order, except those that are
    // quarantined or given up. It reads the store, and may be called only while
    // the policy decides. Default: none.
    std::function<std::vector<StepInfo>()> history = [] {
      return std::vector<StepInfo>();
    };
  };

  enum class Kind { kNone, kPermanent, kEphemeral };
  // The decision of a schedule about a step, and the reason: "step 1100 is a
  // multiple of 100".
  struct Decision {
    Kind kind = Kind::kNone;
    std::string reason;

    bool operator==(const Decision&) const = default;
  };

  // Makes no policy, which saves no step.
  SavePolicy() = default;
  bool has_value() const { return rule_ != nullptr; }

  // Returns InvalidArgument if the policy was made from a value out of its
  // bounds.
  absl::Status status() const;

  // These are for the library, which alone knows what a rule is.
  explicit SavePolicy(std::shared_ptr<const internal::SaveRule> rule)
      : rule_(std::move(rule)) {}
  const internal::SaveRule* rule() const { return rule_.get(); }

 private:
  std::shared_ptr<const internal::SaveRule> rule_;
};

// Returns "none", "permanent" or "ephemeral".
absl::string_view SaveKindName(SavePolicy::Kind kind);

// Saves multiples of `steps`, which is at least 1.
SavePolicy SaveEveryNSteps(int64_t steps);
// Saves when a multiple of `steps`, which is at least 1, was reached since the
// newest step: for a trainer that counts several steps at a time and hits no
// multiple. Before any step is saved, saves step 0 and those from `steps` on.
SavePolicy SaveAtOrAfterEveryNSteps(int64_t steps);
// Saves these steps, each at least 0. An empty list saves none, which says that
// the trainer saves by itself.
SavePolicy SaveAtSteps(const std::vector<int64_t>& steps);
// Saves when `seconds` have passed since the save of the newest step began, and
// when there is no step. A clock that went back counts as passed. `seconds` is
// above 0 and at most 1e11.
SavePolicy SaveEveryNSeconds(double seconds);
// Saves as soon as the save before is done, but not sooner than `seconds` after
// it began; `seconds` is from 0 to 1e11.
SavePolicy SaveContinuously(double seconds);
// Saves when there is no step yet.
SavePolicy SaveInitially();
// Saves the step at which the training ends because of a preemption.
SavePolicy SaveOnPreemption();
// Saves when the function returns true. `name` is not empty, and appears in the
// reasons.
SavePolicy SaveIf(
    std::string name,
    std::function<bool(const SavePolicy::Context& context)> function);

SavePolicy operator|(const SavePolicy& left, const SavePolicy& right);
SavePolicy operator&(const SavePolicy& left, const SavePolicy& right);
SavePolicy operator!(const SavePolicy& policy);

// Says whether a step is saved, and as what: permanent steps by one policy,
// ephemeral ones between them by another. A schedule never saves a step that is
// not after the newest one, as the trainer was set back.
struct SaveSchedule {
  // Default: none, so that no step is saved as permanent.
  SavePolicy permanent = {};

  // A step that both policies want is permanent. Default: none, so that no step
  // is saved as ephemeral.
  SavePolicy ephemeral = {};

  // The least number of steps between an ephemeral save and the newest step
  // before it, of either kind: for policies that know of time, or of a veto
  // that ended. At least 0. Default: 0.
  int64_t ephemeral_cooldown_steps = 0;

  // Called before an ephemeral save; returns why there must be none now, or an
  // empty string. Default: none.
  std::function<std::string(int64_t step)> veto_ephemeral = {};
};

// Says which of all steps of a store are kept.
class KeepPolicy {
 public:
  // Orders steps by a metric. NaN is worse than any number, a step without the
  // metric is worse than NaN, and of equal steps the later is the better.
  struct BestOptions {
    std::string metric = {};  // not empty
    // The number of steps that BestN keeps. At least 0. Default: 1.
    int64_t count = 1;
    // The lowest value is the best, as of a loss. Default: false.
    bool lower_is_better = false;
    // BestN keeps steps that have no such metric, beside the best. Metrics may
    // come late; where none ever comes all steps are kept, which BestN warns
    // of. Default: true.
    bool keep_without_metric = true;
  };

  // Makes no policy, which keeps all steps.
  KeepPolicy() = default;
  bool has_value() const { return rule_ != nullptr; }

  // Returns InvalidArgument if the policy was made from a value out of its
  // bounds.
  absl::Status status() const;

  // These are for the library, which alone knows what a rule is.
  explicit KeepPolicy(std::shared_ptr<const internal::KeepRule> rule)
      : rule_(std::move(rule)) {}
  const internal::KeepRule* rule() const { return rule_.get(); }

 private:
  std::shared_ptr<const internal::KeepRule> rule_;
};

// Keeps all steps.
KeepPolicy KeepAll();
// Keeps the `count` highest steps; `count` is at least 0.
KeepPolicy LatestN(int64_t count);
// Keeps the `count` highest of the steps that `policy` keeps; `count` is at
// least 0.
KeepPolicy LatestOf(const KeepPolicy& policy, int64_t count);
// Keeps these steps, each at least 0.
KeepPolicy KeepSteps(const std::vector<int64_t>& steps);
// Keeps multiples of `steps`, which is at least 1.
KeepPolicy KeepEveryNSteps(int64_t steps);
// Keeps for each multiple of `steps`, which is at least 1, the step nearest to
// it; of two the earlier. So one step stays in about `steps` steps also where
// no step is a multiple. The first step and the last one stay: nothing is
// nearer to what is before and after them.
KeepPolicy KeepNearestToEveryNSteps(int64_t steps);
// Keeps the first step, and then each whose save began `seconds` or more after
// that of the last one that is kept so. A clock that went back counts as
// passed. `seconds` is above 0 and at most 1e11.
KeepPolicy KeepEveryNSeconds(double seconds);
// Keeps steps whose save began no longer than `seconds` ago; one from the
// future is not older. `seconds` is from 0 to 1e11.
KeepPolicy KeepForNSeconds(double seconds);
// Keeps the `count` steps that are best by a metric, higher values first.
// Warns when a step other than the last has no such metric.
KeepPolicy BestN(std::string metric, int64_t count);
KeepPolicy BestN(KeepPolicy::BestOptions options);
// Keeps steps for which the function returns true. `name` is not empty, and
// appears in the reasons.
KeepPolicy KeepIf(std::string name,
                  std::function<bool(const StepInfo& step)> function);
// Keeps what the function says of permanent steps, which ascend: one answer for
// each. It is called once for the steps of the training, and once more for
// those of other branches, if there are any: see RetentionOptions. Steps that
// it has no answer for are kept, with a warning.
KeepPolicy KeepFunction(
    std::string name,
    std::function<std::vector<bool>(absl::Span<const StepInfo> steps,
                                    int64_t now_micros)>
        function);

KeepPolicy operator|(const KeepPolicy& left, const KeepPolicy& right);
KeepPolicy operator&(const KeepPolicy& left, const KeepPolicy& right);
KeepPolicy operator!(const KeepPolicy& policy);

// Returns the best of the steps as Store::Steps and Reader::Steps list them,
// except quarantined ones. Returns NotFound if no step has the metric.
absl::StatusOr<StepRecord> BestStep(absl::Span<const StepRecord> steps,
                                    const KeepPolicy::BestOptions& options);

// Says which steps are removed with the next commit: the write batch that
// publishes the new step retires them, so that no crash comes between. The
// newest step, pinned ones and the one that the training began from stay
// whatever the options say.
//
// The policy is asked about the steps that the training went through. Steps of
// other branches, which were kept or pinned when an older step was restored,
// take no place of these: the policy is asked about all of them together, in a
// call of its own.
struct RetentionOptions {
  enum class Removal {
    kNever,            // all steps stay
    kEphemeralOnly,    // permanent steps stay, whatever the policy says
    kAllNonPermanent,  // what the policy does not keep goes as well
  };

  // The policy of permanent steps alone. Default: none, so that all stay.
  KeepPolicy keep = {};

  // The number of the newest ephemeral steps that stay: they are there for a
  // crash, which a newer one serves better. At least 0. Default: 1.
  int64_t keep_ephemeral = 1;

  Removal removal = Removal::kAllNonPermanent;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_POLICIES_H_
