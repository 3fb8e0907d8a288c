// SPDX-License-Identifier: Apache-2.0
// s3_bench: how fast files are put and got, against libcurl alone with the same
// requests, in turns; and how exactly the limit of bytes is kept. Starts
// SeaweedFS unless --endpoint names a service.
#include <curl/curl.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "db/base/uuid.h"
#include "remote/s3/multipart_put.h"
#include "remote/s3/open_s3.h"
#include "remote/s3/s3_xml.h"
#include "schema/status.h"
#include "tests/remote/aws_environment.h"
#include "tests/remote/real_service.h"
#include "tests/support/on_threads.h"

namespace ckptdb::testing {
namespace {

using Clock = std::chrono::steady_clock;
using internal::s3::CompletionOf;
using internal::s3::ParseUploadId;
using internal::s3::PartBytesOf;

struct BenchSetting {
  std::string endpoint;
  std::string bucket = "bucket";
  uint64_t bytes = uint64_t{256} << 20;
  uint64_t range_bytes = uint64_t{8} << 20;
  int connections = 8;
  int repetitions = 5;
  uint64_t rate = uint64_t{16} << 20;  // bytes per second, to measure the limit
};

absl::StatusOr<double> SecondsOf(const std::function<absl::Status()>& run) {
  const Clock::time_point begin = Clock::now();
  CKPTDB_RETURN_IF_ERROR(run());
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One request by curl's easy interface.
class RawRequest {
 public:
  RawRequest(CURL* easy, const std::string& url) : easy_(easy) {
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, "aws:amz:us-east-1:s3");
    curl_easy_setopt(easy, CURLOPT_USERNAME, kTestKeyId);
    curl_easy_setopt(easy, CURLOPT_PASSWORD, kTestSecret);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 512L << 10);
    curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
    curl_easy_setopt(easy, CURLOPT_EXPECT_100_TIMEOUT_MS, 200L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &OnBody);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &OnHeader);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, this);
    headers_ =
        curl_slist_append(nullptr, "x-amz-content-sha256: UNSIGNED-PAYLOAD");
    headers_ =
        curl_slist_append(headers_, "content-type: application/octet-stream");
  }
  ~RawRequest() { curl_slist_free_all(headers_); }
  RawRequest(const RawRequest&) = delete;
  RawRequest& operator=(const RawRequest&) = delete;

  void Post(const std::string& body) {
    curl_easy_setopt(easy_, CURLOPT_POST, 1L);
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE,
                     static_cast<long>(body.size()));
    curl_easy_setopt(easy_, CURLOPT_COPYPOSTFIELDS, body.c_str());
  }
  void Put(int file, uint64_t offset, uint64_t bytes) {
    file_ = file;
    at_ = offset;
    end_ = offset + bytes;
    curl_easy_setopt(easy_, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy_, CURLOPT_INFILESIZE_LARGE,
                     static_cast<curl_off_t>(bytes));
    curl_easy_setopt(easy_, CURLOPT_READFUNCTION, &OnRead);
    curl_easy_setopt(easy_, CURLOPT_READDATA, this);
  }
  void Get(const std::string& range, char* out) {
    out_ = out;
    curl_easy_setopt(easy_, CURLOPT_RANGE, range.c_str());
  }
  absl::Status Perform() {
    curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers_);
    const CURLcode code = curl_easy_perform(easy_);
    long status = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK && status / 100 == 2) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat(curl_easy_strerror(code), " ", status, " ", body_));
  }
  const std::string& body() const { return body_; }
  const std::string& etag() const { return etag_; }

 private:
  static size_t OnBody(char* data, size_t /*one*/, size_t bytes, void* user) {
    auto* const request = static_cast<RawRequest*>(user);
    if (request->out_ == nullptr) {
      request->body_.append(data, bytes);
    } else {
      std::copy_n(data, bytes, request->out_);
      request->out_ += bytes;
    }
    return bytes;
  }
  static size_t OnHeader(char* data, size_t /*one*/, size_t bytes, void* user) {
    absl::string_view line(data, bytes);
    if (absl::StartsWithIgnoreCase(line, "etag:")) {
      line.remove_prefix(5);
      static_cast<RawRequest*>(user)->etag_ =
          std::string(absl::StripAsciiWhitespace(line));
    }
    return bytes;
  }
  static size_t OnRead(char* to, size_t /*one*/, size_t bytes, void* user) {
    auto* const request = static_cast<RawRequest*>(user);
    const size_t count =
        std::min<uint64_t>(bytes, request->end_ - request->at_);
    const ssize_t got =
        pread(request->file_, to, count, static_cast<off_t>(request->at_));
    if (got < 0) return CURL_READFUNC_ABORT;
    request->at_ += static_cast<uint64_t>(got);
    return static_cast<size_t>(got);
  }

  CURL* const easy_;
  curl_slist* headers_ = nullptr;
  std::string body_;
  std::string etag_;
  char* out_ = nullptr;
  int file_ = -1;
  uint64_t at_ = 0;
  uint64_t end_ = 0;
};

