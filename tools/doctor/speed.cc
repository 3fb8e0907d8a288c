// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/speed.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "schema/status.h"
#include "tools/format.h"
#include "tools/interrupt.h"

namespace ckptdb::tool {
namespace {

constexpr size_t kBlock = size_t{1} << 20;
constexpr char kName[] = "speed";

double PerSecond(uint64_t bytes, absl::Duration time) {
  return static_cast<double>(bytes) /
         std::max(absl::ToDoubleSeconds(time), 1e-9);
}

// Incompressible bytes.
std::string RandomBytes(size_t bytes) {
  std::string block(bytes, '\0');
  // A fixed seed suffices: the bytes need not be secret.
  std::mt19937_64 random(bytes);
  for (char& c : block) c = static_cast<char>(random());
  return block;
}

absl::StatusOr<double> WriteSpeed(FileCalls* files, uint64_t bytes) {
  const std::string block = RandomBytes(kBlock);
  const absl::Time start = absl::Now();
  CKPTDB_ASSIGN_OR_RETURN(const OpenFile file,
                          Open(files, kName, O_WRONLY | O_CREAT | O_TRUNC));
  for (uint64_t done = 0; done < bytes; done += kBlock) {
    CKPTDB_RETURN_IF_ERROR(Interrupt::Check());
    CKPTDB_RETURN_IF_ERROR(files->Write(
        file.get(), absl::string_view(block).substr(0, bytes - done)));
  }
  // A save waits for the fsync, so it is measured, too.
  CKPTDB_RETURN_IF_ERROR(files->Sync(file.get()));
  return PerSecond(bytes, absl::Now() - start);
}

// Sets two quantiles of the duration of `call`.
absl::Status Quantiles(absl::FunctionRef<absl::Status()> call, int64_t* p50,
                       int64_t* p99) {
  constexpr int kCalls = 200;
  constexpr absl::Duration kLimit = absl::Seconds(10);
  const absl::Time begin = absl::Now();
  std::vector<int64_t> micros;
  for (int i = 0; i < kCalls && absl::Now() - begin < kLimit; ++i) {
    CKPTDB_RETURN_IF_ERROR(Interrupt::Check());
    const absl::Time start = absl::Now();
    CKPTDB_RETURN_IF_ERROR(call());
    micros.push_back(absl::ToInt64Microseconds(absl::Now() - start));
  }
  std::sort(micros.begin(), micros.end());
  *p50 = micros[micros.size() / 2];
  *p99 = micros[micros.size() * 99 / 100];
  return absl::OkStatus();
}

absl::Status MeasureSyncs(FileCalls* files, Speed* speed) {
  const std::string block = RandomBytes(4096);
  CKPTDB_ASSIGN_OR_RETURN(
      const OpenFile file,
      Open(files, "syncs", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND));
  const auto sync = [&] {
    CKPTDB_RETURN_IF_ERROR(files->Write(file.get(), block));
    return files->Sync(file.get());
  };
  CKPTDB_RETURN_IF_ERROR(
      Quantiles(sync, &speed->sync_p50_micros, &speed->sync_p99_micros));
  const auto replace = [&] { return ReplaceFile(files, "replaces", "small"); };
  return Quantiles(replace, &speed->replace_p50_micros,
                   &speed->replace_p99_micros);
}

// Makes a peer read the file that WriteSpeed has written, and returns its
// speed.
absl::StatusOr<Speed::Read> ReadSpeed(Peer* peer, const std::string& host) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string answer,
                          peer->Ask(absl::StrCat("time ", kName)));
  const std::pair<std::string, std::string> numbers =
      absl::StrSplit(answer, absl::MaxSplits(' ', 1));
  uint64_t bytes = 0;
  int64_t micros = 0;
  if (!absl::SimpleAtoi(numbers.first, &bytes) ||
      !absl::SimpleAtoi(numbers.second, &micros)) {
    return absl::AbortedError(absl::StrCat("invalid answer \"", answer, "\""));
  }
  return Speed::Read{host, PerSecond(bytes, absl::Microseconds(micros))};
}

// Makes this process its own peer.
class OwnPeer : public Peer {
 public:
  explicit OwnPeer(FileCalls* files) : service_(files) {}
  const std::string& host() const override { return host_; }
  absl::StatusOr<std::string> Ask(const std::string& request) override {
    return service_.Do(request);
  }

 private:
  PeerService service_;
  const std::string host_;
};

absl::Status CheckSpace(FileCalls* files, uint64_t bytes) {
  CKPTDB_ASSIGN_OR_RETURN(const auto space, files->GetSpace());
  // Measuring must not fill a shared disk.
  if (space.available_bytes / 4 >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(FormatBytes(space.available_bytes),
                   " are available, but measuring the speed needs four times ",
                   FormatBytes(bytes), "; set --speed-mib lower"));
}

}  // namespace

absl::StatusOr<Speed> MeasureSpeed(FileCalls* files, uint64_t bytes,
                                   const std::vector<Peer*>& peers) {
  CKPTDB_RETURN_IF_ERROR(CheckSpace(files, bytes));
  Speed speed;
  speed.bytes = bytes;
  CKPTDB_ASSIGN_OR_RETURN(speed.write_bytes_per_second,
                          WriteSpeed(files, bytes));
  CKPTDB_RETURN_IF_ERROR(MeasureSyncs(files, &speed));
  OwnPeer own(files);
  CKPTDB_ASSIGN_OR_RETURN(Speed::Read read, ReadSpeed(&own, ""));
  speed.reads.push_back(std::move(read));
  for (Peer* const peer : peers) {
    CKPTDB_RETURN_IF_ERROR(Interrupt::Check());
    CKPTDB_ASSIGN_OR_RETURN(read, ReadSpeed(peer, peer->host()));
    speed.reads.push_back(std::move(read));
  }
  return speed;
}

}  // namespace ckptdb::tool
