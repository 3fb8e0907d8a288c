// SPDX-License-Identifier: Apache-2.0
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/cases.h"
#include "bench/payload.h"
#include "bench/store_save.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr double kMaxFullRatio = 1.1;
constexpr double kMaxDenseRatio = 1.05;
constexpr double kMaxCpuSecondsPerGb = 0.6;

// Returns the memory limit of a save, beyond the memory of the caller.
double MemoryLimitBytes(uint64_t rows) {
  constexpr uint64_t kFixedBytes = uint64_t{256} << 20;
  constexpr uint64_t kBytesPerRow = 16;
  return static_cast<double>(kFixedBytes + kBytesPerRow * rows);
}

// Saves the state of `payload`, Table or Tensors, in turns with raw writes of
// its bytes.
template <typename Payload>
absl::StatusOr<CaseResult> CompareSaves(const std::string& name,
                                        const BenchOptions& options,
                                        const Workspace& workspace,
                                        const Payload& payload,
                                        double max_ratio, StoreSave* save) {
  std::vector<Contestant> contestants = {save->AsContestant()};
  for (Contestant& writer : RawWriters(workspace, payload.payload())) {
    contestants.push_back(std::move(writer));
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<Outcome> outcomes,
                          TakeTurns(name, contestants, options.repetitions));
  CaseResult result = Compare(name, payload.bytes(), outcomes);
  result.figures = {{"stored_bytes", static_cast<double>(save->stored_bytes())},
                    {"peak_bytes", static_cast<double>(save->peak_bytes())}};
  result.goals = {
      {"ratio", result.ratio(), max_ratio},
      {"cpu_seconds_per_gb", result.cpu_seconds_per_gb(), kMaxCpuSecondsPerGb}};
  return result;
}

constexpr double kMinTimesPutPerRow = 8;

absl::Status FromRocks(const rocksdb::Status& status) {
  return status.ok() ? absl::OkStatus()
                     : absl::UnavailableError(status.ToString());
}

// Opens a database as a user would for random bytes: with the library's
// defaults and enough threads for flushes and compactions.
absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenPlainDb(
    const std::string& path) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.IncreaseParallelism(4);
  rocksdb::DB* db = nullptr;
  CKPTDB_RETURN_IF_ERROR(FromRocks(rocksdb::DB::Open(options, path, &db)));
  return std::unique_ptr<rocksdb::DB>(db);
}

absl::Status PutRows(const Table& table, uint64_t begin, uint64_t end,
                     rocksdb::DB* db) {
  const std::vector<Memory> payload = table.payload();
  rocksdb::WriteBatch batch;
  for (uint64_t row = begin; row < end; ++row) {
    const rocksdb::Slice id(payload[0].data + row * sizeof(int64_t),
                            sizeof(int64_t));
    const rocksdb::Slice values[] = {
        {payload[1].data + row * Table::kSlotBytes, Table::kSlotBytes},
        {payload[2].data + row * Table::kSlotBytes, Table::kSlotBytes}};
    CKPTDB_RETURN_IF_ERROR(FromRocks(batch.Put(
        rocksdb::SliceParts(&id, 1), rocksdb::SliceParts(values, 2))));
  }
  return FromRocks(db->Write({}, &batch));
}

absl::Status PutAllRows(const Table& table, rocksdb::DB* db) {
  constexpr uint64_t kBatchRows = 1000;
  for (uint64_t row = 0; row < table.rows(); row += kBatchRows) {
    const uint64_t end = std::min(row + kBatchRows, table.rows());
    CKPTDB_RETURN_IF_ERROR(PutRows(table, row, end, db));
  }
  CKPTDB_RETURN_IF_ERROR(FromRocks(db->SyncWAL()));
  return FromRocks(db->Flush({}));
}

// The contestant owns its database, from prepare to finish.
Contestant PutPerRow(const Workspace& workspace, const Table& table) {
  const std::string path = workspace.Path("put_per_row");
  const auto db = std::make_shared<std::unique_ptr<rocksdb::DB>>();
  Contestant contestant;
  contestant.name = "RocksDB Put per row";
  contestant.prepare = [path, db] {
    CKPTDB_RETURN_IF_ERROR(MakeEmptyFolder(path));
    CKPTDB_ASSIGN_OR_RETURN(*db, OpenPlainDb(path));
    return SyncFileSystem(path);
  };
  contestant.run = [db, &table] { return PutAllRows(table, db->get()); };
  contestant.finish = [path, db] {
    db->reset();
    return Remove(path);
  };
  return contestant;
}

