// SPDX-License-Identifier: Apache-2.0
#include "tools/files/zip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb::tool {
namespace {

// Sections 4.3 and 4.4 of APPNOTE.TXT name these records and fields.
constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kCentralHeader = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kZip64End = 0x06064b50;
constexpr uint32_t kZip64Locator = 0x07064b50;
constexpr size_t kLocalBytes = 30;
constexpr size_t kCentralBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kZip64EndBytes = 56;
constexpr size_t kZip64LocatorBytes = 20;
constexpr size_t kMaxCommentBytes = 65535;
constexpr uint32_t kNo32 = 0xffffffff;  // "see the Zip64 field"
constexpr uint16_t kNo16 = 0xffff;
constexpr uint16_t kZip64Field = 0x0001;
constexpr uint16_t kPaddingField = 0x4b43;  // "CK": ignored by all
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint16_t kEncryptedFlag = 1;
constexpr uint16_t kUtf8Flag = 1 << 11;
constexpr uint16_t kZip64Version = 45;
constexpr uint16_t kFirstDate = 1 << 5 | 1;  // 1980-01-01
constexpr uint64_t kZipAlignment = 64;
// Deflate cannot compress more.
constexpr uint64_t kMaxRatio = 1032;

absl::Status BadZip(uint64_t at, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("not a valid zip archive: ", what, " at byte ", at));
}

// Reads little-endian numbers; past the end they are 0, and ok() is false.
class Fields {
 public:
  Fields(absl::string_view bytes, uint64_t at)
      : bytes_(at <= bytes.size() ? bytes.substr(at) : absl::string_view()),
        end_(at + bytes_.size()) {}
  template <typename T>
  T Take() {
    if (bytes_.size() < sizeof(T)) {
      ok_ = false;
      bytes_ = {};
      return 0;
    }
    T value = 0;
    for (size_t i = sizeof(T); i-- > 0;) {
      value = static_cast<T>(uint64_t{value} << 8 |
                             static_cast<uint8_t>(bytes_[i]));
    }
    bytes_.remove_prefix(sizeof(T));
    return value;
  }
  absl::string_view TakeBytes(size_t bytes) {
    ok_ = ok_ && bytes_.size() >= bytes;
    const absl::string_view taken = bytes_.substr(0, ok_ ? bytes : 0);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  bool ok() const { return ok_; }
  bool empty() const { return bytes_.empty(); }
  uint64_t at() const { return end_ - bytes_.size(); }

 private:
  absl::string_view bytes_;
  const uint64_t end_;
  bool ok_ = true;
};

class Bytes {
 public:
  template <typename T>
  Bytes& Put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes_ += static_cast<char>(uint64_t{value} >> (8 * i) & 0xff);
    }
    return *this;
  }
  Bytes& Put(const std::string& bytes) {
    bytes_ += bytes;
    return *this;
  }
  const std::string& str() const { return bytes_; }

 private:
  std::string bytes_;
};

// --- Reading.

// Where the central directory is.
struct Directory {
  uint64_t at = 0;
  uint64_t bytes = 0;
  uint64_t members = 0;
  uint64_t end_at = 0;  // where the record after it begins
};

absl::StatusOr<uint64_t> FindEnd(absl::string_view file) {
  if (file.size() < kEndBytes) {
    return absl::DataLossError(absl::StrCat(
        "not a zip archive, or truncated: has ", file.size(), " bytes"));
  }
  const uint64_t last = file.size() - kEndBytes;
  const uint64_t first = last > kMaxCommentBytes ? last - kMaxCommentBytes : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    Fields fields(file, at);
    if (fields.Take<uint32_t>() != kEnd) continue;
    fields.TakeBytes(16);
    if (fields.Take<uint16_t>() == last - at) return at;
  }
  return absl::DataLossError(
      "not a zip archive, or truncated: the end of the central directory is "
      "missing");
}

absl::StatusOr<Directory> FindZip64Directory(absl::string_view file,
                                             uint64_t end_at) {
  if (end_at < kZip64LocatorBytes) return BadZip(end_at, "no Zip64 locator");
  const uint64_t locator_at = end_at - kZip64LocatorBytes;
  Fields locator(file, locator_at);
  if (locator.Take<uint32_t>() != kZip64Locator) {
    return BadZip(locator_at, "no Zip64 locator");
  }
  locator.TakeBytes(4);
  const auto at = locator.Take<uint64_t>();
  Fields fields(file, at);
  if (at > locator_at || locator_at - at < kZip64EndBytes ||
      fields.Take<uint32_t>() != kZip64End) {
    return BadZip(locator_at, "a Zip64 locator that leads nowhere");
  }
  fields.TakeBytes(20);
  Directory directory;
  fields.TakeBytes(8);  // members of this disk
  directory.members = fields.Take<uint64_t>();
  directory.bytes = fields.Take<uint64_t>();
  directory.at = fields.Take<uint64_t>();
  directory.end_at = at;
  return directory;
}

