// A view of one dense tensor of the trainer's state.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_TENSOR_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace train_ctr {

enum class ElementType { kFloat32, kInt64 };

// Points into the object that gave it, and is good as long as that lives.
struct TensorView {
  std::string name;
  ElementType type;
  std::vector<int64_t> shape;  // empty for a scalar
  void* values;

  size_t bytes() const {
    size_t count = type == ElementType::kFloat32 ? 4 : 8;
    for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
    return count;
  }
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_TENSOR_H_
