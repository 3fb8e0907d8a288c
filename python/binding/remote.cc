// SPDX-License-Identifier: Apache-2.0
#include "python/binding/remote.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "python/binding/errors.h"
#include "python/binding/object_stores.h"
#include "python/binding/records.h"
#include "remote/follow_remote.h"
#include "remote/remote_store.h"
#include "remote/step_shipper.h"
#include "remote/urls.h"
#include "schema/status.h"

namespace ckptdb::python {
namespace {

RemoteOptions RemoteOptionsOf(const nb::dict& options) {
  RemoteOptions chosen;
  chosen.deadline = absl::Seconds(nb::cast<double>(options["deadline"]));
  chosen.connections = nb::cast<int>(options["connections"]);
  chosen.bytes_per_second = nb::cast<uint64_t>(options["bytes_per_second"]);
  return chosen;
}

// Runs `call` with the target's object store, without the GIL. A signal
// interrupts it.
template <typename Call>
auto OnTarget(const nb::object& target, const nb::dict& options,
              const Call& call) {
  Interrupt interrupt;
  RemoteOptions chosen = RemoteOptionsOf(options);
  chosen.cancelled = [&interrupt] { return interrupt.Poll(); };
  const std::unique_ptr<ObjectStore> remote = Check(OpenTarget(target, chosen));
  return Check(
      Interruptible(&interrupt, [&] { return call(remote.get(), chosen); }));
}

// A report takes the GIL, so most are left out, but not a call's last one.
std::function<void(uint64_t, uint64_t)> ProgressOf(const nb::dict& options) {
  const nb::object report = options["progress"];
  if (report.is_none()) return {};
  return [held = Hold(report), next = absl::InfinitePast()](
             uint64_t done, uint64_t all) mutable {
    const absl::Time now = absl::Now();
    if (now < next && done < all) return;
    next = now + absl::Milliseconds(50);
    Check(WithPython("progress", [&] { (*held)(done, all); }));
  };
}

nb::dict ToPython(const PushResult& result) {
  nb::dict fields;
  fields["store_uuid"] = result.store_uuid;
  fields["catalog"] = result.catalog;
  fields["epoch"] = result.epoch;
  fields["shipped"] = result.shipped;
  fields["skipped"] = result.skipped;
  fields["data_files"] = result.data_files;
  fields["data_bytes"] = result.data_bytes;
  return fields;
}

nb::dict ToPython(const RemoteStep& step) {
  nb::dict fields;
  AddStep(step, &fields);
  fields["abandoned"] = step.abandoned;
  fields["versions"] = step.versions;
  fields["own_bytes"] = step.own_bytes;
  fields["fetch_bytes"] = step.fetch_bytes;
  return fields;
}

nb::dict ToPython(const RemoteContent& content) {
  nb::dict fields;
  fields["store_uuid"] = content.store_uuid;
  fields["catalog"] = content.catalog;
  fields["epoch"] = content.epoch;
  fields["written"] = SecondsOf(content.written_at_micros);
  nb::list steps;
  for (const RemoteStep& step : content.steps) steps.append(ToPython(step));
  fields["steps"] = steps;
  fields["latest_step"] = StepOrNone(content.latest_step);
  fields["bytes"] = content.bytes;
  fields["dropped_bytes"] = content.dropped_bytes;
  return fields;
}

nb::dict ToPython(const FetchResult& result) {
  nb::dict fields;
  fields["store_uuid"] = result.store_uuid;
  fields["steps"] = result.steps;
  fields["revised"] = result.revised;
  fields["removed"] = result.removed;
  fields["data_files"] = result.data_files;
  fields["data_bytes"] = result.data_bytes;
  return fields;
}

nb::dict ToPython(const VerifyRemoteResult& result) {
  nb::dict fields;
  fields["steps"] = result.steps;
  fields["objects"] = result.objects;
  fields["read_bytes"] = result.read_bytes;
  nb::list damage;
  for (const VerifyRemoteResult::Damage& each : result.damage) {
    nb::dict one;
    one["key"] = each.key;
    one["problem"] = each.problem;
    one["steps"] = each.steps;
    damage.append(one);
  }
  fields["damage"] = damage;
  return fields;
}

nb::dict ToPython(const CollectResult& result) {
  nb::dict fields;
  fields["dropped"] = result.dropped;
  fields["deleted_objects"] = result.deleted_objects;
  fields["deleted_bytes"] = result.deleted_bytes;
  fields["waiting_bytes"] = result.waiting_bytes;
  fields["uploads_error"] = MessageOrNone(result.uploads);
  return fields;
}

nb::dict Push(const std::string& store, const nb::object& target,
              bool take_over, const nb::dict& options) {
  PushOptions push;
  push.take_over = take_over;
  push.progress = ProgressOf(options);
  return ToPython(OnTarget(
      target, options, [&](ObjectStore* remote, const RemoteOptions& chosen) {
        push.cancelled = chosen.cancelled;
        return PushStore(store, remote, push);
      }));
}

nb::dict List(const nb::object& target, const nb::dict& options) {
  return ToPython(
      OnTarget(target, options, [](ObjectStore* remote, const RemoteOptions&) {
        return ListRemote(remote, {.abandoned = true});
      }));
}

nb::dict Fetch(const nb::object& target, const std::string& path,
               std::optional<int64_t> step, bool all, bool update,
               std::optional<uint64_t> keep, const nb::dict& options) {
  FetchOptions fetch;
  fetch.step = step;
  fetch.all = all;
  fetch.update = update;
  fetch.keep = keep;
  fetch.progress = ProgressOf(options);
  return ToPython(OnTarget(
      target, options, [&](ObjectStore* remote, const RemoteOptions& chosen) {
        fetch.connections = chosen.connections;
        fetch.cancelled = chosen.cancelled;
        return FetchStore(remote, path, fetch);
      }));
}

// Returns the first fetch that changed the store.
nb::dict Follow(const nb::object& target, const std::string& path, bool all,
                std::optional<uint64_t> keep, double every,
                const nb::object& on_status, const nb::dict& options) {
  FollowOptions follow;
  follow.fetch.all = all;
  follow.fetch.keep = keep;
  follow.look = absl::Seconds(every);
  follow.on_status = [held = Hold(on_status)](const absl::Status& status) {
    // The function of remote.py only logs.
    WithPython("on_status", [&] {
      if (status.ok()) {
        (*held)(nb::none());
      } else {
        (*held)(std::string(status.message()));
      }
    }).IgnoreError();
  };
  std::optional<FetchResult> found;
  follow.on_fetched = [&found](const FetchResult& fetched) { found = fetched; };
  return ToPython(
      OnTarget(target, options,
               [&](ObjectStore* remote,
                   const RemoteOptions& chosen) -> absl::StatusOr<FetchResult> {
                 follow.fetch.connections = chosen.connections;
                 follow.fetch.cancelled = [&] {
                   return found.has_value() || chosen.cancelled();
                 };
                 CKPTDB_RETURN_IF_ERROR(FollowRemote(remote, path, follow));
                 if (found.has_value()) return *found;
                 return absl::CancelledError("follow: interrupted");
               }));
}

nb::dict Verify(const nb::object& target, bool data, const nb::dict& options) {
  VerifyRemoteOptions verify;
  verify.data = data;
  verify.progress = ProgressOf(options);
  return ToPython(OnTarget(
      target, options, [&](ObjectStore* remote, const RemoteOptions& chosen) {
        verify.connections = chosen.connections;
        verify.cancelled = chosen.cancelled;
        return VerifyRemote(remote, verify);
      }));
}

nb::dict Collect(const nb::object& target, std::optional<uint64_t> keep,
                 double grace, const nb::dict& options) {
  CollectOptions collect;
  collect.keep = keep;
  collect.grace = absl::Seconds(grace);
  return ToPython(OnTarget(
      target, options, [&](ObjectStore* remote, const RemoteOptions& chosen) {
        collect.cancelled = chosen.cancelled;
        return CollectRemote(remote, collect);
      }));
}

class PyShipper {
 public:
  PyShipper(const std::string& store, const nb::object& target, bool take_over,
            const nb::object& on_shipped, const nb::dict& options) {
    ShipperOptions shipping;
    shipping.remote = RemoteOptionsOf(options);
    shipping.take_over = take_over;
    shipping.look = absl::Seconds(nb::cast<double>(options["look"]));
    shipping.on_shipped = [held = Hold(on_shipped)](const PushResult& pushed) {
      // The function of remote.py logs what a caller's raises.
      WithPython("on_shipped", [&] {
        (*held)(ToPython(pushed));
      }).IgnoreError();
    };
    shipping.remote.cancelled = [stopped = stopped_] {
      return stopped->load();
    };
    if (nb::isinstance<nb::str>(target)) {
      shipper_ = Check(
          StepShipper::Start(store, nb::cast<std::string>(target), shipping));
    } else {
      shipper_ = Check(internal::StartShipper(
          store, Check(OpenTarget(target, shipping.remote)), shipping));
    }
  }
  ~PyShipper() {
    if (!process_.IsThis()) {
      // The thread is the parent's: what it uses stays.
      (void)new (std::nothrow)
          std::shared_ptr<StepShipper>(std::move(shipper_));
      return;
    }
    Close();
  }

