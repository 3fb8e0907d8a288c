// SPDX-License-Identifier: Apache-2.0
#include "remote/check_remote.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "db/base/call_guard.h"
#include "db/base/cancelled.h"
#include "db/base/uuid.h"
#include "remote/remote_store.h"
#include "schema/status.h"
#ifdef CKPTDB_HAS_S3
#include "remote/s3/open_s3.h"
#endif

namespace ckptdb {
namespace internal {
namespace {

using Seen = absl::StatusOr<std::string>;
using Result = RemoteCheck::Result;

constexpr absl::string_view kFolder = "probe/";
constexpr absl::string_view kBytes = "0123456789abcdef";
constexpr absl::Duration kMostSkew = absl::Minutes(1);
constexpr absl::Duration kDeleteDeadline = absl::Seconds(5);
constexpr const char* kEnds[] = {"-a", "-b", ".c", "0", "-s"};

absl::Status Wrong(absl::string_view what) { return absl::InternalError(what); }

// The checks of one remote, in their order.
class RemoteChecker {
 public:
  RemoteChecker(absl::string_view url, const CheckRemoteOptions* options)
      : url_(url), options_(*options) {}

  absl::StatusOr<std::vector<RemoteCheck>> Run();

 private:
  struct Call {
    const char* name;
    Seen (RemoteChecker::*check)();
    const char* remedy;
    Result otherwise = Result::kUnsafe;
  };
  static const std::array<Call, 7> kCalls;

  // Notes what a check has seen. Returns whether it succeeded.
  absl::StatusOr<bool> Note(absl::string_view name, const Seen& seen,
                            absl::string_view remedy,
                            Result otherwise = Result::kUnsafe);
  absl::StatusOr<bool> CheckPlace();
  absl::StatusOr<bool> CheckService();
  absl::Status CheckCalls();

  // Deletes objects that interrupted checks have put, over a connection that
  // cannot be interrupted.
  absl::Status DeleteProbes() const;

  Seen Credentials();
  Seen Put();
  Seen ConditionalPut();
  Seen Token();
  Seen Range();
  Seen ListOrder();
  Seen Delete();
  Seen Uploads();
  Seen Clock();
  Seen Speed();
  Seen Content();

  std::string Key(absl::string_view end) const {
    return absl::StrCat(kFolder, name_, end);
  }
  bool IsS3() const { return absl::StartsWith(url_, "s3://"); }

