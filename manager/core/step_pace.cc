// SPDX-License-Identifier: Apache-2.0
#include "manager/core/step_pace.h"

#include <algorithm>
#include <utility>

namespace ckptdb::internal {

// The time before the first meeting is unknown.
void StepPace::OnMeeting(Clock::time_point now) {
  const int64_t steps = std::exchange(counted_, 0);
  if (steps == 0 || !ended_.has_value()) return;
  before_ = std::exchange(last_, {steps, absl::FromChrono(now - *ended_)});
}

int64_t StepPace::StepsWithin(absl::Duration interval, int64_t planned) const {
  const int64_t measured = std::max({last_.steps, before_.steps, planned});
  const int64_t most = std::min(kMaxSteps, kGrowth * measured);
  const absl::Duration step = std::max(last_.per_step(), before_.per_step());
  if (step <= absl::ZeroDuration()) return std::max<int64_t>(most, 1);
  const double fits = absl::FDivDuration(interval, step);
  return fits < static_cast<double>(most)
             ? std::max<int64_t>(static_cast<int64_t>(fits), 1)
             : std::max<int64_t>(most, 1);
}

}  // namespace ckptdb::internal
