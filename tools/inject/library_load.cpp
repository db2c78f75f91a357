#include "tools/inject/library_load.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <random>
#include <string_view>

#include "base/count_text.h"
#include "base/error.h"
#include "base/page.h"
#include "platform/linux/inject/descriptor_path.h"
#include "platform/linux/proc/memory_room.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/proc/resource_limits.h"

namespace heapsnap {

namespace {

constexpr size_t kMessageSize = 512;
// For callers inside of glibc; __libc_dlopen_mode demands it (elf/dl-libc.c).
constexpr uint64_t kInternalMode = 0x80000000;

using Value = CallList::Value;
using Step = CallList::Step;

struct Loader {
  Address open;
  Address look_up;
  Address close;
  Address error;  // null where there is none
  uint64_t mode = RTLD_NOW;
};

// dlopen is in libc since 2.34, in libdl before; a program that does not use libdl still has what
// libc itself loads its modules with.
Loader find_loader(const CLibrary& libc) {
  Loader loader{libc.find_function("dlopen"), libc.find_function("dlsym"),
                libc.find_function("dlclose"), libc.find_function("dlerror")};
  if (!loader.open.is_null() && !loader.look_up.is_null()) return loader;
  return {libc.function("__libc_dlopen_mode"), libc.function("__libc_dlsym"),
          libc.function("__libc_dlclose"), Address(), RTLD_NOW | kInternalMode};
}

// What dlopen can fail at: in which way it asks for the size of a file depends on glibc's version,
// whether it reads more than the first part on the file.
std::vector<SystemCall> fallible_loader_calls() {
  return {
      {SYS_fstat, {3, 0, 0, 0, 0, 0}},
      {SYS_newfstatat, {3, 0, 0, AT_EMPTY_PATH, 0, 0}},
      {SYS_pread64, {3, 0, kPage, 0, 0, 0}},
  };
}

// What else dlopen does, and what makes its file.
std::vector<SystemCall> loader_calls(bool has_file) {
  std::vector<SystemCall> calls{
      {SYS_openat, {static_cast<uint64_t>(AT_FDCWD), 0, O_RDONLY | O_CLOEXEC, 0, 0, 0}},
      {SYS_read, {3, 0, 832, 0, 0, 0}},
      {SYS_close, {3, 0, 0, 0, 0, 0}},
      {SYS_mmap, {0, kPage, PROT_READ, MAP_PRIVATE | MAP_DENYWRITE, 3, 0}},
      {SYS_mmap,
       {kPage, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_DENYWRITE | MAP_FIXED, 3, 0}},
      {SYS_mprotect, {kPage, kPage, PROT_READ, 0, 0, 0}},
      {SYS_write, {3, 0, kPage, 0, 0, 0}},
  };
  if (has_file) {
    calls.push_back({SYS_unlink, {}});
  } else {
    calls.push_back({SYS_memfd_create, {0, MFD_CLOEXEC, 0, 0, 0, 0}});
    calls.push_back({SYS_readlink, {}});
  }
  return calls;
}

// The link itself: in the /proc of another pid namespace it leads nowhere for us.
bool sees_proc(int pid) {
  const int tid = ProcFs().live_tid(pid).value_or(pid);
  const std::string link = ProcFs().path(tid, "root/proc/thread-self");
  return ::faccessat(AT_FDCWD, link.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

std::string random_digits() {
  std::random_device random;
  return std::to_string(random()) + std::to_string(random());
}

// By this name it is no file of anybody's; the kernel's for it, where it is a memory file.
std::string final_name(const LibraryLoad& load) {
  return "/memfd:" + load.name + " (deleted)";
}

// The library is written to a file, if only one in memory.
void check_file_size(int pid, const LibraryLoad& load) {
  const ProcFs proc;
  const auto limits = proc.try_read(proc.live_tid(pid).value_or(pid), "limits");
  const auto limit = soft_limit(limits.value_or(std::string()), "Max file size");
  if (!limit || *limit >= load.bytes.size()) return;
  throw Error(
      ErrorKind::kUnsupported, load.name + " cannot be loaded into process " + std::to_string(pid),
      "ulimit -f of it allows files of " + size_text(*limit) +
          ", and it would have to write one of " + size_text(load.bytes.size()) + " in memory",
      "raise the limit: prlimit --pid " + std::to_string(pid) + " --fsize=unlimited");
}

// The steps of a worker that opens a library and calls a function of it.
class LoaderCalls {
 public:
  LoaderCalls(const CLibrary& libc, const LibraryLoad& load)
      : libc_(libc),
        load_(load),
        loader_(find_loader(libc)),
        message_(calls_.reserve(kMessageSize)),
        function_(calls_.put_text(load.call.function)),
        argument_(calls_.put(load.call.argument)),
        final_name_(calls_.put_text(final_name(load))) {}

  CallList& list() { return calls_; }

  void open_loaded(const std::string& name) {
    const Step opened = open(CallList::address_of(calls_.put_text(name)), RTLD_NOLOAD);
    const Step looked_up = look_up(opened);
    const Step called = call_function(looked_up);
    const Step closed =
        calls_.call(CallList::address(loader_.close), {CallList::result_of(opened)});
    const Message message = tell_error();
    calls_.go_on_if_zero(opened, message.error);
    calls_.go_on_if_zero(looked_up, closed);
    calls_.go_on(closed, CallList::kEnd);
    calls_.go_on_if_zero(message.error, CallList::kEnd);
    attempts_.push_back({opened, looked_up, called});
  }

  void open_injected_memfd() {
    const auto name = calls_.put_text(load_.name);
    const Step file = call("syscall", {CallList::number(SYS_memfd_create),
                                       CallList::address_of(name), CallList::number(MFD_CLOEXEC)});
    // Room for the name that the library gets in the end.
    const Value path = add_descriptor_path(
        calls_, {libc_.function("readlink"), libc_.function("basename"), libc_.function("sprintf")},
        file, final_name(load_).size());
    load_from(file, path, false);
  }

  // In the first folder that takes a file and lets it be mapped.
  void open_visible_file() {
    constexpr std::array<const char*, 5> kFolders{"/dev/shm", "/run", "/tmp", "/var/tmp", ""};
    constexpr uint64_t kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    constexpr uint64_t kOwnersOnly = 0700;
    const std::string name = "/." + random_digits() + "-" + load_.name;
    for (const char* const folder : kFolders) {
      const auto path = calls_.put_text(folder + name);
      const Step file = call("open", {CallList::address_of(path), CallList::number(kFlags),
                                      CallList::number(kOwnersOnly)});
      load_from(file, CallList::address_of(path), true);
    }
  }

  // What the function returned; nothing when it was not called.
  std::optional<int64_t> value(const InjectionResult& injection) const {
    for (const Attempt& attempt : attempts_) {
      const bool is_called =
          injection.results.at(attempt.open) != 0 && injection.results.at(attempt.look_up) != 0;
      if (is_called) return static_cast<int>(injection.results.at(attempt.call));
    }
    return std::nullopt;
  }
  std::string message(const InjectionResult& injection) const {
    return injection.texts.at(message_).data();
  }

 private:
  struct Attempt {
    Step open, look_up, call;
  };

  Step call(const char* function, std::initializer_list<Value> arguments) {
    return calls_.call(CallList::address(libc_.function(function)), arguments);
  }
  Step open(Value path, uint64_t mode) {
    return calls_.call(CallList::address(loader_.open),
                       {path, CallList::number(loader_.mode | mode)});
  }
  Step look_up(Step opened) {
    return calls_.call(CallList::address(loader_.look_up),
                       {CallList::result_of(opened), CallList::address_of(function_)});
  }
  Step call_function(Step looked_up) {
    return calls_.call(CallList::result_of(looked_up), {CallList::address_of(argument_)});
  }
  struct Message {
    Step error, copy;
  };
  Message tell_error() {
    const Step error = calls_.call(CallList::address(loader_.error), {});
    const Step copy = calls_.call(CallList::copy_text(),
                                  {CallList::address_of(message_), CallList::result_of(error),
                                   CallList::number(kMessageSize - 1)});
    return {error, copy};
  }
  // Gives the first step.
  Step let_go(Step file, Value path, bool has_name) {
    const Step close = call("close", {CallList::result_of(file)});
    if (has_name) call("unlink", {path});
    return close;
  }

  // `file` is a step that opens a new file: the library is written into it and loaded from there.
  // The step that comes next is taken where that fails.
  void load_from(Step file, Value path, bool has_name) {
    call("write",
         {CallList::result_of(file), CallList::attachment(), CallList::number(load_.bytes.size())});
    const Step opened = open(path, 0);
    let_go(file, path, has_name);
    calls_.call(CallList::rename(),
                {CallList::result_of(opened), CallList::address_of(final_name_)});
    const Step looked_up = look_up(opened);
    const Step called = call_function(looked_up);
    const Message message = tell_error();
    const Step end_of_file = let_go(file, path, has_name);
    calls_.go_on_if_zero(opened, message.error);
    calls_.go_on_if_zero(message.error, end_of_file);
    calls_.go_on_if_zero(looked_up, CallList::kEnd);
    calls_.go_on(called, CallList::kEnd);
    attempts_.push_back({opened, looked_up, called});
  }

  const CLibrary& libc_;
  const LibraryLoad& load_;
  Loader loader_;
  CallList calls_;
  CallList::Data message_;
  CallList::Data function_;
  CallList::Data argument_;
  CallList::Data final_name_;
  std::vector<Attempt> attempts_;
};

LibraryCallResult make_calls(Target& target, const CLibrary& libc, const LibraryLoad& load,
                             LoaderCalls& calls, InjectedWork& work) {
  work.calls = &calls.list();
  work.system_calls.insert(work.system_calls.end(), load.system_calls.begin(),
                           load.system_calls.end());
  work.optional_system_calls.insert(work.optional_system_calls.end(),
                                    load.optional_system_calls.begin(),
                                    load.optional_system_calls.end());
  work.address_space = load.address_space;
  work.last_resort = load.last_resort;
  const int pid = target.process().pid;
  LibraryCallResult result;
  result.injection =
      run_on_injected_thread(ProcFs(), pid, libc.thread_layout(), work, target.memory());
  const std::optional<int64_t> value = calls.value(result.injection);
  if (!value) {
    const std::string why = calls.message(result.injection);
    throw Error(ErrorKind::kUnsupported,
                load.name + " could not be loaded into process " + std::to_string(pid),
                why.empty() ? "its loader refused and gave no reason" : why);
  }
  result.value = *value;
  return result;
}

}  // namespace

LibraryCallResult load_library(Target& target, const CLibrary& libc, const LibraryLoad& load) {
  check_file_size(target.process().pid, load);
  LoaderCalls calls(libc, load);
  const bool has_name = !sees_proc(target.process().pid);
  if (has_name) {
    calls.open_visible_file();
  } else {
    calls.open_injected_memfd();
  }
  InjectedWork work;
  work.attachment = load.bytes;
  work.system_calls = loader_calls(has_name);
  work.optional_system_calls = fallible_loader_calls();
  return make_calls(target, libc, load, calls, work);
}

LibraryCallResult call_library(Target& target, const CLibrary& libc, const std::string& name,
                               const LibraryLoad& load) {
  LoaderCalls calls(libc, load);
  calls.open_loaded(name);
  InjectedWork work;
  return make_calls(target, libc, load, calls, work);
}

LibraryCallResult call_function(Target& target, const CLibrary& libc, Address function,
                                uint64_t argument) {
  CallList calls;
  const auto call = calls.call(CallList::address(function), {CallList::number(argument)});
  InjectedWork work;
  work.calls = &calls;
  LibraryCallResult result;
  result.injection = run_on_injected_thread(ProcFs(), target.process().pid, libc.thread_layout(),
                                            work, target.memory());
  result.value = static_cast<int>(result.injection.results.at(call));
  return result;
}

}  // namespace heapsnap