  void Close() {
    if (shipper_ == nullptr) return;
    process_.Check();
    *stopped_ = true;
    const ReleaseGil release;
    shipper_.reset();
  }

  nb::dict Statistics() const {
    const std::shared_ptr<StepShipper> shipper = Get();
    return ToDict(shipper->statistics());
  }

  // Waits in turns, each longer than the one before, to notice signals.
  void WaitShipped(int64_t step, std::optional<double> timeout) const {
    const absl::Time deadline = timeout.has_value()
                                    ? absl::Now() + absl::Seconds(*timeout)
                                    : absl::InfiniteFuture();
    Interrupt interrupt;
    absl::Duration turn = absl::Milliseconds(250);
    while (true) {
      const absl::Time until = std::min(deadline, absl::Now() + turn);
      const absl::Status status = Interruptible(&interrupt, [&] {
        absl::Status waited = Get()->WaitShipped(step, until);
        interrupt.Poll();
        return waited;
      });
      if (!absl::IsDeadlineExceeded(status) || until == deadline) {
        return Check(status);
      }
      turn = std::min(2 * turn, absl::Seconds(4));
    }
  }

 private:
  std::shared_ptr<StepShipper> Get() const {
    process_.Check();
    if (shipper_ != nullptr) return shipper_;
    throw StatusError(absl::FailedPreconditionError("the shipper is closed"));
  }

  const Process process_{};
  const std::shared_ptr<std::atomic<bool>> stopped_ =
      std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<StepShipper> shipper_;
};

}  // namespace

void BindRemote(nb::module_& module) {
  UrlOptions urls;
  urls.remote.cancelled = &SignalPending;
  internal::EnableUrlsWith(&OpenUrlTarget, urls);
  module.def("remote_push", &Push);
  module.def("remote_ls", &List);
  module.def("remote_fetch", &Fetch);
  module.def("remote_follow", &Follow);
  module.def("remote_verify", &Verify);
  module.def("remote_gc", &Collect);
  nb::class_<PyShipper>(module, "StepShipper")
      .def(nb::init<const std::string&, const nb::object&, bool,
                    const nb::object&, const nb::dict&>())
      .def("close", &PyShipper::Close)
      .def("statistics", &PyShipper::Statistics)
      .def("wait_shipped", &PyShipper::WaitShipped);
}

}  // namespace ckptdb::python
