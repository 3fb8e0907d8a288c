// The kernels of train_ctr as the stand-in for the runtime runs them: the same
// functions, one thread after the other, when the stand-in's stream comes to
// them. Linked in place of examples/train_ctr/device/kernels.cu.
#include "train_ctr/device/kernels.h"

#include <utility>
#include <vector>

#include "ckptdb/tests/support/cuda_standin.h"

namespace train_ctr {
namespace {

using ckptdb::testing::CudaStandin;
using Ranges = std::vector<CudaStandin::Range>;

// Queues `run`, which uses this memory of the device.
template <typename Run>
cudaError_t Queue(const char* name, cudaStream_t stream, Ranges ranges,
                  Run run) {
  return CudaStandin::Queue(
      stream, name,
      [ranges, run] {
        for (const auto& [memory, bytes] : ranges) {
          if (bytes > 0) CudaStandin::ExpectDeviceMemory(memory, bytes);
        }
        run();
      },
      ranges);
}

template <typename Operation>
cudaError_t QueueEach(const char* name, const Operation& operation,
                      cudaStream_t stream, Ranges ranges) {
  return Queue(name, stream, std::move(ranges), [operation] {
    for (uint64_t i = 0; i < operation.count(); ++i) operation.Run(i);
  });
}

// Each element is computed by itself, as the kernels do, and not in tiles.
template <typename Operation>
cudaError_t QueueMatrix(const char* name, const Operation& operation,
                        cudaStream_t stream, Ranges ranges) {
  return Queue(name, stream, std::move(ranges), [operation] {
    for (uint64_t row = 0; row < operation.rows(); ++row) {
      for (uint64_t column = 0; column < operation.columns(); ++column) {
        operation.template Run<1>(row, column);
      }
    }
  });
}

template <typename T>
CudaStandin::Range Of(const T* memory, uint64_t count) {
  return {memory, count * sizeof(T)};
}

Ranges ArraysOf(const TableArrays& table, Ranges more) {
  const uint64_t elements = table.rows * table.dim;
  more.insert(more.end(),
              {Of(table.ids, table.rows), Of(table.embedding, elements),
               Of(table.adagrad_sum, elements), Of(table.freq, table.rows),
               Of(table.last_step, table.rows)});
  return more;
}

}  // namespace

cudaError_t Launch(const ClearIds& operation, cudaStream_t stream) {
  return QueueEach("clear ids", operation, stream,
                   ArraysOf(operation.table, {}));
}

cudaError_t Launch(const TouchRows& operation, cudaStream_t stream) {
  return QueueEach(
      "touch rows", operation, stream,
      ArraysOf(operation.table, {Of(operation.rows, operation.row_count),
                                 Of(operation.listed, operation.row_count)}));
}

cudaError_t Launch(const GatherEmbeddings& operation, cudaStream_t stream) {
  return QueueEach("gather embeddings", operation, stream,
                   ArraysOf(operation.table,
                            {Of(operation.places, operation.place_count),
                             Of(operation.inputs,
                                operation.place_count * operation.table.dim)}));
}

cudaError_t Launch(const AdagradRows& operation, cudaStream_t stream) {
  return QueueEach("adagrad", operation, stream,
                   ArraysOf(operation.table,
                            {Of(operation.rows, operation.row_count),
                             Of(operation.places, operation.row_count),
                             Of(operation.input_gradient,
                                operation.row_count * operation.table.dim)}));
}

cudaError_t Launch(const EraseRows& operation, cudaStream_t stream) {
  return QueueEach(
      "erase rows", operation, stream,
      ArraysOf(operation.table, {Of(operation.erased, operation.table.rows)}));
}

cudaError_t Launch(const ForwardLayer& operation, cudaStream_t stream) {
  return QueueMatrix(
      "forward", operation, stream,
      {Of(operation.input, operation.examples * operation.inputs),
       Of(operation.weight, operation.inputs * operation.outputs),
       Of(operation.bias, operation.outputs),
       Of(operation.output, operation.examples * operation.outputs)});
}

cudaError_t Launch(const BackwardLayer& operation, cudaStream_t stream) {
  const uint64_t inputs = operation.examples * operation.inputs;
  return QueueMatrix(
      "backward", operation, stream,
      {Of(operation.weight, operation.inputs * operation.outputs),
       Of(operation.output_gradient, operation.examples * operation.outputs),
       Of(operation.relu_input, operation.relu_input == nullptr ? 0 : inputs),
       Of(operation.input_gradient, inputs)});
}

cudaError_t Launch(const WeightGradient& operation, cudaStream_t stream) {
  const uint64_t inputs = operation.examples * operation.inputs;
  return QueueMatrix(
      "weight gradient", operation, stream,
      {Of(operation.input, operation.input == nullptr ? 0 : inputs),
       Of(operation.output_gradient, operation.examples * operation.outputs),
       Of(operation.gradient, operation.inputs * operation.outputs)});
}

cudaError_t Launch(const AdamStep& operation, cudaStream_t stream) {
  return QueueMatrix(
      "adam", operation, stream,
      {Of(operation.gradient, operation.count),
       Of(operation.m, operation.count), Of(operation.v, operation.count),
       Of(operation.value, operation.count)});
}

}  // namespace train_ctr
