// A small server with its clients, in one process, whose threads come and go.
//
//   busy_server WORKERS CLIENTS
//
// Each worker waits in epoll_wait() for requests on its connections and echoes them out of blocks
// that it allocates for them. Each client is a thread that connects, makes some requests, checks
// every byte of the answers, disconnects, starts its successor and ends. Nobody sends a signal, so
// neither may see an EINTR; and no call may fail.
//
// Says "ready", runs until its standard input ends, and then says
//
//   errors=0 eintr=0 requests=123 threads=45
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kLongestRequest = 3000;
constexpr int kRequestsPerClient = 20;

std::atomic<long> errors{0};
std::atomic<long> eintr{0};
std::atomic<long> requests{0};
std::atomic<long> threads_started{0};
std::atomic<int> clients_alive{0};
std::atomic<int> workers_alive{0};
std::atomic<bool> ending{false};

void note_failure() {
  ++(errno == EINTR ? eintr : errors);
}

// A connection carries one request at a time, so a message is what one recv() gives.
void serve(int poller) {
  epoll_event event{};
  while (!ending || clients_alive > 0) {
    const int count = epoll_wait(poller, &event, 1, 20);
    if (count < 0) note_failure();
    if (count <= 0) continue;
    auto* const request = static_cast<char*>(std::malloc(kLongestRequest));
    const ssize_t size = recv(event.data.fd, request, kLongestRequest, 0);
    if (size < 0) note_failure();
    if (size > 0) {
      auto* const answer = static_cast<char*>(std::malloc(static_cast<size_t>(size)));
      std::memcpy(answer, request, static_cast<size_t>(size));
      if (send(event.data.fd, answer, static_cast<size_t>(size), MSG_NOSIGNAL) != size) {
        note_failure();
      }
      std::free(answer);
    }
    if (size <= 0) close(event.data.fd);  // which also takes it out of the epoll set
    std::free(request);
  }
  --workers_alive;
}

void request_often(const std::vector<int>& pollers, uint64_t seed);

void start_client(const std::vector<int>& pollers, uint64_t seed) {
  ++clients_alive;
  ++threads_started;
  std::thread([&pollers, seed] { request_often(pollers, seed); }).detach();
}

void request_often(const std::vector<int>& pollers, uint64_t seed) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) std::abort();
  const timeval minute{60, 0};  // a receive with a timeout is what a stop breaks off
  setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = ends[1];
  if (epoll_ctl(pollers[seed % pollers.size()], EPOLL_CTL_ADD, ends[1], &event) != 0) std::abort();
  for (int i = 0; i < kRequestsPerClient && !ending; ++i) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    const std::string request(1 + (seed >> 33) % kLongestRequest, static_cast<char>(seed >> 40));
    std::string answer(request.size(), '\0');
    if (send(ends[0], request.data(), request.size(), MSG_NOSIGNAL) < 0) note_failure();
    const ssize_t size = recv(ends[0], answer.data(), answer.size(), 0);
    if (size < 0) note_failure();
    if (size >= 0 && answer != request) ++errors;
    ++requests;
  }
  close(ends[0]);
  if (!ending) start_client(pollers, seed >> 7);
  --clients_alive;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  static std::vector<int> pollers;
  for (int i = 0; i < std::atoi(argv[1]); ++i) pollers.push_back(epoll_create1(0));
  for (const int poller : pollers) {
    ++workers_alive;
    ++threads_started;
    std::thread([poller] { serve(poller); }).detach();
  }
  for (int i = 0; i < std::atoi(argv[2]); ++i) {
    start_client(pollers, static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15);
  }
  while (requests == 0) sched_yield();
  std::puts("ready");
  std::fflush(stdout);
  char byte;
  while (read(0, &byte, 1) != 0) {
  }
  ending = true;
  while (clients_alive > 0 || workers_alive > 0) sched_yield();
  std::printf("errors=%ld eintr=%ld requests=%ld threads=%ld\n", errors.load(), eintr.load(),
              requests.load(), threads_started.load());
  std::fflush(stdout);
  std::_Exit(errors == 0 && eintr == 0 ? 0 : 1);  // the last of the detached may still be ending
}
