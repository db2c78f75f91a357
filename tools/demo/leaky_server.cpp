// A server in miniature whose memory goes astray in the usual ways, to try heapsnap on.
//
//   leaky_server [MEGABYTES]      (default 200)
//
// It serves nobody but itself: four workers take requests from a queue, and
// - a cache of rendered pages is never emptied;
// - each session registers a listener with a central list and forgets to take it off;
// - at the morning's peak sessions and request buffers are allocated turn by turn, and when the
// peak
//   is over only the buffers are freed: most of each arena is free, and all of it stays resident;
// - uploaded images are buffers of megabytes, each in a mapping of its own.
// After the peak it prints "ready PID" and goes on with light traffic until standard input ends.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr int kWorkers = 4;
constexpr size_t kMegabyte = 1024 * 1024;

struct Session {
  uint64_t id = 0;
  std::string user;
  std::map<std::string, std::string> attributes;
  std::array<char, 200> token{};
};

struct Listener {
  uint64_t session = 0;
  std::string topic;
  std::function<void(const std::string&)> notify;
};

struct CachedPage {
  std::string title;
  std::vector<std::string> fragments;
  std::unique_ptr<CachedPage> previous_version;
};

// What all workers share, each part behind its own lock.
class Server {
 public:
  // Never evicts: the key holds the query string, and no two queries are the same.
  void cache_page(const std::string& url, std::unique_ptr<CachedPage> page) {
    const std::lock_guard lock(cache_mutex_);
    std::unique_ptr<CachedPage>& slot = cache_[url];
    page->previous_version = std::move(slot);
    slot = std::move(page);
  }
  // Nobody ever calls the other half, remove_listener().
  void add_listener(Listener listener) {
    const std::lock_guard lock(listener_mutex_);
    listeners_.push_back(std::make_unique<Listener>(std::move(listener)));
  }
  void keep_image(std::vector<char> image) {
    const std::lock_guard lock(image_mutex_);
    images_.push_back(std::move(image));
  }

 private:
  std::mutex cache_mutex_;
  std::unordered_map<std::string, std::unique_ptr<CachedPage>> cache_;
  std::mutex listener_mutex_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::mutex image_mutex_;
  std::vector<std::vector<char>> images_;
};

// A queue of jobs, closed once.
class JobQueue {
 public:
  using Job = std::function<void(std::mt19937_64&)>;

  void push(Job job) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push(std::move(job));
    }
    wake_.notify_one();
  }
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    wake_.notify_all();
  }
  // False when the queue is closed and empty.
  bool pop(Job& job) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return closed_ || !jobs_.empty(); });
    if (jobs_.empty()) return false;
    job = std::move(jobs_.front());
    jobs_.pop();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::queue<Job> jobs_;
  bool closed_ = false;
};

std::string random_text(std::mt19937_64& random, size_t length) {
  std::string text(length, ' ');
  for (char& letter : text) letter = static_cast<char>('a' + random() % 26);
  return text;
}

std::unique_ptr<Session> log_in(std::mt19937_64& random) {
  auto session = std::make_unique<Session>();
  session->id = random();
  session->user = "user-" + std::to_string(session->id);
  for (int i = 0; i < 3; ++i) session->attributes[random_text(random, 8)] = random_text(random, 24);
  return session;
}

void render_page(Server& server, std::mt19937_64& random) {
  auto page = std::make_unique<CachedPage>();
  page->title = random_text(random, 40);
  for (int i = 0; i < 8; ++i) page->fragments.push_back(random_text(random, 100 + random() % 900));
  server.cache_page("/search?q=" + random_text(random, 30), std::move(page));
}

// A request as most are: it allocates, it frees, and leaves a listener behind.
void serve_request(Server& server, std::mt19937_64& random) {
  const std::string body = random_text(random, 512 + random() % 4096);
  const std::unique_ptr<Session> session = log_in(random);
  server.add_listener({session->id, "news/" + random_text(random, 12),
                       [user = session->user](const std::string&) { (void)user; }});
  if (random() % 4 == 0) render_page(server, random);
}

// Sessions that stay and buffers that go, side by side: afterwards the heap is a sieve.
void survive_the_peak(size_t bytes, std::vector<std::unique_ptr<Session>>& sessions,
                      std::mt19937_64& random) {
  std::vector<std::string> buffers;
  for (size_t used = 0; used < bytes;) {
    const size_t size = 2048 + random() % 14000;
    buffers.emplace_back(size, 'b');
    sessions.push_back(log_in(random));
    used += size + sizeof(Session);
  }
}

struct Worker {
  std::mt19937_64 random;
  std::vector<std::unique_ptr<Session>> sessions;
  std::thread thread;
};

void run_worker(Worker& worker, Server& server, JobQueue& queue, size_t peak_bytes) {
  survive_the_peak(peak_bytes, worker.sessions, worker.random);
  for (int i = 0; i < 2; ++i) {
    server.keep_image(std::vector<char>(kMegabyte + worker.random() % (3 * kMegabyte), 'i'));
  }
  JobQueue::Job job;
  while (queue.pop(job)) job(worker.random);
}

// Waits until standard input ends; some traffic every few milliseconds meanwhile.
void serve_until_end_of_input(Server& server, JobQueue& queue) {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  for (;;) {
    constexpr int kMilliseconds = 10;
    char byte = 0;
    if (poll(&input, 1, kMilliseconds) > 0 && read(STDIN_FILENO, &byte, 1) <= 0) return;
    for (int i = 0; i < 8; ++i) {
      queue.push([&server](std::mt19937_64& random) { serve_request(server, random); });
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const size_t megabytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 200;
  if (megabytes == 0) {
    std::fprintf(stderr, "usage: %s [MEGABYTES]\n", argv[0]);
    return 2;
  }
  Server server;
  JobQueue queue;
  std::array<Worker, kWorkers> workers;
  const size_t peak_bytes = megabytes * kMegabyte / kWorkers * 3 / 4;
  for (size_t i = 0; i < workers.size(); ++i) {
    workers[i].random.seed(i + 1);
    workers[i].thread = std::thread(run_worker, std::ref(workers[i]), std::ref(server),
                                    std::ref(queue), peak_bytes);
  }
  // The requests of the day, and a sign when all of them have been served.
  const size_t requests = megabytes * 40;
  std::mutex mutex;
  std::condition_variable all_served;
  size_t served = 0;
  for (size_t i = 0; i < requests; ++i) {
    queue.push([&](std::mt19937_64& random) {
      serve_request(server, random);
      const std::lock_guard lock(mutex);
      if (++served == requests) all_served.notify_one();
    });
  }
  {
    std::unique_lock lock(mutex);
    all_served.wait(lock, [&] { return served == requests; });
  }
  std::printf("ready %d\n", static_cast<int>(getpid()));
  std::fflush(stdout);
  serve_until_end_of_input(server, queue);
  queue.close();
  for (Worker& worker : workers) worker.thread.join();
  return 0;
}
