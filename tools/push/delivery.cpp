#include "tools/push/delivery.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "base/error.h"
#include "report/number_text.h"
#include "report/terminal_text.h"
#include "tools/push/retry_delay.h"

namespace heapsnap {

namespace {

// "https://pyroscope:4040/ingest": without the query.
std::string address_of(const std::string& url) {
  return url.substr(0, url.find('?'));
}

std::string why_not(const HttpAnswer& answer) {
  if (answer.status == 0) return printable(answer.failure);  // the server's words may be in it
  constexpr size_t kShown = 200;
  std::string body = answer.body.substr(0, kShown);
  body.erase(body.find_last_not_of(" \t\r\n") + 1);
  const std::string said = body.empty() ? "" : ": " + printable(body);
  return fmt::format("the server answered {}{}", answer.status, said);
}

std::string what_to_do(const HttpAnswer& answer, const std::string& url) {
  switch (answer.status) {
    case 0:
      if (answer.may_pass) return "check the address, and that the server runs";
      return url.starts_with("https:")
                 ? "check the address, and the server's certificate (--ca-file)"
                 : "check the address, and that it is a server of HTTP";
    case 400:
    case 422: return "the server's log says more; it may refuse profiles that are too old";
    case 401:
    case 403: return "give the server's credentials: --header-file FILE";
    case 404: return "check the address: it is what comes before /ingest";
    case 413: return "raise the server's limit for the size of a profile";
    default: break;
  }
  if (answer.status >= 300 && answer.status < 400) {
    return "give the address that the server redirects to";
  }
  if (is_passing_status(answer.status)) return "try again later, or with more --retries";
  return "the server's log says more";
}

}  // namespace

Delivery deliver(const HttpRequest& request, uint64_t retries, bool quiet) {
  std::random_device random;
  std::uniform_real_distribution<double> share(0, 1);
  for (unsigned attempt = 0;; ++attempt) {
    const HttpAnswer answer = http_post(request);
    if (answer.status >= 200 && answer.status < 300) return {attempt + 1, answer.status};
    const bool may_pass = answer.status == 0 ? answer.may_pass : is_passing_status(answer.status);
    const bool asks_too_long = answer.retry_after_s.value_or(0) > kLongestRetryAfterSeconds;
    if (!may_pass || asks_too_long || attempt == retries) {
      std::string why = why_not(answer);
      if (asks_too_long) why += fmt::format(", and asks to wait {} s", *answer.retry_after_s);
      if (attempt > 0) why += fmt::format(" ({} attempts)", attempt + 1);
      throw Error(ErrorKind::kOutput, "cannot push to " + address_of(request.url), why,
                  what_to_do(answer, request.url));
    }
    const uint64_t delay = retry_delay_ms(attempt, share(random), answer.retry_after_s);
    if (!quiet) {
      fmt::print(stderr, "heapsnap: {}; again in {}\n", why_not(answer),
                 duration_text(delay * 1'000'000));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
  }
}

}  // namespace heapsnap
