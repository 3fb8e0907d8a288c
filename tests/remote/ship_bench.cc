// SPDX-License-Identifier: Apache-2.0
// ship_bench: how long saves of a manager take with a shipper beside them,
// against the same saves without, in turns; and how many bytes are uploaded for
// a delta, against its own files.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "manager/checkpoint_manager.h"
#include "manager/tables.h"
#include "remote/remote_store.h"
#include "remote/step_shipper.h"
#include "schema/status.h"

namespace ckptdb::testing {
namespace {

using ShipClock = std::chrono::steady_clock;

struct ShipSetting {
  std::string folder = "/dev/shm/ship_bench";
  std::string url;  // empty: a folder in `folder`
  int64_t rows = 200'000;
  int64_t dim = 64;
  double changed = 0.1;    // of the rows, in a step
  int saves = 8;           // in a turn
  int turns = 6;           // of each kind
  double train_ms = 500;   // between two saves
  uint64_t limit_mib = 0;  // of the upload, per second; 0: no limit
};

struct Latencies {
  std::vector<double> blocking_ms;   // the training waited
  std::vector<double> committed_ms;  // until the step was durable
  void Add(const Latencies& more) {
    blocking_ms.insert(blocking_ms.end(), more.blocking_ms.begin(),
                       more.blocking_ms.end());
    committed_ms.insert(committed_ms.end(), more.committed_ms.begin(),
                        more.committed_ms.end());
  }
};

double MsSince(ShipClock::time_point begin) {
  return std::chrono::duration<double, std::milli>(ShipClock::now() - begin)
      .count();
}

double MedianMs(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A trainer with one table, which changes other rows in each step.
class ShipTrainer {
 public:
  ShipTrainer(const ShipSetting& setting, const std::string& path,
              const std::string& url)
      : setting_(setting),
        values_(static_cast<size_t>(setting.rows * setting.dim)),
        table_(static_cast<uint64_t>(setting.rows),
               {Array("embedding", values_.data(),
                      static_cast<uint32_t>(setting.dim))}) {
    options_.path = path;
    options_.schedule.permanent = SaveAtSteps({});
    options_.retention.keep = LatestN(2);
    options_.observers.on_warning = [](const std::string& warning) {
      std::fprintf(stderr, "%s\n", warning.c_str());
    };
    if (url.empty()) return;
    ShipperOptions shipping;
    shipping.remote.bytes_per_second = setting.limit_mib << 20;
    options_.ship.to = ShipTo(url, shipping);
  }

  absl::Status Open() {
    CKPTDB_RETURN_IF_ERROR(model_.AddTable("user", &table_));
    CKPTDB_ASSIGN_OR_RETURN(manager_,
                            CheckpointManager::Open(options_, &model_));
    return Save(nullptr);  // the full save
  }
  CheckpointManager* manager() { return manager_.get(); }

  absl::Status AwaitShipping() {
    return last_->WaitShipped(absl::Now() + absl::Minutes(10));
  }

  absl::Status RunTurn(Latencies* latencies) {
    for (int i = 0; i < setting_.saves; ++i) {
      Train();
      CKPTDB_RETURN_IF_ERROR(Save(latencies));
    }
    return absl::OkStatus();
  }

 private:
  // Computes for the time between two saves.
  void Train() {
    const auto begin = ShipClock::now();
    std::vector<int64_t> ids;
    const auto changed = static_cast<int64_t>(
        static_cast<double>(setting_.rows) * setting_.changed);
    for (int64_t i = 0; i < changed; ++i) {
      next_ = (next_ + 7919) % setting_.rows;
      ids.push_back(next_);
      for (int64_t d = 0; d < setting_.dim; ++d) {
        values_[static_cast<size_t>(next_ * setting_.dim + d)] +=
            static_cast<float>(d + i);
      }
    }
    table_.MarkUpserted(ids).IgnoreError();  // all ids are rows
    volatile double sum = 0;
    while (MsSince(begin) < setting_.train_ms) sum = sum + 1;
  }
  absl::Status Save(Latencies* latencies) {
    CKPTDB_RETURN_IF_ERROR(manager_->Step().status());
    const auto begin = ShipClock::now();
    CKPTDB_ASSIGN_OR_RETURN(const PendingSave save, manager_->Save());
    const double blocking = MsSince(begin);
    last_ = save;
    CKPTDB_RETURN_IF_ERROR(save.WaitCommitted().status());
    if (latencies != nullptr) {
      latencies->blocking_ms.push_back(blocking);
      latencies->committed_ms.push_back(MsSince(begin));
    }
    return absl::OkStatus();
  }

  const ShipSetting setting_;
  std::vector<float> values_;
  VectorTable table_;
  ModelState model_;
  ManagerOptions options_;
  std::unique_ptr<CheckpointManager> manager_;
  std::optional<PendingSave> last_;
  int64_t next_ = 0;
};

// The uploaded bytes of the deltas, against the bytes that their saves stored.
absl::Status ReportBytes(const std::string& path, const std::string& url) {
  CKPTDB_ASSIGN_OR_RETURN(const auto remote, OpenObjectStore(url));
  CKPTDB_ASSIGN_OR_RETURN(const RemoteContent content,
                          ListRemote(remote.get()));
  CKPTDB_ASSIGN_OR_RETURN(const auto reader, Reader::Open(path));
  uint64_t uploaded = 0;
  uint64_t own = 0;
  for (const RemoteStep& step : content.steps) {
    const auto record = reader->FindStep(step.version.step);
    if (!record.ok() || step.kind != StepRecord::Kind::kDelta) continue;
    uploaded += step.own_bytes;
    own += record->exclusive_bytes;
  }
  std::printf("a delta: %.0f bytes uploaded, %.0f stored by its save: %.4f\n",
              static_cast<double>(uploaded), static_cast<double>(own),
              static_cast<double>(uploaded) / static_cast<double>(own));
  return absl::OkStatus();
}

absl::Status MeasureShipping(const ShipSetting& setting) {
  const std::string url =
      setting.url.empty() ? absl::StrCat("file://", setting.folder, "/remote")
                          : setting.url;
  const std::string path = setting.folder + "/shipped";
  ShipTrainer with(setting, path, url);
  ShipTrainer without(setting, setting.folder + "/alone", "");
  CKPTDB_RETURN_IF_ERROR(with.Open());
  CKPTDB_RETURN_IF_ERROR(without.Open());
  Latencies shipped;
  Latencies alone;
  for (int turn = 0; turn < setting.turns; ++turn) {
    Latencies more;
    CKPTDB_RETURN_IF_ERROR(with.RunTurn(&more));
    shipped.Add(more);
    // Nothing is shipped beside the other saves.
    CKPTDB_RETURN_IF_ERROR(with.AwaitShipping());
    more = Latencies();
    CKPTDB_RETURN_IF_ERROR(without.RunTurn(&more));
    alone.Add(more);
  }
  CKPTDB_ASSIGN_OR_RETURN(const ShippingStatistics statistics,
                          with.manager()->Shipping());
  std::printf("%d saves each; %d steps shipped, %.1f MiB\n",
              setting.turns * setting.saves,
              static_cast<int>(statistics.shipped_steps),
              static_cast<double>(statistics.shipped_bytes) / (1 << 20));
  const auto report = [](const char* what, const std::vector<double>& a,
                         const std::vector<double>& b) {
    std::printf("%s: %.2f ms with a shipper, %.2f ms without: %.3f\n", what,
                MedianMs(a), MedianMs(b), MedianMs(a) / MedianMs(b));
  };
  report("training waits", shipped.blocking_ms, alone.blocking_ms);
  report("until committed", shipped.committed_ms, alone.committed_ms);
  CKPTDB_RETURN_IF_ERROR(with.manager()->Close());
  CKPTDB_RETURN_IF_ERROR(without.manager()->Close());
  return ReportBytes(path, url);
}

int RunShipBench(int argc, char** argv) {
  ShipSetting setting;
  CLI::App app("Measures saves with a shipper beside them.", "ship_bench");
  app.add_option("--folder", setting.folder, "new folder of the stores");
  app.add_option("--url", setting.url, "the object store");
  app.add_option("--rows", setting.rows, "rows of the table");
  app.add_option("--dim", setting.dim, "f32 of a row");
  app.add_option("--changed", setting.changed, "part of the rows, in a step");
  app.add_option("--saves", setting.saves, "saves in a turn");
  app.add_option("--turns", setting.turns, "turns of each kind");
  app.add_option("--train-ms", setting.train_ms, "time between two saves");
  app.add_option("--limit-mib", setting.limit_mib, "MiB per second uploaded");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = MeasureShipping(setting);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace ckptdb::testing

int main(int argc, char** argv) {
  return ckptdb::testing::RunShipBench(argc, argv);
}
