// SPDX-License-Identifier: Apache-2.0
// The bytes of one simulated file: a value type, cheap to copy.
//
// Bytes are kept as references to the buffers they were written from, so the
// journal of a disk, its files and every image made of it share one copy.
// A copy of a SimContent costs one reference; the first change to either side
// afterwards copies the list of references, never the bytes.
//
// Threads: one object is used by one thread at a time; copies are independent.
#ifndef CKPTDB_TESTS_SUPPORT_SIM_CONTENT_H_
#define CKPTDB_TESTS_SUPPORT_SIM_CONTENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ckptdb::testing {

using SharedBytes = std::shared_ptr<const std::string>;

class SimContent {
 public:
  SimContent();
  ~SimContent() = default;
  SimContent(const SimContent& other);
  SimContent& operator=(const SimContent& other);

  uint64_t size() const;

  // Overwrites or extends; a gap before `offset` reads as zeros.
  void Write(uint64_t offset, SharedBytes bytes);
  // Cuts, or extends with zeros.
  void Resize(uint64_t size);
  void Append(const SimContent& other);

  // The bytes [begin, end), which must lie within the content.
  SimContent Slice(uint64_t begin, uint64_t end) const;

  // Copies up to `n` bytes from `offset`; returns how many there were.
  size_t Read(uint64_t offset, size_t n, char* out) const;
  std::string ToString() const;

  // XXH3-64 of the bytes, however they were written; computed once.
  uint64_t Digest() const;

 private:
  struct Extent {
    SharedBytes bytes;
    size_t begin;   // in `bytes`
    size_t length;  // never 0
    uint64_t end;   // in the file
  };
  struct Body {
    std::vector<Extent> extents;
    std::atomic<bool> shared{false};  // never becomes false again
    std::atomic<uint64_t> digest{0};  // 0: not computed
  };

  Body& Mutable();
  void Push(SharedBytes bytes, size_t begin, size_t length);

  std::shared_ptr<Body> body_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_SIM_CONTENT_H_