absl::Status WriteArrays(const std::string& path, const Table& table) {
  FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return ErrnoError("fopen", path);
  bool written = true;
  for (const Memory& array : table.payload()) {
    written =
        written && std::fwrite(array.data, 1, array.bytes, file) == array.bytes;
  }
  written = written && std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  absl::Status status = written ? absl::OkStatus() : ErrnoError("fwrite", path);
  std::fclose(file);
  return status;
}

Contestant Fwrite(const Workspace& workspace, const Table& table) {
  const std::string path = workspace.Path("fwrite");
  Contestant contestant;
  contestant.name = "fwrite";
  const std::string folder = workspace.Path("");
  contestant.prepare = [folder] { return SyncFileSystem(folder); };
  contestant.run = [path, &table] { return WriteArrays(path, table); };
  contestant.finish = [path] { return Remove(path); };
  return contestant;
}

absl::StatusOr<CaseResult> CompareWith(const std::string& name,
                                       Contestant alternative,
                                       const BenchOptions& options,
                                       const Table& table, StoreSave* save) {
  const std::vector<Contestant> contestants = {save->AsContestant(),
                                               std::move(alternative)};
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<Outcome> outcomes,
      TakeTurns(name, contestants, options.alternative_repetitions));
  CaseResult result = Compare(name, table.bytes(), outcomes);
  result.figures = {{"times_faster", 1 / result.ratio()}};
  return result;
}

// Adds two results, whose raw side is the alternative: a RocksDB Put for each
// row, and the arrays by buffered fwrite.
absl::Status CompareWithAlternatives(const BenchOptions& options,
                                     const Workspace& workspace,
                                     const Table& table, StoreSave* save,
                                     Report* report) {
  if (options.alternative_repetitions <= 0) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(
      CaseResult put,
      CompareWith("full/put_per_row", PutPerRow(workspace, table), options,
                  table, save));
  put.goals = {
      {"times_faster", 1 / put.ratio(), kMinTimesPutPerRow, /*at_least=*/true}};
  report->Add(std::move(put));
  CKPTDB_ASSIGN_OR_RETURN(CaseResult fwrite_result,
                          CompareWith("full/fwrite", Fwrite(workspace, table),
                                      options, table, save));
  report->Add(std::move(fwrite_result));
  return absl::OkStatus();
}

}  // namespace

absl::Status RunFull(const BenchOptions& options, Report* report) {
  // RocksDB beside its log and under compaction takes the most.
  constexpr uint64_t kCopies = 5;
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * options.rows * Table::kRowBytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto table,
                          Table::Make(options.rows, options.seed));
  RankState state;
  table->AddTo(&state);
  CKPTDB_ASSIGN_OR_RETURN(const auto save,
                          StoreSave::Make(*workspace, options, &state));
  CKPTDB_ASSIGN_OR_RETURN(CaseResult result,
                          CompareSaves("full", options, *workspace, *table,
                                       kMaxFullRatio, save.get()));
  const auto rows = static_cast<double>(table->rows());
  result.figures.push_back({"rows", rows});
  result.figures.push_back({"rows_per_second", rows / result.seconds.median});
  result.goals.push_back({"peak_bytes", static_cast<double>(save->peak_bytes()),
                          MemoryLimitBytes(table->rows())});
  report->Add(std::move(result));
  return CompareWithAlternatives(options, *workspace, *table, save.get(),
                                 report);
}

absl::Status RunDense(const BenchOptions& options, Report* report) {
  constexpr uint64_t kCopies = 3;
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * options.dense_bytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto tensors,
                          Tensors::Make(options.dense_bytes, options.seed));
  RankState state;
  tensors->AddTo(&state);
  CKPTDB_ASSIGN_OR_RETURN(const auto save,
                          StoreSave::Make(*workspace, options, &state));
  CKPTDB_ASSIGN_OR_RETURN(CaseResult result,
                          CompareSaves("dense", options, *workspace, *tensors,
                                       kMaxDenseRatio, save.get()));
  report->Add(std::move(result));
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
