#include "tools/inject/ruby_dump.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <random>
#include <string>
#include <string_view>
#include <thread>

#include "base/alteration.h"
#include "base/count_text.h"
#include "base/error.h"
#include "base/regular_file.h"
#include "base/unique_fd.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/proc/process_status.h"
#include "references/loaded_modules.h"
#include "tools/inject/c_library.h"
#include "tools/inject/library_load.h"
#include "tools/inject/ruby_dump_text.h"
#include "tools/inject/running_program.h"

namespace heapsnap {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kWhat = "the Ruby process cannot dump itself";

struct RubyFunctions {
  Address register_job;
  Address evaluate;
  bool handles_sigchld = false;  // Ruby itself, not the program: up to 3.2
};

// By the constant in which it has its version.
bool is_before_33(RunningProgram& target, Address version) {
  std::array<char, 4> text{};  // "3.1."
  if (version.is_null() ||
      !target.memory().read_exact(version, std::as_writable_bytes(std::span(text)))) {
    return false;
  }
  return std::string_view(text.data(), 3) < "3.3" && text[1] == '.' && text[3] == '.';
}

// Throws Error{kUnsupported} where there is no Ruby that has been started.
RubyFunctions find_functions(RunningProgram& target) {
  const LoadedModules modules(target);
  bool is_ruby = false;
  for (const LoadedModule& module : modules.all()) {
    const auto address_of = [&module](const char* name) {
      const ElfSymbol* const symbol = module.image().find_dynamic_symbol(name);
      return symbol == nullptr ? Address() : module.bias + symbol->value;
    };
    const Address evaluate = address_of("rb_eval_string");
    const Address machine_class = address_of("rb_cRubyVM");
    if (evaluate.is_null() || machine_class.is_null()) continue;
    is_ruby = true;
    const Address register_job = address_of("rb_postponed_job_register_one");
    if (register_job.is_null()) continue;
    for (const Address variable : {machine_class, address_of("ruby_current_vm_ptr")}) {
      if (variable.is_null()) continue;
      if (target.memory().read_value<uint64_t>(variable).value_or(0) == 0) {
        throw Error(ErrorKind::kUnsupported, kWhat,
                    "its interpreter has not been started, or has ended",
                    "try again when it is at work");
      }
    }
    return {register_job, evaluate, is_before_33(target, address_of("ruby_version"))};
  }
  throw Error(ErrorKind::kUnsupported, kWhat,
              is_ruby ? "its Ruby does not export rb_postponed_job_register_one, by which work is "
                        "handed to it (2.7 to 3.4 do)"
                      : "no module of it exports rb_eval_string: it runs no Ruby",
              "to see what it is: heapsnap attach " + std::to_string(target.process().pid));
}

std::string random_name() {
  std::random_device random;
  return ".heapsnap-ruby-" + std::to_string(random()) + "-" + std::to_string(random());
}

// Wakes threads of Ruby's that wait in the kernel.
//
//   SIGVTALRM   Ruby's own, by which it interrupts a system call of a thread
//   SIGCHLD     makes Ruby wake its first thread wherever that waits. A handler of the program's
//               runs, too: it finds no child, or waits where it waits for one without WNOHANG
//
// Each is sent only where the process has a handler for it: else SIGVTALRM would end it.
class Alarm {
 public:
  // `may_send_sigchld`: once SIGVTALRM has not been enough.
  Alarm(const ProcFs& proc, int pid, bool may_send_sigchld)
      : proc_(proc), pid_(pid), may_send_sigchld_(may_send_sigchld) {}

  // The first thread alone, so that it is the one that runs.
  void ring_first() { ring(false); }
  void ring_all() { ring(true); }
  uint64_t signals() const { return signals_; }

 private:
  void ring(bool are_all) {
    const auto status = read_process_status(proc_, proc_.live_tid(pid_).value_or(pid_));
    if (!status) return;
    const auto is_caught = [&](int signal) {
      return (status->caught_signals >> (signal - 1) & 1) != 0;
    };
    if (is_caught(SIGVTALRM)) {
      for (const int tid : proc_.task_list(pid_)) {
        if (!are_all && tid != pid_) continue;
        if (::syscall(SYS_tgkill, pid_, tid, SIGVTALRM) == 0) ++signals_;
      }
    }
    constexpr unsigned kAlone = 4;
    if (++rounds_ <= kAlone || !may_send_sigchld_ || !is_caught(SIGCHLD)) return;
    if (::kill(pid_, SIGCHLD) == 0) ++signals_;
  }

  const ProcFs& proc_;
  int pid_;
  bool may_send_sigchld_;
  unsigned rounds_ = 0;
  uint64_t signals_ = 0;
};

class DumpReader {
 public:
  DumpReader(const ProcFs& proc, int pid, const RubyDumpOptions& options,
             const ReceiveDump& receive)
      : proc_(proc), pid_(pid), options_(options), answer_(receive) {}

