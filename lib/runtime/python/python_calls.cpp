#include "runtime/python/python_calls.h"

#include <optional>

#include "base/file_name.h"

namespace heapsnap {

namespace {

// pthread_getspecific() of the C library, which is in a library of its own before glibc 2.34.
Address find_get_specific(const LoadedModules& modules) {
  for (const LoadedModule& module : modules.all()) {
    const std::string_view name = file_name_of(module.path());
    if (!name.starts_with("libc.so") && !name.starts_with("libc-") &&
        !name.starts_with("libpthread")) {
      continue;
    }
    const ElfSymbol* const symbol = module.image().find_dynamic_symbol("pthread_getspecific");
    if (symbol != nullptr) return module.bias + symbol->value;
  }
  return {};
}

class Finding {
 public:
  Finding(Target& target, const LoadedModules& modules, const PythonPlace& place)
      : target_(target), modules_(modules), place_(place) {
    found_.name = "Python " + place.version;
    found_.module = place.module;
  }

  InterpreterPlace find() {
    found_.why_not = refusal();
    if (!found_.why_not.empty()) found_.layout = {};
    return std::move(found_);
  }

 private:
  std::string refusal() {
    if (place_.layout == nullptr) return place_.why_not;
    const PythonLayout& from = *place_.layout;
    if (!from.has_calls()) {
      return "the tracker reads frames of Python 3.11 to 3.13 only";
    }
    std::vector<Address> interpreters;
    std::string why_not = check_python(target_, place_, &interpreters);
    if (!why_not.empty()) {
      found_.may_start_later = true;
      return why_not;
    }
    if (!has_known_interpreters(target_, place_)) {
      return "its frames are laid out otherwise than in other builds of " + place_.version;
    }
    if (!find_lock(interpreters)) {
      return "its lock is not where other builds of " + place_.version + " have it";
    }
    if (!find_key()) {
      found_.may_start_later = true;
      return "its threads do not know their states yet";
    }
    if (!find_symbols()) return "it does not export what its frames are known by";
    const Address get_specific = find_get_specific(modules_);
    if (get_specific.is_null()) return "the C library's pthread_getspecific was not found";
    found_.layout.thread_specific = get_specific.value();
    fill_offsets();
    found_.layout.kind = tracker::kInterpreterPython;
    return {};
  }

  // In _PyRuntime, where it cannot be freed.
  uint64_t runtime_word(Address at) const {
    const AddressRange runtime{place_.runtime, place_.runtime + place_.runtime_size};
    return runtime.contains(at, sizeof(uint64_t)) ? at.value() : 0;
  }

  // Py_tss_t: whether there is a key, and which. None is made while Python runs.
  bool find_key() {
    const Address at = place_.runtime + place_.layout->runtime_thread_key;
    const auto is_made = target_.memory().read_value<uint32_t>(at);
    const auto key = target_.memory().read_value<uint32_t>(at + sizeof(uint32_t));
    if (is_made != 1U || !key) return false;
    found_.layout.key = *key;
    return true;
  }

  bool find_lock(const std::vector<Address>& interpreters) {
    const PythonLayout& from = *place_.layout;
    tracker::InterpreterLayout& to = found_.layout;
    if (from.runtime_current_thread != 0) {
      to.holder = runtime_word(place_.runtime + from.runtime_current_thread);
      return to.holder != 0;
    }
    // Of several, each may have a lock of its own.
    if (interpreters.size() != 1) return false;
    uint64_t held = from.interpreter_lock_held;
    uint64_t holder = from.interpreter_lock_holder;
    if (from.debug_interpreter_lock_held != 0) {
      MemoryReader& memory = target_.memory();
      held = memory.read_value<uint64_t>(place_.runtime + from.debug_interpreter_lock_held)
                 .value_or(0);
      holder = memory.read_value<uint64_t>(place_.runtime + from.debug_interpreter_lock_holder)
                   .value_or(0);
    }
    if (held > place_.runtime_size || holder > place_.runtime_size) return false;
    to.locked = runtime_word(interpreters.front() + held);
    to.holder = runtime_word(interpreters.front() + holder);
    return to.locked != 0 && to.holder != 0;
  }

  bool find_symbols() {
    const uint32_t number = modules_.find(place_.runtime);
    if (number == LoadedModules::kNone) return false;
    const LoadedModule& module = modules_[number];
    const auto symbol = [&](const char* name) { return module.image().find_dynamic_symbol(name); };
    const auto address = [&](const char* name) {
      const ElfSymbol* const found = symbol(name);
      return found == nullptr ? uint64_t{0} : (module.bias + found->value).value();
    };
    tracker::InterpreterLayout& to = found_.layout;
    to.code_type = address("PyCode_Type");
    to.text_type = address("PyUnicode_Type");
    to.bytes_type = address("PyBytes_Type");
    // Without it the frames are there, but nobody knows where among the native ones.
    if (const ElfSymbol* const loop = symbol("_PyEval_EvalFrameDefault")) {
      to.loop_begin = (module.bias + loop->value).value();
      to.loop_end = to.loop_begin + loop->size;
    }
    return to.code_type != 0 && to.text_type != 0 && to.bytes_type != 0;
  }

  void fill_offsets() {
    const PythonLayout& from = *place_.layout;
    tracker::InterpreterLayout& to = found_.layout;
    to.thread_frame = from.thread_frame;
    to.c_frame_current = from.has_c_frame ? from.c_frame_current : tracker::kNoOffset;
    to.frame_previous = from.frame_previous;
    to.frame_code = from.frame_code;
    to.frame_instruction = from.frame_instruction;
    to.frame_owner = from.frame_owner;
    to.frame_entry = from.frame_entry != 0 ? from.frame_entry : tracker::kNoOffset;
    to.code_name = from.code_name;
    to.code_file = from.code_file;
    to.code_first_line = from.code_first_line;
    to.code_lines = from.code_lines;
    to.code_instructions = from.code_instructions;
    to.code_first_traceable = from.code_first_traceable;
    to.text_length = from.text_length;
    to.text_state = from.text_state;
    to.text_ascii = from.text_ascii_size;
    to.text_wide = from.text_compact_size;
  }

  Target& target_;
  const LoadedModules& modules_;
  const PythonPlace& place_;
  InterpreterPlace found_;
};

}  // namespace

InterpreterPlace python_calls(Target& target, const LoadedModules& modules,
                              const PythonPlace& place) {
  return Finding(target, modules, place).find();
}

}  // namespace heapsnap
