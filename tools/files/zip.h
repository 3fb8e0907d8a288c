// SPDX-License-Identifier: Apache-2.0
// Zip archives, as NumPy's .npz and PyTorch's torch.save use them: members are
// stored or deflated, without encryption and on one disk; Zip64.
#ifndef CKPTDB_TOOLS_FILES_ZIP_H_
#define CKPTDB_TOOLS_FILES_ZIP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::tool {

struct ZipMember {
  std::string name;
  uint64_t header_at = 0;
  uint64_t data_at = 0;
  uint64_t bytes = 0;
  uint64_t stored_bytes = 0;  // `bytes` unless deflated
  uint32_t crc = 0;
  bool deflated = false;
};

// Returns the members in the order of their data. Returns DataLoss for an
// archive that is cut, and InvalidArgument, with the offset, for records that
// contradict each other, members that overlap or have the same name, and
// whatever else is not described above. Reads no member's data.
absl::StatusOr<std::vector<ZipMember>> ParseZip(absl::string_view file);

// Passes the bytes of a member of `file` to `take` in pieces. Returns DataLoss
// unless they have the member's size and CRC.
absl::Status ReadZipMember(
    absl::string_view file, const ZipMember& member,
    absl::FunctionRef<absl::Status(absl::string_view)> take);

// Returns the header of a stored member, which precedes its data. It depends
// only on member.crc once the other fields are set, and is padded so that the
// data begins at a multiple of 64.
std::string ZipHeader(const ZipMember& member);

// Returns the central directory and the end of an archive of stored members,
// which begin at `at`.
std::string ZipEnd(const std::vector<ZipMember>& members, uint64_t at);

// The CRC of bytes that arrive in pieces, in any order and on any thread.
class PieceCrc {
 public:
  void Add(uint64_t at, absl::string_view piece);
  // Returns the CRC of all pieces, which must leave no gap.
  uint32_t Value() const;

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, std::pair<uint32_t, uint64_t>> pieces_;  // crc, bytes
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_ZIP_H_