absl::StatusOr<Directory> FindDirectory(absl::string_view file) {
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t end_at, FindEnd(file));
  Fields fields(file, end_at);
  fields.TakeBytes(10);
  Directory directory;
  directory.members = fields.Take<uint16_t>();
  directory.bytes = fields.Take<uint32_t>();
  directory.at = fields.Take<uint32_t>();
  directory.end_at = end_at;
  if (directory.members == kNo16 || directory.bytes == kNo32 ||
      directory.at == kNo32) {
    CKPTDB_ASSIGN_OR_RETURN(directory, FindZip64Directory(file, end_at));
  }
  if (directory.at > directory.end_at ||
      directory.bytes > directory.end_at - directory.at) {
    return BadZip(end_at, "a central directory outside of the file");
  }
  // Each takes at least so many bytes, so that a number of members that is
  // believed is bounded by the file.
  if (directory.members > directory.bytes / kCentralBytes) {
    return BadZip(end_at,
                  absl::StrCat("a number of members, ", directory.members,
                               ", that is too large"));
  }
  return directory;
}

// Replaces fields that are all ones by those of the Zip64 extra field.
absl::Status TakeZip64(absl::string_view extra, uint64_t at,
                       ZipMember* member) {
  Fields fields(extra, 0);
  while (!fields.empty()) {
    const auto id = fields.Take<uint16_t>();
    const absl::string_view body = fields.TakeBytes(fields.Take<uint16_t>());
    // Some writers pad with fewer bytes than a field has.
    if (!fields.ok()) break;
    if (id != kZip64Field) continue;
    Fields values(body, 0);
    for (uint64_t* value :
         {&member->bytes, &member->stored_bytes, &member->header_at}) {
      if (*value == kNo32) *value = values.Take<uint64_t>();
    }
    if (!values.ok()) return BadZip(at, "a Zip64 field that is too short");
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

// Checks the header before a member's data and sets data_at.
absl::Status FindData(absl::string_view file, uint64_t directory_at,
                      ZipMember* member) {
  const uint64_t at = member->header_at;
  if (at > directory_at || directory_at - at < kLocalBytes) {
    return BadZip(at, "a member's header outside of the file");
  }
  Fields fields(file, at);
  if (fields.Take<uint32_t>() != kLocalHeader) {
    return BadZip(at, "no header of a member");
  }
  fields.TakeBytes(22);
  const auto name_bytes = fields.Take<uint16_t>();
  const auto extra_bytes = fields.Take<uint16_t>();
  if (fields.TakeBytes(name_bytes) != member->name) {
    return BadZip(at, "a name that differs from the central directory's");
  }
  member->data_at = at + kLocalBytes + name_bytes + extra_bytes;
  if (member->data_at > directory_at ||
      member->stored_bytes > directory_at - member->data_at) {
    return absl::DataLossError(
        absl::StrCat("member \"", absl::CHexEscape(member->name), "\" has ",
                     member->stored_bytes, " bytes from byte ", member->data_at,
                     ", which is beyond the archive's ", directory_at));
  }
  return absl::OkStatus();
}

absl::Status CheckMember(uint16_t method, uint16_t flags, uint64_t at,
                         ZipMember* member) {
  if ((flags & kEncryptedFlag) != 0) return BadZip(at, "an encrypted member");
  if (method != kStored && method != kDeflated) {
    return BadZip(at, absl::StrCat("compression method ", method,
                                   "; expected stored or deflated"));
  }
  member->deflated = method == kDeflated;
  const bool possible = member->deflated
                            ? member->bytes / kMaxRatio <= member->stored_bytes
                            : member->bytes == member->stored_bytes;
  if (possible) return absl::OkStatus();
  return BadZip(at, absl::StrCat("a member of ", member->bytes,
                                 " bytes that takes ", member->stored_bytes));
}

absl::StatusOr<ZipMember> ParseMember(absl::string_view file,
                                      uint64_t directory_at, Fields* fields) {
  const uint64_t at = fields->at();
  if (fields->Take<uint32_t>() != kCentralHeader) {
    return BadZip(at, "no entry of the central directory");
  }
  fields->TakeBytes(4);
  const auto flags = fields->Take<uint16_t>();
  const auto method = fields->Take<uint16_t>();
  fields->TakeBytes(4);
  ZipMember member;
  member.crc = fields->Take<uint32_t>();
  member.stored_bytes = fields->Take<uint32_t>();
  member.bytes = fields->Take<uint32_t>();
  const auto name_bytes = fields->Take<uint16_t>();
  const auto extra_bytes = fields->Take<uint16_t>();
  const auto comment_bytes = fields->Take<uint16_t>();
  fields->TakeBytes(8);
  member.header_at = fields->Take<uint32_t>();
  member.name = std::string(fields->TakeBytes(name_bytes));
  const absl::string_view extra = fields->TakeBytes(extra_bytes);
  fields->TakeBytes(comment_bytes);
  if (!fields->ok()) return BadZip(at, "a cut central directory");
  CKPTDB_RETURN_IF_ERROR(TakeZip64(extra, at, &member));
  CKPTDB_RETURN_IF_ERROR(CheckMember(method, flags, at, &member));
  CKPTDB_RETURN_IF_ERROR(FindData(file, directory_at, &member));
  return member;
}

absl::Status CheckDistinct(const std::vector<ZipMember>& members) {
  std::set<absl::string_view> names;
  uint64_t end = 0;
  for (const ZipMember& member : members) {
    if (!names.insert(member.name).second) {
      return BadZip(member.header_at,
                    absl::StrCat("a second member \"",
                                 absl::CHexEscape(member.name), "\""));
    }
    if (member.header_at < end) {
      return BadZip(member.header_at, "a member that overlaps another one");
    }
    end = member.data_at + member.stored_bytes;
  }
  return absl::OkStatus();
}

absl::Status CheckBytes(const ZipMember& member, uint64_t bytes, uint32_t crc) {
  if (bytes == member.bytes && crc == member.crc) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "member \"", absl::CHexEscape(member.name), "\" at byte ", member.data_at,
      " has ", bytes, " bytes with CRC ", absl::Hex(crc),
      ", but its header says ", member.bytes, " and ", absl::Hex(member.crc)));
}