  // Returns when the dump has begun. `remind` is called now and then until then, with how often it
  // has been.
  template <typename Remind>
  void await_begin(const std::string& name, Remind remind) {
    constexpr milliseconds kBetween{500};
    // The child tries to open it 20 times a second: one that has not done so by then has ended.
    constexpr milliseconds kToOpen{5000};
    Clock::time_point next = Clock::now();
    unsigned times = 0;
    const Clock::time_point deadline = Clock::now() + options_.patience;
    while (answer_.version().empty()) {
      check_end();
      if (Clock::now() >= deadline) {
        throw Error(
            ErrorKind::kUnsupported, kWhat,
            "it has not begun within " + std::to_string(options_.patience.count() / 1000) +
                " s: none of its Ruby threads came to look for interrupts, or its child could "
                "make no FIFO in /dev/shm, /run, /tmp or /var/tmp. It may still fork once, in vain",
            "heapsnap attach reads its heap without its help: heapsnap attach " +
                std::to_string(pid_));
      }
      check_alive();
      if (!fifo_) {
        if (Clock::now() >= next) {
          remind(times++);
          next = Clock::now() + kBetween;
        }
        open_fifo(name);
      }
      if (!fifo_) {
        std::this_thread::sleep_for(milliseconds(10));
        continue;
      }
      if (read_part() != Part::kEnd) continue;
      // Nobody has it open for writing.
      if (Clock::now() >= opened_ + kToOpen) {
        drop_fifo(name);
        next = Clock::now();
      } else {
        std::this_thread::sleep_for(milliseconds(10));
      }
    }
  }

