#include "platform/linux/proc/proc_fs.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/unique_fd.h"
#include "platform/linux/proc/blocking_call.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/target_refusal.h"

namespace heapsnap {

namespace {

// Enough for a million mappings, with all that smaps says about each.
constexpr size_t kLongestEntry = size_t{2} << 30;
constexpr size_t kLongestCommandLine = 4096;

// The first `count` bytes of a file, fewer if it is shorter; empty if it cannot be read.
std::string read_front(const std::string& path, size_t count) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string bytes(count, '\0');
  const ssize_t length = fd ? ::read(fd.get(), bytes.data(), count) : 0;
  bytes.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
  return bytes;
}

uint64_t number_in_stat(std::string_view word) {
  const auto value = parse_number(word);
  if (!value) {
    throw Error(ErrorKind::kBadInput, "a /proc/PID/stat is damaged",
                "\"" + std::string(word.substr(0, 40)) + "\" is not a number");
  }
  return *value;
}

// The ELF header says which machine the process runs on; heapsnap's own may be another. A script
// shows its interpreter here; a process whose file cannot be read is assumed to be like us.
Machine machine_of(const std::string& exe) {
  const std::string header = read_front(exe, EI_NIDENT + 4);
  if (header.size() < EI_NIDENT + 4 || !header.starts_with(ELFMAG)) return Machine::kX86_64;
  uint16_t machine = 0;
  std::memcpy(&machine, header.data() + EI_NIDENT + 2, sizeof machine);
  switch (machine) {
    case EM_X86_64:
      // An x32 process has the machine type of a 64-bit one, and pointers of four bytes.
      if (header[EI_CLASS] == ELFCLASS64) return Machine::kX86_64;
      break;
    case EM_AARCH64: return Machine::kAarch64;
    case EM_386: return Machine::kI386;
    default: break;
  }
  throw Error(ErrorKind::kUnsupported, "cannot read " + exe,
              "it is built for a machine that heapsnap does not know (ELF machine " +
                  std::to_string(machine) + ", class " + std::to_string(header[EI_CLASS]) + ")");
}

// The names in a folder that are numbers.
std::vector<int> numbers_in(const std::string& folder) {
  std::vector<int> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (!entries) return numbers;
  while (const dirent* entry = ::readdir(entries.get())) {
    const auto number = parse_number(entry->d_name);
    if (number) numbers.push_back(static_cast<int>(*number));
  }
  return numbers;
}

void append_numbers(std::string_view words, std::vector<int>& numbers) {
  for (std::string_view word = take_word(words); !word.empty(); word = take_word(words)) {
    if (const auto number = parse_number(word)) numbers.push_back(static_cast<int>(*number));
  }
}

}  // namespace

bool TaskStat::is_kernel_task() const {
  constexpr uint32_t kKthread = 0x00200000;   // PF_KTHREAD
  constexpr uint32_t kIoWorker = 0x00000010;  // PF_IO_WORKER, since 5.12
  return (flags & (kKthread | kIoWorker)) != 0;
}

bool TaskStat::is_exiting() const {
  constexpr uint32_t kExiting = 0x00000004;  // PF_EXITING
  return (flags & kExiting) != 0;
}

bool TaskStat::is_ending() const {
  const bool is_stopped = exit_code >= SIGSTOP && exit_code <= SIGTTOU;
  return is_exiting() || (exit_code != 0 && !is_stopped);
}

bool TaskStat::has_executed() const {
  constexpr uint32_t kForkNoExec = 0x00000040;  // PF_FORKNOEXEC
  return (flags & kForkNoExec) == 0;
}

TaskStat parse_stat(std::string_view text) {
  constexpr size_t kFlags = 9;
  constexpr size_t kStartTime = 22;
  constexpr size_t kExitSignal = 38;
  constexpr size_t kExitCode = 52;
  // The name may contain anything, even parentheses and blanks: it ends at the last ')'.
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    throw Error(ErrorKind::kBadInput, "a /proc/PID/stat is damaged", "it holds no name");
  }
  TaskStat stat;
  stat.tid = static_cast<int>(number_in_stat(text.substr(0, open)));
  stat.comm = text.substr(open + 1, close - open - 1);
  std::string_view rest = text.substr(close + 1);
  const std::string_view state = take_word(rest);
  if (!state.empty()) stat.state = state.front();
  for (size_t field = 4; field <= kExitCode; ++field) {
    const std::string_view word = take_word(rest);
    if (field == kFlags) stat.flags = static_cast<uint32_t>(number_in_stat(word));
    if (field == kStartTime) stat.start_time_ticks = number_in_stat(word);
    if (field == kExitSignal) {
      stat.exit_signal = static_cast<int>(parse_number(word).value_or(~uint64_t{0}));
    }
    if (field == kExitCode) stat.exit_code = static_cast<unsigned>(parse_number(word).value_or(0));
  }
  return stat;
}

std::string ProcFs::path(int pid, std::string_view entry) const {
  return root_ + "/" + std::to_string(pid) + "/" + std::string(entry);
}

