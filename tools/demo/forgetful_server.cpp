// A server in miniature that loses memory, to see a leak in a picture of its heap.
//
//   forgetful_server [REQUESTS]      (default 60,000)
//
// Each request puts a record into a table, which is bounded, and makes a reply, which is sent and
// freed. A client that hangs up early is an error, and the code for errors returns without freeing
// the reply: nothing leads to that any more. A burst of such clients comes at the end. Then it
// prints "ready PID" and waits until standard input ends.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <unordered_map>

namespace {

constexpr size_t kMostRecords = 12'000;

struct Reply {
  char* text = nullptr;
  size_t size = 0;
};

class Table {
 public:
  void remember(uint64_t request, std::string record) {
    if (records_.size() == kMostRecords) records_.erase(records_.begin());
    records_[request] = std::move(record);
  }

 private:
  std::unordered_map<uint64_t, std::string> records_;
};

Reply* make_reply(std::mt19937_64& random) {
  auto* reply = new Reply;
  reply->size = 200 + random() % 1200;
  reply->text = static_cast<char*>(std::malloc(reply->size));
  std::memset(reply->text, 'r', reply->size);
  return reply;
}

// False when the client is gone.
bool send(const Reply& /*reply*/, bool hangs_up) {
  return !hangs_up;
}

void serve(Table& table, uint64_t request, bool hangs_up, std::mt19937_64& random) {
  table.remember(request, std::string(60 + random() % 600, 'a'));
  Reply* reply = make_reply(random);
  if (!send(*reply, hangs_up)) return;  // the mistake
  std::free(reply->text);
  delete reply;
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t requests = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 60'000;
  if (requests == 0) {
    std::fprintf(stderr, "usage: %s [REQUESTS]\n", argv[0]);
    return 2;
  }
  std::mt19937_64 random(1);
  Table table;
  for (uint64_t request = 0; request < requests; ++request) {
    const bool is_burst = request > requests / 10 * 9;
    serve(table, request, random() % 100 < (is_burst ? 60U : 3U), random);
  }
  std::printf("ready %d\n", static_cast<int>(getpid()));
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
