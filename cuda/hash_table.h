// SPDX-License-Identifier: Apache-2.0
// HashTable: a TableState for a hash table in GPU memory that another library
// manages, such as HierarchicalKV or dynamicemb. manager/tables.h describes
// what all adapters have in common.
//
//   class Users : public HashTable::Source {
//     uint64_t capacity() const override { return table_->capacity(); }
//     absl::Status Export(const ExportSpec& spec, const Batch& to) override {
//       // HierarchicalKV: export_batch_if(pred, ..., spec.places, spec.first,
//       //                                 to.count, to.keys, to.values,
//       //                                 to.scores, stream);
//     }
//     ...
//   };
//   HashTable::Options options;
//   options.stream = stream;  // the trainer's cudaStream_t
//   options.erasures = HashTable::Erasures::kCompare;
//   CKPTDB_ASSIGN_OR_RETURN(
//       const std::unique_ptr<HashTable> table,
//       HashTable::Make(gpu.get(), &users, {{"embedding", DType::kF32, 64},
//                                           {"adagrad_sum", DType::kF32, 64}},
//                       options));
//   CKPTDB_RETURN_IF_ERROR(model.AddTable("user", table.get()));
//
// A value in the hash table is the concatenation of all slots. Each row also
// has a score, which grows when the row is used or written, such as the
// training step or a clock. The score is saved in a separate kU64 slot, the
// last one: Options::score_slot.
//
// Changed rows are found by their scores: a save writes the rows whose score is
// at least the highest score of the previous save. So no marks are needed. Rows
// with exactly that score are saved again, because more rows may have reached
// it since. A row whose values change without its score is missed.
//
// Scores do not show erasures, and a hash table evicts rows on its own. See
// Options::erasures.
//
// The manager's call that begins a save returns when the save's rows are in
// host memory; the table may change after that. Slots with a lossy codec are
// encoded on the device, as in a DeviceTable. Batches of `batch_rows` places
// are exported one after another, and each is checked by a digest when it has
// arrived. They reuse the same device memory, which has room for two batches.
#ifndef CKPTDB_CUDA_HASH_TABLE_H_
#define CKPTDB_CUDA_HASH_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cuda/cuda_device.h"
#include "manager/model_state.h"
#include "manager/tables.h"

namespace ckptdb {

// The manager calls it on the manager's own thread. Must outlive the manager;
// the device and the source must outlive the table.
class HashTable : public internal::AdaptedTable {
 public:
  // How a save finds the ids that were erased or evicted.
  enum class Erasures {
    // It does not. A restored step may then contain rows, with old values, that
    // the table had evicted. Use it for a table that evicts nothing.
    kNone,
    // It reads all ids and scores, 16 bytes per row, and compares the ids with
    // those of the previous save, which take 8 bytes each in host memory.
    kCompare,
  };

  // The hash table, wrapped by the trainer. All pointers are to device memory,
  // and all work must be queued on the given stream. An error ends the save or
  // restore, which returns it.
  class Source {
   public:
    // Adjacent rows. Arrays that are not needed are null.
    struct Batch {
      int64_t* keys = nullptr;
      char* values = nullptr;
      uint64_t* scores = nullptr;
      uint64_t* count = nullptr;  // the number of rows; set by Export
      void* stream = nullptr;     // a cudaStream_t
    };
    struct ExportSpec {
      uint64_t first = 0;        // the first place
      uint64_t places = 0;       // the number of places
      uint64_t least_score = 0;  // skip rows with a lower score
    };

    virtual ~Source() = default;
    // Returns the number of places, over which Export iterates.
    virtual uint64_t capacity() const = 0;
    // Writes the rows in the given places, in any order.
    virtual absl::Status Export(const ExportSpec& spec, const Batch& to) = 0;
    // Looks up `rows` keys. Sets found[i] for each, writes the value and score
    // of each key that was found, and leaves the others unchanged.
    virtual absl::Status Find(uint64_t rows, const Batch& of,
                              uint8_t* found) = 0;
    // Inserts or overwrites rows. If scores are null, the table chooses them.
    virtual absl::Status Insert(uint64_t rows, const Batch& from) = 0;
    virtual absl::Status Erase(uint64_t rows, const int64_t* keys,
                               void* stream) = 0;
    virtual absl::Status Clear(void* stream) = 0;
  };

  struct Options {
    // See TableOptions; `threads` and `tracker_bytes` are ignored.
    TableOptions table = {};
    // The cudaStream_t on which the trainer changes the table; null is
    // described in cuda_device.h. It must outlive the table.
    void* stream = nullptr;
    // The slot of the scores. If empty, scores are not saved, and the table
    // chooses new ones in a restore. Default: "score".
    std::string score_slot = "score";
    Erasures erasures = Erasures::kCompare;
    // Places exported at once, 1 to 2^24. More places take more device memory;
    // fewer take more calls. Default: 65,536.
    uint64_t batch_rows = 65'536;
  };

  // Returns FailedPrecondition if `device` works in host memory, and
  // InvalidArgument for invalid slots or options.
  static absl::StatusOr<std::unique_ptr<HashTable>> Make(
      CudaDevice* device, Source* source, std::vector<Slot> slots,
      Options options);
  static absl::StatusOr<std::unique_ptr<HashTable>> Make(
      CudaDevice* device, Source* source, std::vector<Slot> slots);
  ~HashTable() override;

  ChangeTracker* tracker() override;
  absl::StatusOr<std::unique_ptr<Captured>> Capture(
      const absl::Span<const int64_t>* ids) const override;
  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override;
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override;
  LiveTable* Live(absl::Span<const std::string> slots) override;

 private:
  struct Parts;

  HashTable(std::vector<Slot> slots, TableOptions options,
            std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
};

}  // namespace ckptdb

#endif  // CKPTDB_CUDA_HASH_TABLE_H_
