// HashTable: a TableState of a hash table in the memory of a GPU that another
// library keeps, such as HierarchicalKV or dynamicemb. manager/tables.h says
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
//   options.stream = stream;  // cudaStream_t, on which the trainer works
//   options.erasures = HashTable::Erasures::kCompare;
//   CKPTDB_ASSIGN_OR_RETURN(
//       const std::unique_ptr<HashTable> table,
//       HashTable::Make(gpu.get(), &users, {{"embedding", DType::kF32, 64},
//                                           {"adagrad_sum", DType::kF32, 64}},
//                       options));
//   CKPTDB_RETURN_IF_ERROR(model.AddTable("user", table.get()));
//
// A value of the hash table is what all slots have, one after the other. Each
// row has a score besides, which grows as rows are used or written: the step of
// the training, or a clock. It is saved in a slot of its own, kU64, which comes
// last: Options::score_slot.
//
// Changes are what the scores tell: those rows whose score is at least the
// highest of the save before. A save needs no marks, then, and no memory for
// them. The rows that had the highest score are saved once more, as others may
// have got it since. A row whose values change without its score is left out.
//
// Erasures are not in the scores, and a hash table evicts rows by itself. See
// Options::erasures.
//
// The call of the manager that begins a save waits until the rows of it are in
// host memory: the table may change then. Slots with a lossy codec are encoded
// on the device, as those of a DeviceTable. Batches of `batch_rows` places are
// exported, checked by a digest when they have arrived, and the next one takes
// their place, so that device memory for two batches is enough.
#ifndef CKPTDB_CUDA_HASH_TABLE_H_
#define CKPTDB_CUDA_HASH_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ckptdb/cuda/cuda_device.h"
#include "ckptdb/manager/model_state.h"
#include "ckptdb/manager/tables.h"

namespace ckptdb {

// Calls that a manager makes are its own thread's. It outlives the manager, and
// the device and the source outlive it.
class HashTable : public internal::AdaptedTable {
 public:
  // Says how a save finds out which ids are gone.
  enum class Erasures {
    // It does not. A step that is restored then has rows, with old values, that
    // the table had evicted: for a table that evicts nothing.
    kNone,
    // It reads all ids and scores, 16 bytes a row, and compares the ids with
    // those of the save before, which take 8 bytes each in host memory.
    kCompare,
  };

  // The hash table, as a trainer wraps it. All memory is of the device, and all
  // work goes to the stream that is given. An error ends the save or restore,
  // which returns it.
  class Source {
   public:
    // Rows, one after the other. A null array is not wanted.
    struct Batch {
      int64_t* keys = nullptr;
      char* values = nullptr;
      uint64_t* scores = nullptr;
      uint64_t* count = nullptr;  // how many there are; to be set by Export
      void* stream = nullptr;     // a cudaStream_t
    };
    struct ExportSpec {
      uint64_t first = 0;  // of the places of the table
      uint64_t places = 0;
      uint64_t least_score = 0;  // rows with a lower one are left out
    };

    virtual ~Source() = default;
    // Returns the number of places that Export goes through.
    virtual uint64_t capacity() const = 0;
    // Writes the rows that these places have, in any order.
    virtual absl::Status Export(const ExportSpec& spec, const Batch& to) = 0;
    // Looks up `rows` keys. Writes values and score of each that is there, and
    // leaves those of others as they were; found[i] is set for all.
    virtual absl::Status Find(uint64_t rows, const Batch& of,
                              uint8_t* found) = 0;
    // Inserts rows, or writes over them. Null scores: the table chooses them.
    virtual absl::Status Insert(uint64_t rows, const Batch& from) = 0;
    virtual absl::Status Erase(uint64_t rows, const int64_t* keys,
                               void* stream) = 0;
    virtual absl::Status Clear(void* stream) = 0;
  };

  struct Options {
    // See TableOptions; `threads` and `tracker` are ignored.
    TableOptions table = {};
    // The stream on which the trainer changes the table, a cudaStream_t, which
    // outlives the table; cuda_device.h says what null is.
    void* stream = nullptr;
    // The slot of the scores. If it is empty, they are not saved, and the table
    // chooses them when it is restored. Default: "score".
    std::string score_slot = "score";
    Erasures erasures = Erasures::kCompare;
    // The places that are exported at once, 1 to 2^24. More of them take more
    // memory of the device, fewer more calls. Default: 65,536.
    uint64_t batch_rows = 65'536;
  };

  // Returns FailedPrecondition if host memory takes the place of the device,
  // and InvalidArgument for what is wrong with slots or options.
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
