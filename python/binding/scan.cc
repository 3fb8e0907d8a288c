// SPDX-License-Identifier: Apache-2.0
#include "python/binding/scan.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace ckptdb::python {

// Each worker fills a separate batch, so that workers wait for each other only
// when one is full.
class BatchScan::Sink : public LiveTable {
 public:
  Sink(BatchScan* scan, int workers) : scan_(*scan) {
    for (int i = 0; i < workers; ++i) {
      rows_.push_back(NewBatch(/*erased=*/false));
      erased_.push_back(NewBatch(/*erased=*/true));
    }
  }

  absl::Status Clear() override { return absl::OkStatus(); }

  absl::Status Consume(int worker, const Batch& batch) override {
    size_t done = 0;
    while (done < batch.ids.size()) {
      std::unique_ptr<RowBatch>& to = rows_[worker];
      const size_t count =
          std::min<size_t>(batch.ids.size() - done,
                           static_cast<size_t>(scan_.rows_) - to->ids.size());
      to->ids.insert(to->ids.end(), batch.ids.begin() + done,
                     batch.ids.begin() + done + count);
      for (size_t slot = 0; slot < to->values.size(); ++slot) {
        const uint64_t bytes = scan_.row_bytes_[slot];
        const char* const from = batch.slots[slot] + done * bytes;
        to->values[slot].insert(to->values[slot].end(), from,
                                from + count * bytes);
      }
      done += count;
      absl::Status put = PutIfFull(&to, /*erased=*/false);
      if (!put.ok()) return put;
    }
    return absl::OkStatus();
  }

  absl::Status Erase(int worker, absl::Span<const int64_t> ids) override {
    for (const int64_t id : ids) {
      std::unique_ptr<RowBatch>& to = erased_[worker];
      to->ids.push_back(id);
      absl::Status put = PutIfFull(&to, /*erased=*/true);
      if (!put.ok()) return put;
    }
    return absl::OkStatus();
  }

  absl::Status PutRest() {
    for (auto* const batches : {&rows_, &erased_}) {
      for (std::unique_ptr<RowBatch>& batch : *batches) {
        if (batch->ids.empty()) continue;
        absl::Status put = scan_.Put(std::move(batch));
        if (!put.ok()) return put;
      }
    }
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<RowBatch> NewBatch(bool erased) const {
    auto batch = std::make_unique<RowBatch>();
    batch->erased = erased;
    if (!erased) batch->values.resize(scan_.row_bytes_.size());
    return batch;
  }
  absl::Status PutIfFull(std::unique_ptr<RowBatch>* batch, bool erased) {
    if ((*batch)->ids.size() < scan_.rows_) return absl::OkStatus();
    return scan_.Put(std::exchange(*batch, NewBatch(erased)));
  }

  BatchScan& scan_;
  std::vector<std::unique_ptr<RowBatch>> rows_;    // by worker
  std::vector<std::unique_ptr<RowBatch>> erased_;  // by worker
};

BatchScan::BatchScan(Run run, uint64_t rows, std::vector<uint64_t> row_bytes,
                     int workers)
    : rows_(rows), row_bytes_(std::move(row_bytes)) {
  thread_ = std::thread([this, workers, run = std::move(run)] {
    absl::Status status;
    try {
      Sink sink(this, workers);
      status = run(&sink);
      if (status.ok()) status = sink.PutRest();
    } catch (const std::bad_alloc&) {
      status = absl::ResourceExhaustedError("no memory for the rows of a scan");
    }
    const std::lock_guard lock(mutex_);
    status_ = status;
    done_ = true;
    changed_.notify_all();
  });
}

BatchScan::~BatchScan() {
  Stop();
  thread_.join();
}

void BatchScan::Stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  waiting_.clear();
  changed_.notify_all();
}

absl::Status BatchScan::Put(std::unique_ptr<RowBatch> batch) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [&] { return stopped_ || waiting_.size() < kMostWaiting; });
  if (stopped_) return absl::CancelledError("the scan was closed");
  waiting_.push_back(std::move(batch));
  changed_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RowBatch>> BatchScan::Next(
    Interrupt* interrupt) {
  std::unique_lock lock(mutex_);
  while (waiting_.empty() && !done_ && !stopped_) {
    changed_.wait_for(lock, std::chrono::milliseconds(50));
    lock.unlock();
    const bool ended = interrupt->Poll();
    lock.lock();
    if (ended) return absl::CancelledError("the scan was interrupted");
  }
  if (!waiting_.empty()) {
    std::unique_ptr<RowBatch> batch = std::move(waiting_.front());
    waiting_.pop_front();
    changed_.notify_all();
    return batch;
  }
  if (stopped_ || status_.ok()) return nullptr;
  return status_;
}

}  // namespace ckptdb::python
