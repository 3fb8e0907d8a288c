// SPDX-License-Identifier: Apache-2.0
// A scan whose batches are taken one by one, for a Python iterator.
#ifndef CKPTDB_PYTHON_BINDING_SCAN_H_
#define CKPTDB_PYTHON_BINDING_SCAN_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "db/reader.h"
#include "python/binding/errors.h"

namespace ckptdb::python {

// Rows, or erased ids: then there are no values.
struct RowBatch {
  bool erased = false;
  std::vector<int64_t> ids;
  std::vector<std::vector<char>> values;  // by slot
};

// Runs a scan on a thread, which waits while a few batches are not taken.
class BatchScan {
 public:
  using Run = std::function<absl::Status(LiveTable* sink)>;

  // Batches have `rows` rows, the last of each worker fewer. `row_bytes` has
  // the bytes of a row of each slot.
  BatchScan(Run run, uint64_t rows, std::vector<uint64_t> row_bytes,
            int workers);
  // Ends the scan.
  ~BatchScan();

  // Waits for the next batch; null at the end. `interrupt` ends the wait with
  // Cancelled. Without the GIL.
  absl::StatusOr<std::unique_ptr<RowBatch>> Next(Interrupt* interrupt);
  void Stop();
  const std::vector<uint64_t>& row_bytes() const { return row_bytes_; }

 private:
  class Sink;

  absl::Status Put(std::unique_ptr<RowBatch> batch);

  static constexpr size_t kMostWaiting = 4;

  const uint64_t rows_;
  const std::vector<uint64_t> row_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<RowBatch>> waiting_;
  bool stopped_ = false;
  bool done_ = false;
  absl::Status status_;
  std::thread thread_;
};

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_SCAN_H_
