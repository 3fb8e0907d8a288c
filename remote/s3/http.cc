// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/http.h"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb::internal::s3 {

namespace {

// No answer of a service but an object is longer.
constexpr uint64_t kMaxBodyBytes = uint64_t{16} << 20;
constexpr long kConnectTimeoutMs = 10'000;
// The time that a service has to refuse an upload before its body is sent.
constexpr long kExpectTimeoutMs = 200;
// The size of curl's buffers; a limited rate is more even with small ones.
constexpr long kBufferBytes = 512L << 10;
constexpr long kLimitedBufferBytes = 16L << 10;

void InitializeCurl() {
  static const CURLcode kInitialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  static_cast<void>(kInitialized);
}

// The state of one request, which curl's callbacks see.
struct Transfer {
  const HttpRequest& request;
  ByteRate& rate;
  CURL* easy = nullptr;
  HttpResponse response = {};
  uint64_t sent = 0;  // of the body
  SteadyClock::time_point moved = SteadyClock::now();
  absl::Status error = absl::OkStatus();  // set by a callback

  uint64_t body_bytes() const {
    return request.file.file >= 0 ? request.file.bytes : request.body.size();
  }
  void Moved(uint64_t bytes) {
    moved = SteadyClock::now();
    rate.Take(bytes);
  }
};

// An exception must not reach curl, which is written in C.
template <typename Function>
size_t WithoutThrowing(Transfer* transfer, size_t on_error, Function function) {
  try {
    return function();
  } catch (...) {
    transfer->error = absl::ResourceExhaustedError("out of memory");
    return on_error;
  }
}

size_t OnHeader(char* data, size_t /*one*/, size_t bytes, void* user) {
  auto* const transfer = static_cast<Transfer*>(user);
  return WithoutThrowing(transfer, 0, [&] {
    const absl::string_view line(data, bytes);
    auto& headers = transfer->response.headers;
    transfer->moved = SteadyClock::now();
    // The first line of this answer, or of the one after 100 Continue.
    if (absl::StartsWith(line, "HTTP/")) headers.clear();
    const size_t colon = line.find(':');
    if (colon != absl::string_view::npos) {
      headers[absl::AsciiStrToLower(line.substr(0, colon))] =
          std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    }
    return bytes;
  });
}

size_t WriteOut(absl::string_view data, Transfer* transfer) {
  HttpResponse& response = transfer->response;
  const absl::Span<char> left =
      transfer->request.out.subspan(response.out_bytes);
  if (data.size() > left.size()) {
    response.too_long = true;
    return 0;
  }
  std::memcpy(left.data(), data.data(), data.size());
  response.out_bytes += data.size();
  return data.size();
}

size_t OnBody(char* data, size_t /*one*/, size_t bytes, void* user) {
  auto* const transfer = static_cast<Transfer*>(user);
  return WithoutThrowing(transfer, 0, [&]() -> size_t {
    transfer->Moved(bytes);
    long status = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if ((status == 200 || status == 206) && !transfer->request.out.empty()) {
      return WriteOut({data, bytes}, transfer);
    }
    std::string& body = transfer->response.body;
    if (body.size() + bytes > kMaxBodyBytes) {
      transfer->error = absl::DataLossError(
          absl::StrCat("an answer is longer than ", kMaxBodyBytes, " bytes"));
      return 0;
    }
    body.append(data, bytes);
    return bytes;
  });
}

// Returns the bytes read, 0 with Transfer::error set if that fails.
size_t ReadPart(char* to, size_t bytes, Transfer* transfer) {
  const FilePart& part = transfer->request.file;
  ssize_t got = -1;
  do {
    got = pread(part.file, to, bytes,
                static_cast<off_t>(part.offset + transfer->sent));
  } while (got < 0 && errno == EINTR);
  if (got > 0) return static_cast<size_t>(got);
  transfer->error =
      got < 0 ? absl::InternalError(absl::StrCat("cannot read the file: ",
                                                 std::strerror(errno)))
              : absl::FailedPreconditionError(absl::StrCat(
                    "the file has become shorter than ",
                    part.offset + part.bytes, " bytes while it was sent"));
  return 0;
}

size_t OnRead(char* to, size_t /*one*/, size_t bytes, void* user) {
  auto* const transfer = static_cast<Transfer*>(user);
  return WithoutThrowing(transfer, CURL_READFUNC_ABORT, [&]() -> size_t {
    size_t count =
        std::min<uint64_t>(bytes, transfer->body_bytes() - transfer->sent);
    if (count == 0) return 0;
    if (transfer->request.file.file >= 0) {
      count = ReadPart(to, count, transfer);
      if (count == 0) return CURL_READFUNC_ABORT;
    } else {
      std::memcpy(to, transfer->request.body.data() + transfer->sent, count);
    }
    transfer->sent += count;
    transfer->Moved(count);
    return count;
  });
}

// curl sends a body again on a new connection if a kept one was closed.
int OnSeek(void* user, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Transfer*>(user)->sent = static_cast<uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

absl::Status StatusOfCurl(CURLcode code, const char* detail) {
  const std::string text =
      detail[0] != '\0' ? detail : curl_easy_strerror(code);
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return absl::FailedPreconditionError(absl::StrCat(
          text,
          "; if the service's certificate is signed by a private CA, "
          "set AWS_CA_BUNDLE to the file with that CA's certificate"));
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_BAD_FUNCTION_ARGUMENT:
    case CURLE_NOT_BUILT_IN:
    case CURLE_UNKNOWN_OPTION:
      return absl::FailedPreconditionError(text);
    case CURLE_OUT_OF_MEMORY:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

// Leaves a RequestLimit when it is destroyed.
struct HttpPlace {
  RequestLimit& limit;
  ~HttpPlace() { limit.Leave(); }
};

// The file of certificates that the environment names; empty: the system's.
std::string CaBundle() {
  for (const char* name :
       {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && value[0] != '\0') return value;
  }
  return "";
}

}  // namespace

std::string HttpResponse::Header(const std::string& name) const {
  const auto header = headers.find(name);
  return header == headers.end() ? "" : header->second;
}

// A handle with the connections that it keeps. Only one thread uses it at a
// time.
class HttpClient::Connection {
 public:
  Connection() : easy_(curl_easy_init()), multi_(curl_multi_init()) {}
  ~Connection() {
    curl_easy_cleanup(easy_);
    curl_multi_cleanup(multi_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request,
                                    const std::string& ca_bundle,
                                    const Poll& poll, ByteRate* rate);

 private:
  template <typename Value>
  void Set(CURLoption option, Value value) {
    const CURLcode code = curl_easy_setopt(easy_, option, value);
    if (code != CURLE_OK && set_ == CURLE_OK) set_ = code;
  }
  void SetUp(const HttpRequest& request, const std::string& ca_bundle,
             Transfer* transfer);
  void SetMethod(const HttpRequest& request, Transfer* transfer);
  void SetHeaders(const HttpRequest& request);
  // Moves bytes until the request ends. Returns its result.
  absl::StatusOr<CURLcode> Run(const Poll& poll, Transfer* transfer);

  CURL* const easy_;
  CURLM* const multi_;
  CURLcode set_ = CURLE_OK;  // of the first option that failed
  curl_slist* headers_ = nullptr;
  std::array<char, CURL_ERROR_SIZE> detail_ = {};
};

void HttpClient::Connection::SetUp(const HttpRequest& request,
                                   const std::string& ca_bundle,
                                   Transfer* transfer) {
  curl_easy_reset(easy_);
  set_ = CURLE_OK;
  detail_[0] = '\0';
  const long buffer =
      transfer->rate.limited() ? kLimitedBufferBytes : kBufferBytes;
  Set(CURLOPT_NOSIGNAL, 1L);
  // A call that is cancelled does not wait for the resolver of names.
  Set(CURLOPT_QUICK_EXIT, 1L);
  Set(CURLOPT_URL, request.url.c_str());
  Set(CURLOPT_PROTOCOLS_STR, "http,https");
  Set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  Set(CURLOPT_TCP_KEEPALIVE, 1L);
  Set(CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  Set(CURLOPT_EXPECT_100_TIMEOUT_MS, kExpectTimeoutMs);
  Set(CURLOPT_BUFFERSIZE, buffer);
  Set(CURLOPT_UPLOAD_BUFFERSIZE, buffer);
  Set(CURLOPT_ERRORBUFFER, detail_.data());
  Set(CURLOPT_HEADERFUNCTION, &OnHeader);
  Set(CURLOPT_HEADERDATA, transfer);
  Set(CURLOPT_WRITEFUNCTION, &OnBody);
  Set(CURLOPT_WRITEDATA, transfer);
  if (!ca_bundle.empty()) Set(CURLOPT_CAINFO, ca_bundle.c_str());
  if (!request.range.empty()) Set(CURLOPT_RANGE, request.range.c_str());
  if (!request.signature.scope.empty()) {
    Set(CURLOPT_AWS_SIGV4, request.signature.scope.c_str());
    Set(CURLOPT_USERNAME, request.signature.user.c_str());
    Set(CURLOPT_PASSWORD, request.signature.password.c_str());
  }
  SetMethod(request, transfer);
  SetHeaders(request);
}

void HttpClient::Connection::SetMethod(const HttpRequest& request,
                                       Transfer* transfer) {
  if (request.method == "HEAD") {
    Set(CURLOPT_NOBODY, 1L);
  } else if (request.method == "PUT") {
    Set(CURLOPT_UPLOAD, 1L);
    Set(CURLOPT_INFILESIZE_LARGE,
        static_cast<curl_off_t>(transfer->body_bytes()));
    Set(CURLOPT_READFUNCTION, &OnRead);
    Set(CURLOPT_READDATA, transfer);
    Set(CURLOPT_SEEKFUNCTION, &OnSeek);
    Set(CURLOPT_SEEKDATA, transfer);
  } else if (request.method == "POST") {
    Set(CURLOPT_POST, 1L);
    Set(CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
    Set(CURLOPT_POSTFIELDSIZE_LARGE,
        static_cast<curl_off_t>(request.body.size()));
  } else if (request.method != "GET") {
    Set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

void HttpClient::Connection::SetHeaders(const HttpRequest& request) {
  for (const std::string& header : request.headers) {
    curl_slist* const longer = curl_slist_append(headers_, header.c_str());
    if (longer == nullptr) {
      set_ = CURLE_OUT_OF_MEMORY;
      return;
    }
    headers_ = longer;
  }
  Set(CURLOPT_HTTPHEADER, headers_);
}

absl::StatusOr<CURLcode> HttpClient::Connection::Run(const Poll& poll,
                                                     Transfer* transfer) {
  // Not for each packet: the caller's function may be slow.
  SteadyClock::time_point polled = {};
  const Poll seldom = [&]() -> absl::Status {
    if (SteadyClock::now() - polled < kPollEvery) return absl::OkStatus();
    polled = SteadyClock::now();
    return poll();
  };
  for (;;) {
    CKPTDB_RETURN_IF_ERROR(seldom());
    const SteadyClock::duration delay = transfer->rate.Delay();
    if (delay > SteadyClock::duration::zero()) {
      // Waiting for the rate is not a stall of the service.
      CKPTDB_RETURN_IF_ERROR(Pause(delay, seldom));
      transfer->moved = SteadyClock::now();
    }
    int running = 0;
    const CURLMcode code = curl_multi_perform(multi_, &running);
    if (code != CURLM_OK) {
      return absl::InternalError(curl_multi_strerror(code));
    }
    if (running == 0) break;
    const SteadyClock::duration idle = SteadyClock::now() - transfer->moved;
    if (idle >= transfer->request.stall) {
      return absl::UnavailableError(absl::StrCat(
          "no byte was sent or received for ",
          std::chrono::duration_cast<std::chrono::milliseconds>(idle).count(),
          " ms"));
    }
    curl_multi_poll(multi_, nullptr, 0, int{kPollEvery.count()}, nullptr);
  }
  int left = 0;
  const CURLMsg* const message = curl_multi_info_read(multi_, &left);
  return message == nullptr ? CURLE_GOT_NOTHING : message->data.result;
}

absl::StatusOr<HttpResponse> HttpClient::Connection::Send(
    const HttpRequest& request, const std::string& ca_bundle, const Poll& poll,
    ByteRate* rate) {
  if (easy_ == nullptr || multi_ == nullptr) {
    return absl::ResourceExhaustedError("curl has no memory for a handle");
  }
  Transfer transfer = {.request = request, .rate = *rate, .easy = easy_};
  SetUp(request, ca_bundle, &transfer);
  if (set_ == CURLE_OK && curl_multi_add_handle(multi_, easy_) != CURLM_OK) {
    set_ = CURLE_FAILED_INIT;
  }
  absl::StatusOr<CURLcode> code = set_;
  if (set_ == CURLE_OK) {
    code = Run(poll, &transfer);
    // Closes the connection of a request that has not ended.
    curl_multi_remove_handle(multi_, easy_);
  }
  curl_slist_free_all(headers_);
  headers_ = nullptr;
  CKPTDB_RETURN_IF_ERROR(transfer.error);
  CKPTDB_RETURN_IF_ERROR(code.status());
  long status = 0;
  curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
  transfer.response.status = static_cast<int>(status);
  if (*code != CURLE_OK && !transfer.response.too_long) {
    return StatusOfCurl(*code, detail_.data());
  }
  return std::move(transfer.response);
}

HttpClient::HttpClient(const RemoteOptions& options)
    : poll_(PollOfOptions(options)),
      ca_bundle_(CaBundle()),
      rate_(options.bytes_per_second),
      limit_(options.connections) {
  InitializeCurl();
}

HttpClient::~HttpClient() = default;

std::unique_ptr<HttpClient::Connection> HttpClient::TakeConnection() {
  const MutexLock lock(&mutex_);
  if (idle_.empty()) return std::make_unique<Connection>();
  std::unique_ptr<Connection> connection = std::move(idle_.back());
  idle_.pop_back();
  return connection;
}

void HttpClient::KeepConnection(std::unique_ptr<Connection> connection) {
  const MutexLock lock(&mutex_);
  idle_.push_back(std::move(connection));
}

absl::StatusOr<HttpResponse> HttpClient::Send(const HttpRequest& request) {
  CKPTDB_RETURN_IF_ERROR(limit_.Enter(poll_));
  const HttpPlace place = {limit_};
  const SteadyClock::time_point began = SteadyClock::now();
  std::unique_ptr<Connection> connection = TakeConnection();
  absl::StatusOr<HttpResponse> response =
      connection->Send(request, ca_bundle_, poll_, &rate_);
  KeepConnection(std::move(connection));
  if (!response.ok()) return response;
  if (response->status == 503 || response->status == 429) {
    limit_.SlowDown(began);
  } else if (response->status < 400) {
    limit_.Succeeded();
  }
  return response;
}

std::string PercentEncode(absl::string_view text) {
  if (text.empty()) return "";
  char* const encoded =
      curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size()));
  std::string result(encoded == nullptr ? "" : encoded);
  curl_free(encoded);
  return result;
}

std::string PercentDecode(absl::string_view text) {
  if (text.empty()) return "";
  int bytes = 0;
  char* const decoded = curl_easy_unescape(
      nullptr, text.data(), static_cast<int>(text.size()), &bytes);
  std::string result(decoded == nullptr ? "" : decoded,
                     static_cast<size_t>(decoded == nullptr ? 0 : bytes));
  curl_free(decoded);
  return result;
}

}  // namespace ckptdb::internal::s3