  const std::string url_;
  const CheckRemoteOptions& options_;
  const std::string name_ = NewUuid();
  const std::string token_ = NewUuid();
  std::unique_ptr<ObjectStore> store_;
  absl::Time put_begin_;
  absl::Time put_end_;
  std::vector<RemoteCheck> checks_;
};

absl::StatusOr<bool> RemoteChecker::Note(absl::string_view name,
                                         const Seen& seen,
                                         absl::string_view remedy,
                                         Result otherwise) {
  CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_.remote.cancelled));
  RemoteCheck check;
  check.name = std::string(name);
  check.observed = seen.ok() ? *seen : std::string(seen.status().message());
  if (!seen.ok()) {
    check.result = otherwise;
    check.remedy = std::string(remedy);
  }
  checks_.push_back(std::move(check));
  return seen.ok();
}

Seen RemoteChecker::Credentials() {
#ifdef CKPTDB_HAS_S3
  return DescribeS3Credentials(url_, options_.remote);
#else
  return absl::UnimplementedError("built without libcurl");
#endif
}

// Looks at what is known before the first request.
absl::StatusOr<bool> RemoteChecker::CheckPlace() {
  if (IsS3()) {
    return Note("credentials", Credentials(),
                "the service refuses each request; set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or configure a profile or a web "
                "identity as docs/remote-s3.md describes");
  }
  const std::string folder(absl::StripPrefix(url_, "file://"));
  struct stat found {};
  if (::stat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) {
    return true;
  }
  return absl::NotFoundError(absl::StrCat(
      "\"", folder, "\" is not a folder; create it, or correct the URL"));
}

// One list shows whether the service answers, whether the bucket exists, and
// whether the credentials may read it.
absl::StatusOr<bool> RemoteChecker::CheckService() {
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status status = store_->List(kFolder, "", 1).status();
  const std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - begin;
  const Seen failed = status.ok() ? Seen("") : Seen(status);
  if (!IsS3()) {
    return Note("folder", status.ok() ? Seen("it can be listed") : failed,
                "let this user read and write the folder");
  }
  const bool answers = !absl::IsUnavailable(status);
  CKPTDB_ASSIGN_OR_RETURN(
      bool good,
      Note("service",
           answers
               ? Seen(absl::StrFormat("it answers, in %.0f ms", took.count()))
               : failed,
           "nothing can be shipped or fetched; check the endpoint "
           "(AWS_ENDPOINT_URL_S3), the network, proxies and certificates"));
  if (!good) return false;
  // Without access nobody knows whether the bucket is there.
  if (!absl::IsPermissionDenied(status)) {
    CKPTDB_ASSIGN_OR_RETURN(
        good, Note("bucket", status.ok() ? Seen("it is there") : failed,
                   "nothing can be shipped; create the bucket, or correct the "
                   "URL, the region and the endpoint"));
  }
  if (!good) return false;
  return Note("access", status.ok() ? Seen("objects can be listed") : failed,
              "nothing can be shipped or fetched; give these credentials the "
              "rights that docs/remote-s3.md lists, or use others");
}

Seen RemoteChecker::Put() {
  put_begin_ = absl::Now();
  CKPTDB_RETURN_IF_ERROR(store_->PutIfAbsent(Key("-b"), kBytes, token_));
  put_end_ = absl::Now();
  return "an object can be put";
}

Seen RemoteChecker::ConditionalPut() {
  const absl::Status second = store_->PutIfAbsent(Key("-b"), "x", NewUuid());
  if (absl::IsAlreadyExists(second)) {
    return "a second put of the same key is refused";
  }
  if (!second.ok()) return second;
  return Wrong("a second put of the same key replaces the object");
}

Seen RemoteChecker::Token() {
  CKPTDB_ASSIGN_OR_RETURN(const ObjectInfo info, store_->Head(Key("-b")));
  if (info.token == token_ && info.size == kBytes.size()) {
    return "an object keeps the token of its put";
  }
  return Wrong(absl::StrCat(
      "an object of ", kBytes.size(), " bytes that was put with token \"",
      token_, "\" has ", info.size, " bytes and token \"", info.token, "\""));
}

Seen RemoteChecker::Range() {
  constexpr size_t kBegin = 4;
  std::string out(8, '\0');
  const absl::Span<char> all(out.data(), out.size());
  CKPTDB_RETURN_IF_ERROR(store_->Get(Key("-b"), kBegin, all));
  if (out != kBytes.substr(kBegin, out.size())) {
    return Wrong("a range has other bytes than were put");
  }
  const absl::Status beyond = store_->Get(Key("-b"), kBytes.size() - 1, all);
  if (absl::IsDataLoss(beyond)) return "a range is read, and no byte beyond";
  if (!beyond.ok()) return beyond;
  return Wrong("a range beyond the end of an object is read without an error");
}

Seen RemoteChecker::ListOrder() {
  // '-' is before '.', and both are before '0'.
  const std::vector<std::string> keys = {Key("-a"), Key("-b"), Key(".c"),
                                         Key("0")};
  for (const std::string& key : keys) {
    if (key == Key("-b")) continue;
    CKPTDB_RETURN_IF_ERROR(store_->PutIfAbsent(key, kBytes, token_));
  }
  std::vector<std::string> found;
  std::string after = Key("");
  for (size_t i = 0; i < keys.size(); ++i) {
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> page,
                            store_->List(kFolder, after, 1));
    if (page.size() != 1 || page[0].key != keys[i]) {
      return Wrong(absl::StrCat("after \"", after, "\" it lists \"",
                                page.empty() ? "" : page[0].key,
                                "\" instead of \"", keys[i], "\""));
    }
    after = page[0].key;
  }
  return "new objects are listed, in the order of their keys' bytes";
}