class S3Bench {
 public:
  explicit S3Bench(const BenchSetting& setting) : setting_(setting) {
    for (int i = 0; i < setting.connections; ++i) {
      handles_.push_back(curl_easy_init());
    }
  }
  ~S3Bench() {
    for (CURL* handle : handles_) curl_easy_cleanup(handle);
  }

  absl::Status Run();

 private:
  std::string UrlOf(const std::string& key, const std::string& query) const {
    return absl::StrCat(setting_.endpoint, "/", setting_.bucket, "/bench/", key,
                        query);
  }
  std::string StoreUrl() const {
    return absl::StrCat("s3://", setting_.bucket,
                        "/bench?endpoint=", setting_.endpoint);
  }
  // Calls task(i, handle) for each i below `count` on all connections.
  absl::Status OnAll(uint64_t count,
                     const std::function<absl::Status(uint64_t, CURL*)>& task);
  absl::Status RawPut(const std::string& key);
  absl::Status RawGet(const std::string& key);
  absl::Status OurGet(ObjectStore& store, const std::string& key,
                      uint64_t bytes);
  absl::Status MeasureLimit();
  std::string MakeFile(const std::string& name, uint64_t bytes) const;

  const BenchSetting setting_;
  std::vector<CURL*> handles_;
  TempDir dir_;
  std::string path_;
  std::vector<char> out_;
};

std::string S3Bench::MakeFile(const std::string& name, uint64_t bytes) const {
  const std::string path = absl::StrCat(dir_.path(), "/", name);
  std::mt19937_64 random(1);
  std::vector<uint64_t> words(bytes / sizeof(uint64_t));
  for (uint64_t& word : words) word = random();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()),
             static_cast<std::streamsize>(words.size() * sizeof(uint64_t)));
  return path;
}

