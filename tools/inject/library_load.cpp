#include "tools/inject/library_load.h"

#include <dlfcn.h>

#include <string_view>

#include "base/error.h"
#include "platform/linux/proc_fs.h"

namespace heapsnap {

namespace {

constexpr size_t kMessageSize = 512;
// For callers inside of glibc; __libc_dlopen_mode demands it (elf/dl-libc.c).
constexpr uint64_t kInternalMode = 0x80000000;

using Value = CallList::Value;

struct Loader {
  Address open;
  Address look_up;
  Address error;  // null where there is none
  uint64_t mode = RTLD_NOW;
};

// dlopen is in libc since 2.34, in libdl before; a program that does not use libdl still has what
// libc itself loads its modules with.
Loader find_loader(const CLibrary& libc) {
  Loader loader{libc.find_function("dlopen"), libc.find_function("dlsym"),
                libc.find_function("dlerror")};
  if (!loader.open.is_null() && !loader.look_up.is_null()) return loader;
  return {libc.function("__libc_dlopen_mode"), libc.function("__libc_dlsym"), Address(),
          RTLD_NOW | kInternalMode};
}

LibraryCallResult run(Target& target, const CLibrary& libc, const InjectedWork& work,
                      CallList::Step step) {
  LibraryCallResult result;
  result.injection =
      run_on_injected_thread(ProcFs(), target.process().pid, libc.recipe(), work, target.memory());
  result.value = static_cast<int>(result.injection.results.at(step));
  return result;
}

// Opens the library by `path`, calls the function, closes the file where one was given.
LibraryCallResult open_and_call(Target& target, const CLibrary& libc, const LibraryLoad& load,
                                CallList& calls, Value path, uint64_t mode, bool has_file) {
  const Loader loader = find_loader(libc);
  const CallList::Data message = calls.reserve(kMessageSize);
  const CallList::Data name = calls.put_text(load.call.function);
  const CallList::Data argument = calls.put(load.call.argument);
  const Value close = has_file ? CallList::address(libc.function("close")) : CallList::number(0);

  const auto open =
      calls.call(CallList::address(loader.open), {path, CallList::number(loader.mode | mode)});
  const auto look_up = calls.call(CallList::address(loader.look_up),
                                  {CallList::result_of(open), CallList::address_of(name)});
  const auto call = calls.call(CallList::result_of(look_up), {CallList::address_of(argument)});
  const auto end = calls.call(close, {CallList::file()});
  const auto error = calls.call(CallList::address(loader.error), {});
  const auto copy =
      calls.call(CallList::copy_text(), {CallList::address_of(message), CallList::result_of(error),
                                         CallList::number(kMessageSize - 1)});
  const auto end_after_error = calls.call(close, {CallList::file()});
  calls.go_on(end, CallList::kEnd);
  calls.go_on_if_zero(open, error);
  calls.go_on_if_zero(look_up, error);
  calls.go_on_if_zero(error, end_after_error);
  calls.go_on(copy, end_after_error);

  InjectedWork work;
  work.calls = &calls;
  if (has_file) work.file = GivenFile{load.name, load.bytes};
  work.system_calls = load.system_calls;
  work.optional_system_calls = load.optional_system_calls;
  LibraryCallResult result = run(target, libc, work, call);
  const InjectionResult& injection = result.injection;
  if (injection.results.at(open) == 0 || injection.results.at(look_up) == 0) {
    const std::string why = injection.texts.at(message).data();
    throw Error(
        ErrorKind::kUnsupported,
        load.name + " could not be loaded into process " + std::to_string(target.process().pid),
        why.empty() ? "its loader refused, and does not say why" : why);
  }
  return result;
}

}  // namespace

LibraryCallResult load_library(Target& target, const CLibrary& libc, const LibraryLoad& load) {
  CallList calls;
  return open_and_call(target, libc, load, calls, CallList::file_path(), 0, true);
}

LibraryCallResult call_library(Target& target, const CLibrary& libc, const std::string& name,
                               const LibraryLoad& load) {
  CallList calls;
  const CallList::Data path = calls.put_text(name);
  return open_and_call(target, libc, load, calls, CallList::address_of(path), RTLD_NOLOAD, false);
}

LibraryCallResult call_function(Target& target, const CLibrary& libc, Address function,
                                uint64_t argument) {
  CallList calls;
  const auto call = calls.call(CallList::address(function), {CallList::number(argument)});
  InjectedWork work;
  work.calls = &calls;
  return run(target, libc, work, call);
}

}  // namespace heapsnap
