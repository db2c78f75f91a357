#include "platform/linux/self/bounded_work.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"
#include "platform/linux/self/ending_signals.h"
#include "platform/linux/self/watched_work.h"

namespace heapsnap {

namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kLongestWords = 64 * 1024;
// For the worker to undo its changes (ending_signals.cpp gives it ten seconds).
constexpr milliseconds kGraceToEnd{12000};
// Seconds past the bound on processor time before the kernel kills it.
constexpr rlim_t kProcessorGrace = 10;
// First byte of each message in the pipe.
constexpr char kSaid = 's';
constexpr char kSpent = 'c';

std::atomic<int> words_fd{-1};

// The worker has used up its processor time: reports that and asks itself to end.
void on_processor_time(int /*signal*/) {
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = ::write(words_fd.load(), &kSpent, 1);
  ::kill(::getpid(), SIGTERM);
  errno = saved;
}

// A timer tells the worker, and the limit, which counts whole seconds, has the kernel kill it.
void bound_processor_time(milliseconds bound) {
  if (bound.count() <= 0) return;
  struct sigaction action {};
  action.sa_handler = on_processor_time;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGXCPU, &action, nullptr);
  sigevent told{};
  told.sigev_notify = SIGEV_SIGNAL;
  told.sigev_signo = SIGXCPU;
  timer_t timer{};
  if (::timer_create(CLOCK_PROCESS_CPUTIME_ID, &told, &timer) == 0) {
    itimerspec when{};
    when.it_value.tv_sec = bound.count() / 1000;
    when.it_value.tv_nsec = bound.count() % 1000 * 1'000'000;
    ::timer_settime(timer, 0, &when, nullptr);
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_CPU, &limit);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(bound).count();
  limit.rlim_cur = std::min(limit.rlim_max, static_cast<rlim_t>(seconds));
  limit.rlim_max = std::min(limit.rlim_max, limit.rlim_cur + kProcessorGrace);
  ::setrlimit(RLIMIT_CPU, &limit);
}

void say(int fd, std::string words) {
  words.resize(std::min(words.size(), kLongestWords - 1));
  words.insert(words.begin(), kSaid);
  for (std::string_view rest = words; !rest.empty();) {
    const ssize_t written = ::write(fd, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

// In the child: never returns.
[[noreturn]] void be_child(const std::function<std::string()>& work,
                           const std::function<std::string(const std::exception&)>& give_up,
                           const WorkBounds& bounds, int fd) {
  int code = EXIT_SUCCESS;
  try {
    do_watched([&] {
      words_fd = fd;
      bound_processor_time(bounds.processor_time);
      do_until_asked_to_end([&] {
        say(fd, work());
        return EXIT_SUCCESS;
      });
      ::_exit(EXIT_SUCCESS);
      return EXIT_SUCCESS;
    });
  } catch (const std::exception& error) {
    say(fd, give_up(error));
    code = EXIT_FAILURE;
  }
  ::_exit(code);
}

sigset_t signals_to_end_by() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) ::sigaddset(&set, signal);
  }
  return set;
}

// The child as its parent sees it.
class BoundedChild {
 public:
  BoundedChild(pid_t pid, UniqueFd words, UniqueFd signals, const WorkBounds& bounds)
      : pid_(pid),
        words_(std::move(words)),
        signals_(std::move(signals)),
        deadline_(bounds.time.count() > 0 ? SteadyClock::now() + bounds.time
                                          : SteadyClock::time_point::max()) {}

  WorkResult wait() {
    while (!has_closed_ && !is_abandoned_) step();
    int status = 0;
    while (::waitpid(pid_, &status, is_abandoned_ ? WNOHANG : 0) < 0 && errno == EINTR) {
    }
    if (text_.starts_with(kSaid) && result_.end == WorkEnd::kDone) {
      result_.said = text_.substr(1);
    } else if (text_.starts_with(kSpent)) {
      result_.end = WorkEnd::kOutOfProcessorTime;
    } else if (result_.end == WorkEnd::kDone) {
      result_.end = WorkEnd::kKilled;
      result_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }
    return std::move(result_);
  }

 private:
  void step() {
    std::array<pollfd, 2> files{{{words_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}}};
    const int ready = ::poll(files.data(), files.size(), patience());
    if (ready < 0) return;
    if (files[0].revents != 0) {
      receive();
    } else if (files[1].revents != 0) {
      signalfd_siginfo info{};
      if (::read(signals_.get(), &info, sizeof info) == sizeof info) {
        ask_to_end(WorkEnd::kAsked, static_cast<int>(info.ssi_signo));
      }
    } else if (ready == 0) {
      ask_to_end(WorkEnd::kOutOfTime, SIGTERM);
    }
  }

  int patience() const {
    if (deadline_ == SteadyClock::time_point::max()) return -1;
    const auto left = std::chrono::ceil<milliseconds>(deadline_ - SteadyClock::now());
    return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
  }

  void receive() {
    std::array<char, 4096> piece;
    const ssize_t count = ::read(words_.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) return;
    if (count <= 0) {
      has_closed_ = true;
    } else if (text_.size() < kLongestWords) {
      text_.append(piece.data(), static_cast<size_t>(count));
    }
  }

  // Asks it to end the first time, kills it the next, and then abandons it.
  void ask_to_end(WorkEnd why, int signal) {
    if (SteadyClock::now() < deadline_ && why == WorkEnd::kOutOfTime) return;
    if (result_.end == WorkEnd::kDone) {
      result_.end = why;
      result_.signal = signal;
      ::kill(pid_, signal);
      deadline_ = SteadyClock::now() + kGraceToEnd;
    } else if (!is_killed_) {
      ::kill(pid_, SIGKILL);  // the worker dies with it, which closes the pipe
      is_killed_ = true;
      deadline_ = SteadyClock::now() + kGraceToEnd;
    } else if (why == WorkEnd::kOutOfTime) {
      is_abandoned_ = true;  // it is blocked in the kernel for good
    }
  }

  pid_t pid_;
  UniqueFd words_;
  UniqueFd signals_;
  SteadyClock::time_point deadline_;
  bool has_closed_ = false;
  bool is_killed_ = false;
  bool is_abandoned_ = false;
  std::string text_;
  WorkResult result_;
};

}  // namespace

WorkResult do_bounded(const std::function<std::string()>& work,
                      const std::function<std::string(const std::exception&)>& give_up,
                      const WorkBounds& bounds) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(ErrorKind::kUnsupported, "cannot make a pipe", errno_text(errno));
  }
  UniqueFd words(ends[0]);
  UniqueFd mouth(ends[1]);
  const sigset_t ending = signals_to_end_by();
  UniqueFd signals(::signalfd(-1, &ending, SFD_CLOEXEC));
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &ending, &before);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(EXIT_FAILURE);
    be_child(work, give_up, bounds, mouth.get());
  }
  const int why_not = errno;
  mouth.reset();
  WorkResult result;
  if (child > 0) {
    result = BoundedChild(child, std::move(words), std::move(signals), bounds).wait();
    const timespec at_once{};
    result.late_signal = std::max(0, ::sigtimedwait(&ending, nullptr, &at_once));
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) {
    throw Error(ErrorKind::kUnsupported, "cannot make a process", errno_text(why_not),
                "raise the limit of processes: ulimit -u");
  }
  return result;
}

void end_by_signal(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, signal);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);
}

}  // namespace heapsnap
