#include "references/stack_frames.h"

#include <elf.h>
#include <elfutils/libdwfl.h>
#include <libelf.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <span>
#include <string>

#include "references/unwind_image.h"
#include "target/page_cache.h"

namespace heapsnap {

namespace {

constexpr uint64_t kMostVdso = 64 << 10;

// The return address has a number of its own in .eh_frame of x86.
constexpr unsigned return_address_number(Machine machine) {
  return machine == Machine::kX86_64 ? 16 : 8;
}

// A module as libdwfl knows it. The first segment tells it the bias.
struct ReportedModule {
  std::span<const std::byte> file;
  AddressRange range;
  UnwindImage image = {};  // made when it is asked for
};

class StackUnwinder {
 public:
  StackUnwinder(Target& target, const LoadedModules& modules, const UnwindLimits& limits)
      : target_(target),
        cache_(target.memory()),
        machine_(target.process().machine),
        word_(word_size(machine_)),
        limits_(limits) {
    if (elf_version(EV_CURRENT) == EV_NONE) return;
    dwfl_.reset(dwfl_begin(&kCallbacks));
    if (!dwfl_) return;
    list_modules(modules);
    dwfl_report_begin(dwfl_.get());
    for (size_t i = 0; i < reported_.size(); ++i) report(i);
    dwfl_report_end(dwfl_.get(), nullptr, nullptr);
    is_attached_ = dwfl_attach_state(dwfl_.get(), nullptr, std::max(target.process().pid, 1),
                                     &kThreadCallbacks, this);
  }
  StackUnwinder(const StackUnwinder&) = delete;
  StackUnwinder& operator=(const StackUnwinder&) = delete;

  std::vector<ThreadFrames> run() {
    std::vector<ThreadFrames> stacks;
    for (const Thread& thread : target_.threads()) {
      if (!thread.registers) continue;
      stacks.push_back({thread.tid, {}});
      thread_ = &thread;
      stack_ = &stacks.back();
      // Without its general registers, or in code of which nothing is known, a thread has its
      // innermost frame only.
      if (is_attached_ && thread.registers->general.are_known) {
        dwfl_getthread_frames(dwfl_.get(), thread.tid, on_frame, this);
      }
      if (failure_) std::rethrow_exception(failure_);
      if (stack_->frames.empty()) {
        stack_->frames.push_back(
            {thread.registers->stack_pointer, thread.registers->instruction_pointer});
      }
      total_ += stack_->frames.size();
    }
    return stacks;
  }

 private:
  struct End {
    void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
  };
  static const Dwfl_Callbacks kCallbacks;
  static const Dwfl_Thread_Callbacks kThreadCallbacks;

  void list_modules(const LoadedModules& modules) {
    for (const LoadedModule& module : modules.all()) {
      const auto& segments = module.image().segments();
      const auto first =
          std::find_if(segments.begin(), segments.end(),
                       [](const ElfSegment& segment) { return segment.type == PT_LOAD; });
      const bool is_loadable = module.image().type() == ET_EXEC || module.image().type() == ET_DYN;
      if (!is_loadable || first == segments.end()) continue;
      // open_elf() of libdwfl takes the bias to be the module's begin less this.
      const uint64_t alignment = std::max<uint64_t>(first->alignment, 1);
      const Address begin = module.bias + (first->address & (0 - alignment));
      reported_.push_back({module.image().file_bytes(), {begin, module.range.end}, {}});
    }
    for (const Mapping& mapping : target_.address_space().mappings()) {
      if (mapping.path != "[vdso]") continue;
      vdso_.resize(std::min(mapping.range.size(), kMostVdso));
      vdso_.resize(cache_.read(mapping.range.begin, vdso_));
      reported_.push_back({vdso_, mapping.range, {}});
      break;
    }
    std::sort(reported_.begin(), reported_.end(),
              [](const ReportedModule& a, const ReportedModule& b) { return a.range < b.range; });
    // libdwfl asserts that modules are apart.
    std::vector<ReportedModule> apart;
    for (const ReportedModule& module : reported_) {
      if (module.range.is_empty()) continue;
      if (apart.empty() || apart.back().range.end <= module.range.begin) {
        apart.push_back({module.file, module.range, {}});
      }
    }
    reported_ = std::move(apart);
  }

  void report(size_t number) {
    const ReportedModule& module = reported_[number];
    const std::string name = std::to_string(number);  // unique, or they would be merged
    Dwfl_Module* const reported = dwfl_report_module(
        dwfl_.get(), name.c_str(), module.range.begin.value(), module.range.end.value());
    void** user = nullptr;
    if (reported == nullptr || dwfl_module_info(reported, &user, nullptr, nullptr, nullptr, nullptr,
                                                nullptr, nullptr) == nullptr) {
      return;
    }
    *user = &reported_[number];
  }

  // What follows is called by libdw, through which nothing may be thrown.

