#include "tools/push/http_post.h"

#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <memory>

#include "base/error.h"

namespace heapsnap {

namespace {

constexpr size_t kAnswerReadMost = 64 * 1024;  // of the body, and of all headers

struct Curl {
  decltype(curl_global_init)* global_init = nullptr;
  decltype(curl_easy_init)* easy_init = nullptr;
  decltype(curl_easy_setopt)* setopt = nullptr;
  decltype(curl_easy_perform)* perform = nullptr;
  decltype(curl_easy_getinfo)* getinfo = nullptr;
  decltype(curl_easy_strerror)* strerror = nullptr;
  decltype(curl_easy_cleanup)* cleanup = nullptr;
  decltype(curl_slist_append)* append = nullptr;
  decltype(curl_slist_free_all)* free_all = nullptr;
};

template <typename Function>
void look_up(void* library, const char* name, Function*& function, bool& is_whole) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  is_whole = is_whole && function != nullptr;
}

Curl load_curl() {
  // Never unloaded: it keeps state of its own until the process ends.
  void* library = nullptr;
  for (const char* name : {"libcurl-gnutls.so.4", "libcurl.so.4"}) {
    if (library == nullptr) library = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  }
  Curl curl;
  bool is_whole = library != nullptr;
  if (is_whole) {
    look_up(library, "curl_global_init", curl.global_init, is_whole);
    look_up(library, "curl_easy_init", curl.easy_init, is_whole);
    look_up(library, "curl_easy_setopt", curl.setopt, is_whole);
    look_up(library, "curl_easy_perform", curl.perform, is_whole);
    look_up(library, "curl_easy_getinfo", curl.getinfo, is_whole);
    look_up(library, "curl_easy_strerror", curl.strerror, is_whole);
    look_up(library, "curl_easy_cleanup", curl.cleanup, is_whole);
    look_up(library, "curl_slist_append", curl.append, is_whole);
    look_up(library, "curl_slist_free_all", curl.free_all, is_whole);
  }
  if (!is_whole || curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    throw Error(ErrorKind::kUnsupported, "push", "libcurl is not installed on this machine",
                "apt-get install libcurl3-gnutls, or take the profile to another machine: "
                "heapsnap export SNAPSHOT --format pprof -o FILE");
  }
  return curl;
}

struct Received {
  HttpAnswer* answer = nullptr;
  size_t body_bytes = 0;
  size_t header_bytes = 0;
  bool is_too_long = false;
};

// A return value other than the number of bytes ends the transfer.
size_t take_body(char* data, size_t /*one*/, size_t size, void* to) {
  Received& received = *static_cast<Received*>(to);
  std::string& kept = received.answer->body;
  kept.append(data, std::min(size, HttpAnswer::kAnswerKept - kept.size()));
  received.body_bytes += size;
  received.is_too_long = received.body_bytes > kAnswerReadMost;
  return received.is_too_long ? 0 : size;
}

size_t take_header(char* /*data*/, size_t /*one*/, size_t size, void* to) {
  Received& received = *static_cast<Received*>(to);
  received.header_bytes += size;
  received.is_too_long = received.header_bytes > kAnswerReadMost;
  return received.is_too_long ? 0 : size;
}

// Whether the same request may succeed a little later.
bool may_pass(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE: return true;
    default: return false;
  }
}

}  // namespace

HttpAnswer http_post(const HttpRequest& request) {
  static const Curl curl = load_curl();
  const std::unique_ptr<CURL, decltype(curl.cleanup)> easy(curl.easy_init(), curl.cleanup);
  if (!easy) throw std::bad_alloc();
  curl_slist* list = curl.append(nullptr, "Expect:");  // the body is sent at once
  for (const std::string& header : request.headers) list = curl.append(list, header.c_str());
  const std::unique_ptr<curl_slist, decltype(curl.free_all)> headers(list, curl.free_all);

  HttpAnswer answer;
  Received received{&answer};
  char reason[CURL_ERROR_SIZE] = "";
  const auto set = [&](CURLoption option, auto value) { curl.setopt(easy.get(), option, value); };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_POST, 1L);
  set(CURLOPT_POSTFIELDS, request.body.data());
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  if (!request.ca_file.empty()) set(CURLOPT_CAINFO, request.ca_file.c_str());
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout_ms));
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_WRITEFUNCTION, take_body);
  set(CURLOPT_WRITEDATA, &received);
  set(CURLOPT_HEADERFUNCTION, take_header);
  set(CURLOPT_HEADERDATA, &received);
  set(CURLOPT_ERRORBUFFER, reason);

  const CURLcode code = curl.perform(easy.get());
  long status = 0;
  curl.getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  // A status counts although its answer is long, and was cut off.
  if (code == CURLE_OK || (received.is_too_long && status != 0)) {
    answer.status = static_cast<int>(status);
    curl_off_t seconds = 0;
    curl.getinfo(easy.get(), CURLINFO_RETRY_AFTER, &seconds);
    if (seconds > 0) answer.retry_after_s = static_cast<uint64_t>(seconds);
    return answer;
  }
  answer.body.clear();
  answer.failure = *reason != '\0' ? reason : curl.strerror(code);
  answer.may_pass = may_pass(code);
  return answer;
}

}  // namespace heapsnap
