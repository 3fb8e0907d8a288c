// SPDX-License-Identifier: Apache-2.0
#include "tests/remote/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "remote/s3/http.h"

namespace ckptdb::testing {
namespace {

using internal::s3::PercentDecode;

// Reads from a connection, and keeps what it read too much.
class ConnectionReader {
 public:
  explicit ConnectionReader(int connection) : connection_(connection) {}

  // Returns the bytes up to and with `end`; none if the connection ends.
  std::optional<std::string> ReadTo(const std::string& end) {
    size_t at = 0;
    while ((at = bytes_.find(end)) == std::string::npos) {
      if (!Receive()) return std::nullopt;
    }
    return Take(at + end.size());
  }
  std::optional<std::string> Read(size_t count) {
    while (bytes_.size() < count) {
      if (!Receive()) return std::nullopt;
    }
    return Take(count);
  }

 private:
  std::string Take(size_t count) {
    std::string taken = bytes_.substr(0, count);
    bytes_.erase(0, count);
    return taken;
  }
  bool Receive() {
    std::array<char, 1 << 16> buffer;
    const ssize_t got = recv(connection_, buffer.data(), buffer.size(), 0);
    if (got <= 0) return false;
    bytes_.append(buffer.data(), static_cast<size_t>(got));
    return true;
  }

  const int connection_;
  std::string bytes_;
};

bool SendAll(int connection, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

ServerRequest ParseHead(const std::string& head) {
  ServerRequest request;
  const std::vector<std::string> lines = absl::StrSplit(head, "\r\n");
  const std::vector<std::string> words = absl::StrSplit(lines[0], ' ');
  request.method = words[0];
  const std::pair<std::string, std::string> target =
      absl::StrSplit(words.size() > 1 ? words[1] : "", absl::MaxSplits('?', 1));
  request.path = PercentDecode(target.first);
  request.query = target.second;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::pair<std::string, std::string> header =
        absl::StrSplit(lines[i], absl::MaxSplits(':', 1));
    request.headers[absl::AsciiStrToLower(header.first)] =
        std::string(absl::StripAsciiWhitespace(header.second));
  }
  return request;
}

// Reads a request, of which the body is sent when the server says so.
std::optional<ServerRequest> ReadRequest(int connection,
                                         ConnectionReader* reader) {
  const std::optional<std::string> head = reader->ReadTo("\r\n\r\n");
  if (!head.has_value()) return std::nullopt;
  ServerRequest request = ParseHead(*head);
  if (request.headers.contains("expect")) {
    SendAll(connection, "HTTP/1.1 100 Continue\r\n\r\n");
  }
  uint64_t length = 0;
  if (absl::SimpleAtoi(request.Header("content-length"), &length)) {
    std::optional<std::string> body = reader->Read(length);
    if (!body.has_value()) return std::nullopt;
    request.body = *std::move(body);
  }
  return request;
}

// Waits until the client closes the connection, or the server ends.
void WaitForClose(int connection) {
  std::array<char, 1> byte;
  while (recv(connection, byte.data(), byte.size(), 0) > 0) {
  }
}

}  // namespace

std::string ServerRequest::Header(const std::string& name) const {
  const auto header = headers.find(name);
  return header == headers.end() ? "" : header->second;
}

bool ServerRequest::HasParameter(const std::string& name) const {
  return absl::StrContains("&" + query, absl::StrCat("&", name, "="));
}

std::string ServerRequest::Parameter(const std::string& name) const {
  for (const absl::string_view each : absl::StrSplit(query, '&')) {
    const std::pair<absl::string_view, absl::string_view> parameter =
        absl::StrSplit(each, absl::MaxSplits('=', 1));
    if (parameter.first == name) return PercentDecode(parameter.second);
  }
  return "";
}

ServerResponse S3ErrorAnswer(int status, const std::string& code,
                             const std::string& message) {
  return {
      .status = status,
      .headers = {{"Content-Type", "application/xml"}},
      .body = absl::StrCat("<?xml version=\"1.0\"?><Error><Code>", code,
                           "</Code><Message>", message, "</Message></Error>")};
}

HttpServer::HttpServer(Handler handler) : handler_(std::move(handler)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listener_, any, bytes), 0);
  EXPECT_EQ(listen(listener_, SOMAXCONN), 0);
  EXPECT_EQ(getsockname(listener_, any, &bytes), 0);
  port_ = ntohs(address.sin_port);
  accepter_ = std::thread([this] { Accept(); });
}