Seen RemoteChecker::Delete() {
  for (const char* end : kEnds) {
    CKPTDB_RETURN_IF_ERROR(store_->Delete(Key(end)));
  }
  const absl::Status gone = store_->Head(Key("-b")).status();
  if (absl::IsNotFound(gone)) return "a deleted object is gone";
  if (!gone.ok()) return gone;
  return Wrong("a deleted object is still returned");
}

Seen RemoteChecker::Uploads() {
  CKPTDB_RETURN_IF_ERROR(store_->AbortUploads(kFolder, absl::UnixEpoch()));
  return "unfinished uploads can be found";
}

// Services round the time of an object down to seconds.
Seen RemoteChecker::Clock() {
  CKPTDB_ASSIGN_OR_RETURN(const ObjectInfo info, store_->Head(Key("-b")));
  const absl::Duration ahead = info.modified - put_end_;
  const absl::Duration behind = put_begin_ - info.modified - absl::Seconds(1);
  const absl::Duration skew = std::max(ahead, behind);
  if (skew <= absl::ZeroDuration()) {
    return "the service's clock and this machine's agree within a second";
  }
  const std::string text = absl::StrFormat(
      "the service's clock is %.0f s %s this machine's",
      absl::ToDoubleSeconds(skew) + 1, ahead > behind ? "ahead of" : "behind");
  if (skew <= kMostSkew) return text;
  return Wrong(text);
}

Seen RemoteChecker::Speed() {
  std::string bytes(options_.speed_bytes, '\0');
  std::mt19937_64 random(options_.speed_bytes);
  for (char& c : bytes) c = static_cast<char>(random());
  const auto seconds_of = [&](const auto& call) -> absl::StatusOr<double> {
    const auto begin = std::chrono::steady_clock::now();
    CKPTDB_RETURN_IF_ERROR(call());
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;
    return std::max(took.count(), 1e-6);
  };
  CKPTDB_ASSIGN_OR_RETURN(const double put, seconds_of([&] {
                            return store_->PutIfAbsent(Key("-s"), bytes,
                                                       token_);
                          }));
  std::string out(bytes.size(), '\0');
  const absl::StatusOr<double> got = seconds_of([&] {
    return store_->Get(Key("-s"), 0, absl::MakeSpan(out.data(), out.size()));
  });
  CKPTDB_RETURN_IF_ERROR(store_->Delete(Key("-s")));
  CKPTDB_RETURN_IF_ERROR(got.status());
  if (out != bytes) return Wrong("it returned other bytes than were put");
  const double megabytes = static_cast<double>(bytes.size()) / 1e6;
  return absl::StrFormat(
      "one object of %.1f MB: put in %.0f ms (%.1f MB/s), read in %.0f ms "
      "(%.1f MB/s)",
      megabytes, 1e3 * put, megabytes / put, 1e3 * *got, megabytes / *got);
}

Seen RemoteChecker::Content() {
  const absl::StatusOr<RemoteContent> content = ListRemote(store_.get());
  if (absl::IsNotFound(content.status())) return "nothing was shipped here yet";
  CKPTDB_RETURN_IF_ERROR(content.status());
  const std::string dropped =
      content->dropped_bytes == 0
          ? ""
          : absl::StrFormat(", and %.1f MB of dropped ones",
                            static_cast<double>(content->dropped_bytes) / 1e6);
  return absl::StrFormat("%d steps of store %s, the latest %d, %.1f MB%s",
                         content->steps.size(), content->store_uuid,
                         content->latest_step,
                         static_cast<double>(content->bytes) / 1e6, dropped);
}