// Calls `add` with pieces that zlib's 32-bit lengths can express.
template <typename Add>
absl::Status ForPieces(absl::string_view bytes, const Add& add) {
  constexpr size_t kPieceBytes = size_t{1} << 20;
  for (; !bytes.empty();
       bytes.remove_prefix(std::min(kPieceBytes, bytes.size()))) {
    CKPTDB_RETURN_IF_ERROR(add(bytes.substr(0, kPieceBytes)));
  }
  return absl::OkStatus();
}

uint32_t AddCrc(uint32_t crc, absl::string_view piece) {
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size()));
}

class Inflater {
 public:
  Inflater() { ready_ = inflateInit2(&stream_, -MAX_WBITS) == Z_OK; }
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Passes the decompressed bytes to `take`. Damage ends it early.
  template <typename Take>
  absl::Status Add(absl::string_view piece, const Take& take) {
    if (!ready_) return absl::ResourceExhaustedError("no memory for zlib");
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream_.avail_in = static_cast<uInt>(piece.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data());
      stream_.avail_out = static_cast<uInt>(out_.size());
      if (result_ == Z_OK) result_ = inflate(&stream_, Z_NO_FLUSH);
      CKPTDB_RETURN_IF_ERROR(
          take({out_.data(), out_.size() - stream_.avail_out}));
    } while (result_ == Z_OK && stream_.avail_out == 0);
    // No more input is not an error.
    if (result_ == Z_BUF_ERROR) result_ = Z_OK;
    return absl::OkStatus();
  }
  bool done() const { return result_ == Z_STREAM_END; }

 private:
  z_stream stream_ = {};
  bool ready_ = false;
  int result_ = Z_OK;
  std::string out_ = std::string(size_t{1} << 18, '\0');
};

// --- Writing.

bool NeedsZip64(const ZipMember& member) {
  return member.bytes >= kNo32 || member.header_at >= kNo32;
}

uint32_t Small(uint64_t value, bool zip64) {
  return zip64 ? kNo32 : static_cast<uint32_t>(value);
}

std::string Zip64Field(const ZipMember& member, bool with_offset) {
  Bytes field;
  field.Put(kZip64Field).Put<uint16_t>(with_offset ? 24 : 16);
  field.Put(member.bytes).Put(member.bytes);
  if (with_offset) field.Put(member.header_at);
  return field.str();
}

// The fields that both kinds of headers have, from the version on.
void PutCommon(const ZipMember& member, size_t extra_bytes, Bytes* bytes) {
  const bool zip64 = NeedsZip64(member);
  bytes->Put(kZip64Version).Put(kUtf8Flag).Put(kStored);
  bytes->Put<uint16_t>(0).Put(kFirstDate).Put(member.crc);
  bytes->Put(Small(member.bytes, zip64)).Put(Small(member.bytes, zip64));
  bytes->Put(static_cast<uint16_t>(member.name.size()));
  bytes->Put(static_cast<uint16_t>(extra_bytes));
}

}  // namespace