  // Removes the FIFO of a child that has not begun to write: nobody else will.
  void drop_fifo(const std::string& name) {
    struct stat opened {};
    struct stat found {};
    const bool is_open = fifo_ && ::fstat(fifo_.get(), &opened) == 0;
    fifo_ = UniqueFd();
    const UniqueFd folder = find_in_root(open_root().get(), folder_);
    if (is_open && folder &&
        ::fstatat(folder.get(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
        found.st_dev == opened.st_dev && found.st_ino == opened.st_ino) {
      ::unlinkat(folder.get(), name.c_str(), 0);
    }
  }

  void read_to_end() {
    Clock::time_point deadline = Clock::now() + options_.patience;
    while (!answer_.has_ended()) {
      check_end();
      const Part part = read_part();
      if (part == Part::kEnd) {
        throw Error(ErrorKind::kUnsupported, kWhat,
                    "its child ended after " + count_text(answer_.lines()) +
                        " lines: it may have been killed, or there was no memory",
                    "look into the kernel's log: dmesg | tail");
      }
      if (part == Part::kSome) deadline = Clock::now() + options_.patience;
      if (Clock::now() >= deadline) {
        throw Error(ErrorKind::kUnsupported, kWhat,
                    "its child has written nothing for " +
                        std::to_string(options_.patience.count() / 1000) + " s");
      }
    }
  }

  const RubyDumpAnswer& answer() const { return answer_; }

 private:
  enum class Part { kNone, kSome, kEnd };

  void check_alive() const {
    if (proc_.live_tid(pid_)) return;
    throw Error(ErrorKind::kNoProcess, "process " + std::to_string(pid_) + " is gone",
                "it ended before it began to dump itself");
  }

  // As the child made it: a FIFO of the process's own user, in a folder that it sees.
  void open_fifo(const std::string& name) {
    const int tid = proc_.live_tid(pid_).value_or(pid_);
    const auto status = read_process_status(proc_, tid);
    const UniqueFd root = open_root();
    for (const char* const folder : kFifoFolders) {
      const UniqueFd found = find_in_root(root.get(), std::string(folder) + "/" + name);
      struct stat state {};
      if (!found || !status || ::fstat(found.get(), &state) != 0 || !S_ISFIFO(state.st_mode)) {
        continue;
      }
      if (state.st_uid != status->uid.filesystem) continue;
      fifo_ = UniqueFd(::open(("/proc/self/fd/" + std::to_string(found.get())).c_str(),
                              O_RDONLY | O_NONBLOCK | O_CLOEXEC));
      if (!fifo_) continue;
      folder_ = folder;
      opened_ = Clock::now();
      return;
    }
  }

  UniqueFd open_root() const {
    const int tid = proc_.live_tid(pid_).value_or(pid_);
    return UniqueFd(::open(proc_.path(tid, "root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }

  Part read_part() {
    constexpr int kLook = 100;  // ms
    pollfd wanted{fifo_.get(), POLLIN, 0};
    ::poll(&wanted, 1, kLook);  // says nothing of a FIFO that nobody has opened for writing
    const ssize_t got = ::read(fifo_.get(), buffer_.data(), buffer_.size());
    if (got < 0) return errno == EAGAIN || errno == EINTR ? Part::kNone : Part::kEnd;
    if (got == 0) return Part::kEnd;
    answer_.take(std::span(buffer_).first(static_cast<size_t>(got)));
    return Part::kSome;
  }

  const ProcFs& proc_;
  int pid_;
  const RubyDumpOptions& options_;
  RubyDumpAnswer answer_;
  UniqueFd fifo_;
  std::string folder_;          // in which it is
  Clock::time_point opened_{};  // when
  std::array<char, 64 << 10> buffer_{};
};

// A job goes to the thread that ran last, which may wait for long, or have ended.
void let_first_run(Alarm& alarm) {
  constexpr milliseconds kToRun{20};
  alarm.ring_first();
  std::this_thread::sleep_for(kToRun);
}

// The text of the dump in the target's memory, and the jobs by which Ruby evaluates it.
class DumpJobs {
 public:
  // Copies the text. Throws Error{kUnsupported} when there is no room for it.
  DumpJobs(RunningProgram& target, const CLibrary& libc, const RubyFunctions& ruby,
           const std::string& text)
      : target_(target), libc_(libc), ruby_(ruby) {
    CallList copy;
    const auto copied = copy.call(CallList::address(libc.function("strdup")),
                                  {CallList::address_of(copy.put_text(text))});
    text_ = Address(make(copy).results.at(copied));
    if (text_.is_null()) {
      throw Error(ErrorKind::kUnsupported, kWhat, "it has no memory left: strdup(3) failed in it");
    }
  }

  // False: Ruby did not take the job.
  bool hand_over() {
    CallList job;
    const auto registered = job.call(
        CallList::address(ruby_.register_job),
        {CallList::number(0), CallList::address(ruby_.evaluate), CallList::address(text_)});
    const InjectionResult call = make(job);
    ++handed_over_;
    return static_cast<int>(call.results.at(registered)) == 1;  // it will be evaluated
  }

  // `has_begun`: the text is being evaluated. What was handed over twice may be evaluated again, so
  // that its text stays; and what has not begun may still begin.
  void free_text(bool has_begun) {
    if (handed_over_ == 1 && has_begun) free_text_of_no_job();
  }
  void free_text_of_no_job() {
    add(call_function(target_, libc_, libc_.function("free"), text_.value()).injection);
  }

  const InjectionResult& calls() const { return calls_; }

 private:
  InjectionResult make(const CallList& calls) {
    InjectedWork work;
    work.calls = &calls;
    InjectionResult made = run_on_injected_thread(ProcFs(), target_.process().pid,
                                                  libc_.thread_layout(), work, target_.memory());
    add(made);
    return made;
  }
  void add(const InjectionResult& call) {
    calls_.stolen.insert(calls_.stolen.end(), call.stolen.begin(), call.stolen.end());
    calls_.notes.insert(calls_.notes.end(), call.notes.begin(), call.notes.end());
  }

  RunningProgram& target_;
  const CLibrary& libc_;
  const RubyFunctions& ruby_;
  Address text_;
  unsigned handed_over_ = 0;
  InjectionResult calls_;
};

RubyDump dump(RunningProgram& target, const RubyDumpOptions& options, const ReceiveDump& receive) {
  const int pid = target.process().pid;
  const ProcFs proc;
  const RubyFunctions ruby = find_functions(target);
  const CLibrary libc = CLibrary::find(target);
  RubyDump result;
  result.look_pauses = require_sound_heap(target, libc);

  Alarm alarm(proc, pid, ruby.handles_sigchld);
  const std::string name = random_name();
  DumpJobs jobs(target, libc, ruby, ruby_dump_text(name));
  const auto hand_over = [&] {
    let_first_run(alarm);
    const bool is_taken = jobs.hand_over();
    alarm.ring_first();
    return is_taken;
  };
  if (!hand_over()) {
    jobs.free_text_of_no_job();
    throw Error(ErrorKind::kUnsupported, kWhat,
                "its list of jobs is full, or it still has to do such a one", "try again");
  }
  DumpReader reader(proc, pid, options, receive);
  try {
    reader.await_begin(name, [&](unsigned times) {
      constexpr unsigned kFirstAlone = 3;
      constexpr unsigned kHandOverAgain = 4;
      alarm.ring_first();
      if (times > kFirstAlone) alarm.ring_all();
      if (times % kHandOverAgain == kHandOverAgain - 1) hand_over();
    });
  } catch (const Error&) {
    if (reader.answer().version().empty()) reader.drop_fifo(name);
    jobs.free_text(!reader.answer().version().empty());
    throw;
  }
  jobs.free_text(true);
  reader.read_to_end();
  result.call = jobs.calls();
  result.version = reader.answer().version();
  result.lines = reader.answer().lines();
  result.bytes = reader.answer().bytes();
  result.signals = alarm.signals();
  return result;
}

}  // namespace

RubyDump dump_ruby(int pid, const RubyDumpOptions& options, const ReceiveDump& receive) {
  return work_on(pid, [&](RunningProgram& program) { return dump(program, options, receive); });
}

}  // namespace heapsnap