HttpServer::~HttpServer() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    for (const int connection : connections_) shutdown(connection, SHUT_RDWR);
  }
  shutdown(listener_, SHUT_RDWR);
  accepter_.join();
  close(listener_);
  for (std::thread& thread : threads_) thread.join();
}

std::string HttpServer::url() const {
  return absl::StrCat("http://127.0.0.1:", port_);
}

void HttpServer::Intercept(Interceptor interceptor) {
  const std::lock_guard<std::mutex> lock(interceptor_mutex_);
  interceptor_ = std::move(interceptor);
}

std::vector<std::string> HttpServer::Requests() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return requests_;
}

int HttpServer::Count(const std::string& prefix) const {
  const std::vector<std::string> requests = Requests();
  return static_cast<int>(std::count_if(
      requests.begin(), requests.end(), [&](const std::string& request) {
        return absl::StartsWith(request, prefix);
      }));
}

void HttpServer::ForgetRequests() {
  const std::lock_guard<std::mutex> lock(mutex_);
  requests_.clear();
}

void HttpServer::Accept() {
  for (;;) {
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (connection < 0 || stopped_) {
      if (connection >= 0) close(connection);
      return;
    }
    const int on = 1;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    connections_.insert(connection);
    threads_.emplace_back([this, connection] { Serve(connection); });
  }
}

void HttpServer::Serve(int connection) {
  ConnectionReader reader(connection);
  for (;;) {
    const std::optional<ServerRequest> request =
        ReadRequest(connection, &reader);
    if (!request.has_value()) break;
    const int at_once = ++at_once_;
    int most = most_at_once_;
    while (at_once > most &&
           !most_at_once_.compare_exchange_weak(most, at_once)) {
    }
    const ServerResponse response = Answer(*request);
    --at_once_;
    if (!Send(connection, *request, response)) break;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  connections_.erase(connection);
  close(connection);
}

ServerResponse HttpServer::Answer(const ServerRequest& request) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    requests_.push_back(absl::StrCat(request.method, " ", request.path,
                                     request.query.empty() ? "" : "?",
                                     request.query));
  }
  {
    const std::lock_guard<std::mutex> lock(interceptor_mutex_);
    if (interceptor_) {
      std::optional<ServerResponse> answer = interceptor_(request);
      if (answer.has_value()) return *std::move(answer);
    }
  }
  return handler_(request);
}

bool HttpServer::Send(int connection, const ServerRequest& request,
                      const ServerResponse& response) {
  if (response.end == AnswerEnd::kNothing) return false;
  if (response.end == AnswerEnd::kStall) {
    WaitForClose(connection);
    return false;
  }
  std::string head = absl::StrCat("HTTP/1.1 ", response.status, " Answer\r\n");
  for (const auto& [name, value] : response.headers) {
    absl::StrAppend(&head, name, ": ", value, "\r\n");
  }
  absl::StrAppend(&head, "Content-Length: ",
                  response.length.value_or(response.body.size()), "\r\n\r\n");
  if (!SendAll(connection, head)) return false;
  absl::string_view body = response.body;
  if (request.method == "HEAD") body = "";
  if (response.end == AnswerEnd::kCut) body = body.substr(0, body.size() / 2);
  return SendAll(connection, body) && response.end == AnswerEnd::kWhole;
}

}  // namespace ckptdb::testing