  static int find_elf(Dwfl_Module*, void** user, const char*, Dwarf_Addr, char**, Elf** elf) {
    constexpr int kNoDescriptor = -1;
    auto* const module = static_cast<ReportedModule*>(*user);
    if (module == nullptr) return kNoDescriptor;
    try {
      module->image = unwind_image(module->file);
    } catch (...) {
      return kNoDescriptor;  // no ELF file after all: the kernel's, of a core that lacks it
    }
    if (module->image.size != 0) {
      *elf = elf_memory(reinterpret_cast<char*>(module->image.bytes.get()), module->image.size);
    }
    return kNoDescriptor;
  }
  static int find_debuginfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*,
                            GElf_Word, char**) {
    return -1;
  }

  // Asked for relocatable files only.
  static int section_address(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, GElf_Word,
                             const GElf_Shdr*, Dwarf_Addr*) {
    return -1;
  }

  static pid_t next_thread(Dwfl*, void* self, void** thread_argument) {
    const bool is_first = *thread_argument == nullptr;
    *thread_argument = self;
    return is_first ? static_cast<StackUnwinder*>(self)->thread_->tid : 0;
  }
  static bool get_thread(Dwfl*, pid_t tid, void* self, void** thread_argument) {
    *thread_argument = self;
    return tid == static_cast<StackUnwinder*>(self)->thread_->tid;
  }
  static bool read_memory(Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void* self) {
    return static_cast<StackUnwinder*>(self)->read_word(address, *result);
  }
  static bool set_registers(Dwfl_Thread* thread, void* self) {
    return static_cast<StackUnwinder*>(self)->give_registers(thread);
  }
  static int on_frame(Dwfl_Frame* frame, void* self) {
    return static_cast<StackUnwinder*>(self)->add_frame(frame) ? DWARF_CB_OK : DWARF_CB_ABORT;
  }

  bool read_word(Dwarf_Addr address, Dwarf_Word& result) {
    try {
      const auto value = cache_.word(Address(address), word_);
      if (value) result = *value;
      return value.has_value();
    } catch (...) {
      failure_ = std::current_exception();
      return false;
    }
  }

  bool give_registers(Dwfl_Thread* thread) const {
    const Registers& registers = *thread_->registers;
    std::array<Dwarf_Word, 33> values{};
    unsigned count = general_register_count(machine_);
    std::copy_n(registers.general.values.begin(), count, values.begin());
    const uint64_t at = registers.instruction_pointer.value();
    if (machine_ != Machine::kAarch64) {
      values.at(return_address_number(machine_)) = at;
      count = return_address_number(machine_) + 1;
    }
    if (!dwfl_thread_state_registers(thread, 0, count, values.data())) return false;
    dwfl_thread_state_register_pc(thread, at);
    return true;
  }

  bool add_frame(Dwfl_Frame* frame) {
    Dwarf_Addr at = 0;
    bool is_exact = false;
    Dwarf_Word stack_pointer = 0;
    if (!dwfl_frame_pc(frame, &at, &is_exact) ||
        dwfl_frame_reg(frame, stack_register(machine_), &stack_pointer) != 0) {
      return false;
    }
    const StackFrame added{Address(stack_pointer), Address(at - (is_exact ? 0 : 1))};
    // Frame pointers may be any words.
    const Mapping* const code = target_.address_space().find(added.code);
    const bool is_code = code != nullptr && code->executable;
    if (!is_code && !stack_->frames.empty()) return false;
    try {
      stack_->frames.push_back(added);
    } catch (...) {
      failure_ = std::current_exception();
      return false;
    }
    const size_t count = stack_->frames.size();
    return count < limits_.frames_per_thread && total_ + count < limits_.frames;
  }

  Target& target_;
  PageCache cache_;
  Machine machine_;
  unsigned word_;
  UnwindLimits limits_;
  std::vector<std::byte> vdso_;
  std::vector<ReportedModule> reported_;
  std::unique_ptr<Dwfl, End> dwfl_;
  bool is_attached_ = false;
  const Thread* thread_ = nullptr;  // that is unwound
  ThreadFrames* stack_ = nullptr;
  size_t total_ = 0;
  std::exception_ptr failure_;
};

const Dwfl_Callbacks StackUnwinder::kCallbacks = {find_elf, find_debuginfo, section_address,
                                                  nullptr};
const Dwfl_Thread_Callbacks StackUnwinder::kThreadCallbacks = {
    next_thread, get_thread, read_memory, set_registers, nullptr, nullptr};

}  // namespace

std::vector<ThreadFrames> unwind_stacks(Target& target, const LoadedModules& modules,
                                        const UnwindLimits& limits) {
  return StackUnwinder(target, modules, limits).run();
}

}  // namespace heapsnap

#ifdef HEAPSNAP_STATIC
// libdwfl would load libdebuginfod from the system; a static program has no use of the system's
// libraries. Nothing here asks for files. (libdwfl/debuginfod-client.c of elfutils.)
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): their names
void __libdwfl_debuginfod_end(debuginfod_client*) {}
int __libdwfl_debuginfod_find_executable(Dwfl*, const unsigned char*, size_t) {
  return -1;
}
int __libdwfl_debuginfod_find_debuginfo(Dwfl*, const unsigned char*, size_t) {
  return -1;
}
// NOLINTEND(bugprone-reserved-identifier)
debuginfod_client* dwfl_get_debuginfod_client(Dwfl*) {
  return nullptr;
}
}
#endif
