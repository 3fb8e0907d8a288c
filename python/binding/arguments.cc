// SPDX-License-Identifier: Apache-2.0
#include "python/binding/arguments.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "manager/policies.h"
#include "python/binding/errors.h"
#include "python/binding/reader.h"
#include "python/binding/records.h"
#include "python/binding/tables.h"

namespace ckptdb::python {
namespace {

// A function of the trainer without a result; its exception is thrown, and the
// library returns it from a later call.
template <typename... Args>
auto Callback(const std::string& name, const nb::object& function) {
  return [name, held = Hold(function)](const Args&... args) {
    Check(WithPython(name, [&] { (*held)(args...); }));
  };
}
template <typename Report>
auto ReportCallback(const std::string& name, const nb::object& function) {
  return [name, held = Hold(function)](const Report& report) {
    Check(WithPython(name, [&] { (*held)(ToDict(report)); }));
  };
}

// Shows the progress of reads or of staging. A report takes the GIL, so most
// are left out, but not a call's last one.
std::function<void(uint64_t, uint64_t)> Progress(const std::string& name,
                                                 const nb::object& function) {
  return [name, held = Hold(function), next = absl::InfinitePast()](
             uint64_t done, uint64_t all) mutable {
    const absl::Time now = absl::Now();
    if (now < next && done < all) return;
    next = now + absl::Milliseconds(50);
    Check(WithPython(name, [&] { (*held)(done, all); }));
  };
}

// The functions of an evolve policy: docs of ckptdb._evolve.
void SetFunctions(const nb::list& functions, EvolvePolicy* evolve) {
  for (const nb::handle each : functions) {
    const auto table = nb::cast<std::string>(each[0]);
    const auto slot = nb::cast<std::string>(each[1]);
    const auto kind = nb::cast<std::string>(each[2]);
    const PyRef function = Hold(nb::borrow(each[3]));
    const auto row_bytes = nb::cast<uint64_t>(each[4]);
    const auto put = [kind, row_bytes](size_t rows, const nb::object& result,
                                       char* out) {
      const auto bytes = nb::cast<nb::bytes>(result);
      if (bytes.size() != rows * row_bytes) {
        throw StatusError(absl::InternalError(
            absl::StrCat(kind, " returned ", bytes.size(), " bytes, expected ",
                         rows * row_bytes)));
      }
      std::memcpy(out, bytes.c_str(), bytes.size());
    };
    const auto pack = [](absl::Span<const int64_t> ids) {
      return nb::bytes(reinterpret_cast<const char*>(ids.data()),
                       ids.size() * sizeof(int64_t));
    };
    EvolvePolicy::Table& policy = evolve->tables[table];
    if (kind == "fill_with") {
      policy.fill_with[slot] = [=](absl::Span<const int64_t> ids, char* rows) {
        return WithPython(
            kind, [&] { put(ids.size(), (*function)(pack(ids)), rows); });
      };
      continue;
    }
    policy.convert[slot] = [=](const Slot& from, absl::Span<const int64_t> ids,
                               const char* rows, char* converted) {
      return WithPython(kind, [&] {
        put(ids.size(),
            (*function)(pack(ids), std::string(DTypeName(from.dtype)),
                        nb::bytes(rows, ids.size() * from.row_bytes())),
            converted);
      });
    };
  }
}

}  // namespace

void SetObjects(const nb::dict& objects, ManagerOptions* options) {
  for (const auto& [key, value] : objects) {
    const auto name = nb::cast<std::string>(key);
    const nb::object object = nb::borrow(value);
    if (name == "save") {
      options->schedule.permanent = nb::cast<SavePolicy>(object);
    } else if (name == "ephemeral") {
      options->schedule.ephemeral = nb::cast<SavePolicy>(object);
    } else if (name == "keep") {
      options->retention.keep = nb::cast<KeepPolicy>(object);
    } else if (name == "veto_ephemeral") {
      options->schedule.veto_ephemeral = [held = Hold(object)](int64_t step) {
        std::string reason;
        Check(WithPython("veto_ephemeral", [&] {
          const nb::object result = (*held)(step);
          if (!result.is_none()) reason = nb::cast<std::string>(result);
        }));
        return reason;
      };
    } else if (name == "now") {
      options->observers.now_micros = [held = Hold(object)] {
        double now = 0;
        Check(WithPython("now", [&] { now = nb::cast<double>((*held)()); }));
        return static_cast<int64_t>(now * 1e6);
      };
    } else if (name == "on_warning") {
      options->observers.on_warning = Callback<std::string>(name, object);
    } else if (name == "on_saved") {
      options->observers.on_saved = ReportCallback<SaveReport>(name, object);
    } else if (name == "on_restored") {
      options->observers.on_restored =
          ReportCallback<RestoreReport>(name, object);
    } else if (name == "on_shipped") {
      options->observers.on_shipped = ReportCallback<ShipReport>(name, object);
    } else if (name == "on_deleted") {
      options->observers.on_deleted = Callback<int64_t>(name, object);
    } else if (name == "store") {
      const StoreOptions store = StoreOptionsOf(nb::cast<nb::dict>(object));
      const StoreOptions configured = options->store;
      options->store = store;
      options->store.background_sweep = configured.background_sweep;
      options->store.background_fold = configured.background_fold;
      options->store.fold_bounds = configured.fold_bounds;
    } else if (name == "save_progress") {
      options->store.progress = Progress(name, object);
    } else if (name == "read_progress") {
      options->restore.read.progress = Progress(name, object);
    } else if (name == "shard") {
      const auto [rank, world_size] =
          nb::cast<std::pair<uint32_t, uint32_t>>(object);
      options->follow.shard = ModelState::Shard{rank, world_size};
    } else if (name == "evolve_functions") {
      SetFunctions(nb::cast<nb::list>(object),
                   &options->restore.evolve.emplace(
                       options->restore.evolve.value_or(EvolvePolicy())));
    } else if (name == "sharding") {
      options->ranks.sharding = ShardingOf(object);
    } else if (name == "read_threads") {
      options->restore.read.threads = nb::cast<int>(object);
    } else {
      throw StatusError(
          absl::InternalError(absl::StrCat("no option \"", name, "\"")));
    }
  }
}

RestoreRequest RequestOf(const nb::dict& fields) {
  RestoreRequest request;
  for (const auto& [key, value] : fields) {
    const auto name = nb::cast<std::string>(key);
    if (name == "step") {
      request.step = nb::cast<int64_t>(value);
    } else if (name == "best") {
      request.best = nb::cast<bool>(value);
    } else if (name == "best_by") {
      request.best_by =
          KeepPolicy::BestOptions{.metric = nb::cast<std::string>(value)};
    } else if (name == "path") {
      request.path = nb::cast<std::string>(value);
    } else if (name == "merge") {
      if (nb::cast<bool>(value)) request.mode = LiveTable::RestoreMode::kMerge;
    } else if (name == "verify") {
      request.verify = nb::cast<bool>(value);
    } else if (name == "fall_back") {
      request.fall_back = nb::cast<bool>(value);
    } else if (name == "evolve") {
      ManagerOptions parsed;
      Check(ReadManagerConfig(nb::cast<std::string>(value), &parsed));
      request.evolve = parsed.restore.evolve;
    } else if (name == "evolve_functions") {
      SetFunctions(nb::cast<nb::list>(value), &request.evolve.value());
    }
  }
  return request;
}

}  // namespace ckptdb::python