absl::Status S3Bench::OnAll(
    uint64_t count, const std::function<absl::Status(uint64_t, CURL*)>& task) {
  std::atomic<uint64_t> next = 0;
  std::vector<absl::Status> results(handles_.size());
  RunOnThreads(static_cast<uint32_t>(handles_.size()), [&](uint32_t thread) {
    for (uint64_t i = next++; i < count && results[thread].ok(); i = next++) {
      results[thread] = task(i, handles_[thread]);
    }
  });
  for (const absl::Status& result : results) CKPTDB_RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

absl::Status S3Bench::RawPut(const std::string& key) {
  RawRequest begin(handles_[0], UrlOf(key, "?uploads="));
  begin.Post("");
  CKPTDB_RETURN_IF_ERROR(begin.Perform());
  CKPTDB_ASSIGN_OR_RETURN(const std::string id, ParseUploadId(begin.body()));
  const uint64_t part = PartBytesOf(setting_.bytes);
  const uint64_t parts = (setting_.bytes + part - 1) / part;
  std::vector<std::string> etags(parts);
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  const absl::Status sent = OnAll(parts, [&](uint64_t i, CURL* handle) {
    RawRequest put(handle, UrlOf(key, absl::StrCat("?partNumber=", i + 1,
                                                   "&uploadId=", id)));
    put.Put(file, i * part, std::min(part, setting_.bytes - i * part));
    absl::Status status = put.Perform();
    etags[i] = put.etag();
    return status;
  });
  close(file);
  CKPTDB_RETURN_IF_ERROR(sent);
  RawRequest end(handles_[0], UrlOf(key, "?uploadId=" + id));
  end.Post(CompletionOf(etags));
  return end.Perform();
}

absl::Status S3Bench::RawGet(const std::string& key) {
  const uint64_t step = setting_.range_bytes;
  return OnAll(
      (setting_.bytes + step - 1) / step, [&](uint64_t i, CURL* handle) {
        const uint64_t begin = i * step;
        const uint64_t end = std::min(begin + step, setting_.bytes);
        RawRequest get(handle, UrlOf(key, ""));
        get.Get(absl::StrCat(begin, "-", end - 1), out_.data() + begin);
        return get.Perform();
      });
}

absl::Status S3Bench::OurGet(ObjectStore& store, const std::string& key,
                             uint64_t bytes) {
  const uint64_t step = setting_.range_bytes;
  return OnAll((bytes + step - 1) / step, [&](uint64_t i, CURL* /*handle*/) {
    const uint64_t begin = i * step;
    const uint64_t end = std::min(begin + step, bytes);
    return store.Get(key, begin,
                     absl::MakeSpan(out_.data() + begin, end - begin));
  });
}

// A file that takes about four seconds.
absl::Status S3Bench::MeasureLimit() {
  const uint64_t rate = setting_.rate;
  const uint64_t bytes = std::min(4 * rate, setting_.bytes);
  const std::string path = MakeFile("limited", bytes);
  CKPTDB_ASSIGN_OR_RETURN(
      const std::unique_ptr<ObjectStore> store,
      internal::OpenS3(StoreUrl(), {.connections = setting_.connections,
                                    .bytes_per_second = rate}));
  CKPTDB_ASSIGN_OR_RETURN(
      const double put,
      SecondsOf([&] { return store->PutFileIfAbsent("limited", path, "t1"); }));
  CKPTDB_ASSIGN_OR_RETURN(const double get, SecondsOf([&] {
                            return OurGet(*store, "limited", bytes);
                          }));
  CKPTDB_RETURN_IF_ERROR(store->Delete("limited"));
  const auto moved = static_cast<double>(bytes);
  std::printf(
      "limit    put %.3f, get %.3f of the rate of %.0f MB/s (0.9 to "
      "1.1)\n",
      moved / put / rate, moved / get / rate, rate / 1e6);
  return absl::OkStatus();
}

absl::Status S3Bench::Run() {
  path_ = MakeFile("file", setting_.bytes);
  out_.resize(setting_.bytes);
  CKPTDB_ASSIGN_OR_RETURN(
      const std::unique_ptr<ObjectStore> store,
      internal::OpenS3(StoreUrl(), {.connections = setting_.connections}));
  std::vector<double> raw_put, our_put, raw_get, our_get;
  for (int i = 0; i < setting_.repetitions; ++i) {
    const std::function<absl::Status()> raw = [&]() -> absl::Status {
      CKPTDB_ASSIGN_OR_RETURN(raw_put.emplace_back(),
                              SecondsOf([&] { return RawPut("raw"); }));
      CKPTDB_ASSIGN_OR_RETURN(raw_get.emplace_back(),
                              SecondsOf([&] { return RawGet("raw"); }));
      return store->Delete("raw");
    };
    const std::function<absl::Status()> ours = [&]() -> absl::Status {
      CKPTDB_ASSIGN_OR_RETURN(our_put.emplace_back(), SecondsOf([&] {
                                return store->PutFileIfAbsent("ours", path_,
                                                              "t1");
                              }));
      CKPTDB_ASSIGN_OR_RETURN(our_get.emplace_back(), SecondsOf([&] {
                                return OurGet(*store, "ours", setting_.bytes);
                              }));
      return store->Delete("ours");
    };
    CKPTDB_RETURN_IF_ERROR(i % 2 == 0 ? raw() : ours());
    CKPTDB_RETURN_IF_ERROR(i % 2 == 0 ? ours() : raw());
  }
  const double mb = static_cast<double>(setting_.bytes) / 1e6;
  std::printf("put      %.0f MB/s, libcurl alone %.0f: %.3f of it (>= 0.9)\n",
              mb / MedianOf(our_put), mb / MedianOf(raw_put),
              MedianOf(raw_put) / MedianOf(our_put));
  std::printf("get      %.0f MB/s, libcurl alone %.0f: %.3f of it (>= 0.8)\n",
              mb / MedianOf(our_get), mb / MedianOf(raw_get),
              MedianOf(raw_get) / MedianOf(our_get));
  return MeasureLimit();
}

int Main(int argc, char** argv) {
  BenchSetting setting;
  CLI::App app("Measures remote/s3 against libcurl alone.");
  app.add_option("--endpoint", setting.endpoint,
                 "A service with bucket `bucket`; SeaweedFS if empty");
  app.add_option("--bytes", setting.bytes)->capture_default_str();
  app.add_option("--connections", setting.connections)->capture_default_str();
  app.add_option("--rate", setting.rate)->capture_default_str();
  app.add_option("--repetitions", setting.repetitions)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  AwsEnvironment environment;
  environment.SetKeys();
  std::unique_ptr<RealService> service;
  absl::Status status;
  if (setting.endpoint.empty()) {
    absl::StatusOr<std::unique_ptr<RealService>> started =
        RealService::SeaweedFs();
    status = started.status();
    if (started.ok()) {
      service = *std::move(started);
      setting.endpoint = service->endpoint();
    }
  }
  if (status.ok()) status = S3Bench(setting).Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace ckptdb::testing

int main(int argc, char** argv) { return ckptdb::testing::Main(argc, argv); }