// The calls of a push, a fetch and a collection, each with its remedy. The
// second put comes last: it may replace the object that the others read.
const std::array<RemoteChecker::Call, 7> RemoteChecker::kCalls = {
    {{"token", &RemoteChecker::Token,
      "a push cannot tell its own objects from another's after a lost "
      "answer, so it refuses the service; let it keep metadata"},
     {"range", &RemoteChecker::Range,
      "a fetch fails; use a service with ranged gets"},
     {"clock", &RemoteChecker::Clock,
      "set this machine's clock, for example with NTP: ages are wrong, and "
      "S3 refuses requests that are 15 minutes off",
      Result::kMissing},
     {"conditional_put", &RemoteChecker::ConditionalPut,
      "two trainers would overwrite each other's steps, so a push refuses "
      "the service; use one with conditional writes, such as Amazon S3, "
      "MinIO or SeaweedFS"},
     {"list_order", &RemoteChecker::ListOrder,
      "the newest steps are not found, so a push refuses the service; use "
      "one with consistent lists in the order of bytes"},
     {"uploads", &RemoteChecker::Uploads,
      "uploads that were interrupted stay, and cost; allow "
      "s3:ListBucketMultipartUploads and s3:AbortMultipartUpload, or let a "
      "rule of the bucket abort them",
      Result::kMissing},
     {"delete", &RemoteChecker::Delete,
      "a push fails after its probe, and gc frees nothing; allow these "
      "credentials s3:DeleteObject"}}};

absl::Status RemoteChecker::CheckCalls() {
  CKPTDB_ASSIGN_OR_RETURN(
      const bool puts,
      Note("put", Put(),
           "a push fails; allow these credentials s3:PutObject, or let this "
           "user write to the folder"));
  if (!puts) return absl::OkStatus();
  for (const Call& call : kCalls) {
    CKPTDB_RETURN_IF_ERROR(
        Note(call.name, (this->*call.check)(), call.remedy, call.otherwise)
            .status());
  }
  if (options_.speed_bytes > 0) {
    CKPTDB_RETURN_IF_ERROR(
        Note("speed", Speed(), "larger objects cannot be put and read back")
            .status());
  }
  return Note("content", Content(),
              "steps cannot be listed; run `ckptdb remote verify` on the URL")
      .status();
}

absl::Status RemoteChecker::DeleteProbes() const {
  RemoteOptions options = options_.remote;
  options.cancelled = nullptr;
  options.deadline = std::min(options.deadline, kDeleteDeadline);
  CKPTDB_ASSIGN_OR_RETURN(const auto store, OpenObjectStore(url_, options));
  for (const char* end : kEnds) {
    CKPTDB_RETURN_IF_ERROR(store->Delete(Key(end)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RemoteCheck>> RemoteChecker::Run() {
  CKPTDB_ASSIGN_OR_RETURN(store_, OpenObjectStore(url_, options_.remote));
  CKPTDB_ASSIGN_OR_RETURN(bool good, CheckPlace());
  if (good) {
    CKPTDB_ASSIGN_OR_RETURN(good, CheckService());
  }
  if (!good) return std::move(checks_);
  const absl::Status checked = CheckCalls();
  if (checked.ok()) return std::move(checks_);
  const absl::Status deleted = DeleteProbes();
  if (deleted.ok()) return checked;
  return absl::Status(
      checked.code(),
      absl::StrCat(checked.message(),
                   "; objects below \"probe/\" stay until a collection: ",
                   deleted.message()));
}

}  // namespace
}  // namespace internal

absl::StatusOr<std::vector<RemoteCheck>> CheckRemote(
    absl::string_view url, const CheckRemoteOptions& options) {
  return internal::CallGuarded("CheckRemote", [&] {
    return internal::RemoteChecker(url, &options).Run();
  });
}

}  // namespace ckptdb