absl::StatusOr<std::vector<ZipMember>> ParseZip(absl::string_view file) {
  CKPTDB_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(file));
  Fields fields(file.substr(0, directory.at + directory.bytes), directory.at);
  std::vector<ZipMember> members;
  for (uint64_t i = 0; i < directory.members; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(members.emplace_back(),
                            ParseMember(file, directory.at, &fields));
  }
  std::sort(members.begin(), members.end(),
            [](const ZipMember& a, const ZipMember& b) {
              return a.header_at < b.header_at;
            });
  CKPTDB_RETURN_IF_ERROR(CheckDistinct(members));
  return members;
}

absl::Status ReadZipMember(
    absl::string_view file, const ZipMember& member,
    absl::FunctionRef<absl::Status(absl::string_view)> take) {
  const absl::string_view stored =
      file.substr(member.data_at, member.stored_bytes);
  uint32_t crc = 0;
  uint64_t bytes = 0;
  const auto add = [&](absl::string_view piece) -> absl::Status {
    crc = AddCrc(crc, piece);
    bytes += piece.size();
    if (bytes > member.bytes) return CheckBytes(member, bytes, crc);
    return take(piece);
  };
  if (!member.deflated) {
    CKPTDB_RETURN_IF_ERROR(ForPieces(stored, add));
    return CheckBytes(member, bytes, crc);
  }
  Inflater inflater;
  const auto inflate_piece = [&](absl::string_view piece) {
    return inflater.Add(piece, add);
  };
  CKPTDB_RETURN_IF_ERROR(ForPieces(stored, inflate_piece));
  if (inflater.done()) return CheckBytes(member, bytes, crc);
  return absl::DataLossError(
      absl::StrCat("member \"", absl::CHexEscape(member.name), "\" at byte ",
                   member.data_at, " cannot be decompressed"));
}

std::string ZipHeader(const ZipMember& member) {
  std::string extra;
  if (NeedsZip64(member)) extra = Zip64Field(member, /*with_offset=*/false);
  // A padding field takes at least four bytes.
  const uint64_t end =
      member.header_at + kLocalBytes + member.name.size() + extra.size() + 4;
  const uint64_t padding =
      (kZipAlignment - end % kZipAlignment) % kZipAlignment;
  Bytes field;
  field.Put(kPaddingField).Put(static_cast<uint16_t>(padding));
  extra += field.str() + std::string(padding, '\0');
  Bytes header;
  header.Put(kLocalHeader);
  PutCommon(member, extra.size(), &header);
  return header.Put(member.name).Put(extra).str();
}

std::string ZipEnd(const std::vector<ZipMember>& members, uint64_t at) {
  Bytes end;
  for (const ZipMember& member : members) {
    const bool zip64 = NeedsZip64(member);
    const std::string extra =
        zip64 ? Zip64Field(member, /*with_offset=*/true) : "";
    end.Put(kCentralHeader).Put(kZip64Version);
    PutCommon(member, extra.size(), &end);
    end.Put<uint16_t>(0).Put<uint16_t>(0).Put<uint16_t>(0).Put<uint32_t>(0);
    end.Put(Small(member.header_at, zip64)).Put(member.name).Put(extra);
  }
  const uint64_t bytes = end.str().size();
  const bool zip64 = members.size() >= kNo16 || at >= kNo32 || bytes >= kNo32;
  if (zip64) {
    end.Put(kZip64End).Put<uint64_t>(kZip64EndBytes - 12);
    end.Put(kZip64Version).Put(kZip64Version);
    end.Put<uint32_t>(0).Put<uint32_t>(0);
    end.Put<uint64_t>(members.size()).Put<uint64_t>(members.size());
    end.Put(bytes).Put(at);
    end.Put(kZip64Locator).Put<uint32_t>(0).Put(at + bytes).Put<uint32_t>(1);
  }
  const auto count = zip64 ? kNo16 : static_cast<uint16_t>(members.size());
  end.Put(kEnd).Put<uint16_t>(0).Put<uint16_t>(0).Put(count).Put(count);
  end.Put(Small(bytes, zip64)).Put(Small(at, zip64)).Put<uint16_t>(0);
  return end.str();
}

void PieceCrc::Add(uint64_t at, absl::string_view piece) {
  const uint32_t crc = AddCrc(0, piece);
  const std::lock_guard<std::mutex> lock(mutex_);
  pieces_[at] = {crc, piece.size()};
}

uint32_t PieceCrc::Value() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint32_t crc = 0;
  for (const auto& [at, piece] : pieces_) {
    crc = static_cast<uint32_t>(
        crc32_combine(crc, piece.first, static_cast<z_off_t>(piece.second)));
  }
  return crc;
}

}  // namespace ckptdb::tool
