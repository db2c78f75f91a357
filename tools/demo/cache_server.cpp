// A server in miniature that has grown, to ask heapsnap why.
//
//   cache_server [MEGABYTES]      (default 500)
//
// Its cache of rendered pages never evicts: the key holds the query string, and no two queries are
// the same. Beside it there is what any server has: sessions, a table of routes, a queue of mail.
// It fills the cache to that many megabytes, prints "ready PID" and waits for standard input to
// end.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

class Page {
 public:
  Page(std::string title, std::vector<std::string> fragments)
      : title_(std::move(title)), fragments_(std::move(fragments)) {}
  virtual ~Page() = default;
  virtual size_t bytes() const {
    size_t sum = title_.size();
    for (const std::string& fragment : fragments_) sum += fragment.size();
    return sum;
  }

 private:
  std::string title_;
  std::vector<std::string> fragments_;
};

class Session {
 public:
  explicit Session(std::string user) : user_(std::move(user)) {}
  virtual ~Session() = default;
  virtual void set(const std::string& name, std::string value) {
    attributes_[name] = std::move(value);
  }

 private:
  std::string user_;
  std::map<std::string, std::string> attributes_;
};

std::unordered_map<std::string, std::unique_ptr<Page>> g_page_cache;
std::map<uint64_t, std::unique_ptr<Session>> g_sessions;
std::vector<std::string> g_routes;
std::deque<std::string> g_mail;

namespace {

std::string random_text(std::mt19937_64& random, size_t length) {
  std::string text(length, ' ');
  for (char& letter : text) letter = static_cast<char>('a' + random() % 26);
  return text;
}

// How many bytes the page takes.
size_t render_page(std::mt19937_64& random) {
  std::vector<std::string> fragments(8);
  for (std::string& fragment : fragments) fragment = random_text(random, 100 + random() % 900);
  auto page = std::make_unique<Page>(random_text(random, 40), std::move(fragments));
  const size_t bytes = page->bytes();
  g_page_cache["/search?q=" + random_text(random, 30)] = std::move(page);
  return bytes;
}

void log_in(std::mt19937_64& random) {
  auto session = std::make_unique<Session>("user-" + random_text(random, 20));
  for (int i = 0; i < 4; ++i) session->set(random_text(random, 8), random_text(random, 40));
  g_sessions[random()] = std::move(session);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr size_t kMegabyte = 1024 * 1024;
  const size_t megabytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 500;
  if (megabytes == 0) {
    std::fprintf(stderr, "usage: %s [MEGABYTES]\n", argv[0]);
    return 2;
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 400; ++i) g_routes.push_back("/api/v1/" + random_text(random, 24));
  for (int i = 0; i < 2000; ++i) g_mail.push_back(random_text(random, 600));
  size_t pages = 0;
  for (size_t bytes = 0; bytes < megabytes * kMegabyte; ++pages) {
    bytes += render_page(random);
    if (pages % 8 == 0) log_in(random);
  }
  std::printf("ready %d\n", static_cast<int>(getpid()));
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