std::string ProcFs::read(int pid, std::string_view entry) const {
  if (auto text = try_read(pid, entry)) return *std::move(text);
  throw TargetRefusal(pid, errno);
}

std::optional<std::string> ProcFs::try_read(int pid, std::string_view entry) const {
  // maps waits for a thread that is inside mmap(2), of a file on a server that does not answer;
  // before Linux 5.7, more entries wait for an execve(2). smaps takes long by itself.
  std::optional<BlockingCall> call;
  if (entry != "smaps") call.emplace("reading /proc/PID of the process");
  return read_kernel_text(path(pid, entry), kLongestEntry);
}

std::optional<TaskStat> ProcFs::try_stat(int pid) const {
  const auto text = try_read(pid, "stat");
  if (!text || text->empty()) return std::nullopt;
  return parse_stat(*text);
}

std::string ProcFs::comm(int pid) const {
  std::string name = try_read(pid, "comm").value_or(std::string());
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

std::string ProcFs::command_line(int pid) const {
  std::string line = read_front(path(pid, "cmdline"), kLongestCommandLine);
  std::replace(line.begin(), line.end(), '\0', ' ');
  // A program that writes a title of its own fills what is left.
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

std::vector<int> ProcFs::task_list(int pid) const {
  return numbers_in(path(pid, "task"));
}

std::vector<int> ProcFs::children(int pid) const {
  std::vector<int> children;
  for (const int tid : task_list(pid)) {
    const auto text = try_read(pid, "task/" + std::to_string(tid) + "/children");
    if (text) append_numbers(*text, children);
  }
  return children;
}

std::vector<int> ProcFs::children_of_thread(int tid) const {
  std::vector<int> children;
  if (const auto text = try_read(tid, "task/" + std::to_string(tid) + "/children")) {
    append_numbers(*text, children);
    return children;
  }
  const auto parent = status_number(try_read(tid, "status").value_or(std::string()), "Tgid");
  if (!parent) return children;
  for (const int pid : numbers_in(root_)) {
    const std::string status = try_read(pid, "status").value_or(std::string());
    if (status_number(status, "PPid") == parent) children.push_back(pid);
  }
  return children;
}

std::optional<int> ProcFs::live_tid(int pid) const {
  // Listed threads may exit, and new ones start, before we look at them.
  constexpr int kMostLists = 100;
  for (int lists = 1;; ++lists) {
    const std::vector<int> listed = task_list(pid);
    std::optional<int> exiting;
    for (const int tid : listed) {
      const auto task = try_stat(tid);
      if (!task || task->is_dead()) continue;
      if (!task->is_exiting()) return tid;
      if (!exiting) exiting = tid;
    }
    if (exiting || listed.size() <= 1 || lists == kMostLists) return exiting;
  }
}

ProcFs::Sizes ProcFs::sizes(int pid) const {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::string text = try_read(pid, "statm").value_or(std::string());
  std::string_view rest = text;
  const uint64_t mapped = parse_number(take_word(rest)).value_or(0);
  return {mapped * page, parse_number(take_word(rest)).value_or(0) * page};
}

Process ProcFs::describe(int pid) const {
  const std::string named = read(pid, "status");
  Process process;
  process.pid = static_cast<int>(status_number(named, "Tgid").value_or(0));
  const TaskStat leader = stat(process.pid);
  if (leader.is_kernel_task()) {
    throw Error(ErrorKind::kUnsupported, "cannot inspect process " + std::to_string(pid),
                "it is a kernel thread and has no memory of its own",
                "name a program's process: ps -eo pid,user,comm,rss --sort=-rss | head -20");
  }
  const auto alive = live_tid(process.pid);
  if (!alive) {
    const uint64_t parent = status_number(named, "PPid").value_or(0);
    throw Error(ErrorKind::kNoProcess, "cannot inspect process " + std::to_string(pid),
                "it has ended and waits to be reaped by its parent (a zombie)",
                parent == 0
                    ? std::string()
                    : "look at the parent: ps -o pid,stat,args -p " + std::to_string(parent));
  }
  const std::string status = read(*alive, "status");
  // An exiting thread gives up its memory, and with it the executable, before it is gone.
  process.exe = link_target_or_empty(path(*alive, "exe"));
  if (process.exe.empty() && live_tid(process.pid) != alive) throw TargetRefusal(pid, ESRCH);
  process.comm = leader.comm;
  process.machine = machine_of(path(*alive, "exe"));
  process.command_line = command_line(*alive);
  utsname host{};
  if (::uname(&host) == 0) process.hostname = host.nodename;
  process.boot_id = trimmed(kernel_text_or_empty(root_ + "/sys/kernel/random/boot_id"));
  process.start_time_ticks = leader.start_time_ticks;
  process.uid = static_cast<uint32_t>(status_number(status, "Uid").value_or(0));
  process.page_size = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  process.rss = status_bytes(status, "VmRSS").value_or(0);
  process.swap = status_bytes(status, "VmSwap").value_or(0);
  return process;
}

}  // namespace heapsnap
